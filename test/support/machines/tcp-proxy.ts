import { createConnection, createServer, type Socket } from 'node:net';

/** A way to a server that can be cut, and mended. */
export interface TcpProxy {
  readonly port: number;
  /** All connections end, and none is taken. */
  cut(): Promise<void>;
  mend(): Promise<void>;
  /** Cuts the way when the server next says this, after a client has said these one after the other: it gets lost. */
  cutAnswer(after: readonly string[], answer: string): void;
  /** Whether the last answer that was to be cut off was. */
  readonly hasCut: boolean;
  /** What is underway stays so, and nothing more gets through: from now on, or once a client says this. */
  silence(word?: string): void;
  readonly isSilent: boolean;
  close(): Promise<void>;
}

export async function startTcpProxy(targetPort: number): Promise<TcpProxy> {
  const sockets = new Set<Socket>();
  let trap: { readonly after: string[]; readonly answer: string } | null = null;
  let isSilent = false;
  let lastWord: string | null = null;
  let hasCut = false;
  const server = createServer((client) => {
    const upstream = createConnection(targetPort, '127.0.0.1');
    for (const [one, other] of [
      [client, upstream],
      [upstream, client],
    ] as const) {
      sockets.add(one);
      one.on('error', () => {});
      one.on('close', () => {
        sockets.delete(one);
        if (!isSilent) other.destroy();
      });
    }
    client.on('data', (bytes) => {
      isSilent ||= lastWord !== null && bytes.includes(lastWord);
      if (isSilent) return;
      if (trap?.after[0] !== undefined && bytes.includes(trap.after[0])) trap.after.shift();
      upstream.write(bytes);
    });
    upstream.on('data', (bytes) => {
      if (isSilent) return;
      if (trap?.after.length === 0 && bytes.includes(trap.answer)) {
        trap = null;
        hasCut = true;
        void cut();
      } else client.write(bytes);
    });
  });
  const listen = (port: number): Promise<void> => new Promise((resolve) => server.listen(port, '127.0.0.1', resolve));
  await listen(0);
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('No port is free.');
  const { port } = address;
  const cut = async (): Promise<void> => {
    const closed = server.listening ? new Promise((resolve) => server.close(resolve)) : null;
    for (const socket of sockets) socket.destroy();
    await closed;
  };
  return {
    port,
    cut,
    mend: async () => {
      isSilent = false;
      lastWord = null;
      if (!server.listening) await listen(port);
    },
    cutAnswer: (after, answer) => {
      trap = { after: [...after], answer };
      hasCut = false;
    },
    get hasCut() {
      return hasCut;
    },
    get isSilent() {
      return isSilent;
    },
    silence: (word) => {
      if (word === undefined) isSilent = true;
      else lastWord = word;
    },
    close: cut,
  };
}
