import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { createConnection, createServer, type Socket } from 'node:net';
import { onTestFinished } from 'vitest';

/**
 * `up`: all goes through. `down`: the cable was pulled at the far end: packets vanish, and nobody is told.
 * `unreachable`: the machine has no way to the address, and knows it.
 */
export type LinkState = 'up' | 'down' | 'unreachable';

/** A network namespace for a machine, and its cable to this host. */
export interface Link {
  /** This host's, as the machine has it. */
  readonly address: string;
  /** The machine's, as this host has it. */
  readonly machine: string;
  /** What stands before a command that is to run on the machine. */
  readonly enter: readonly string[];
  set(state: LinkState): void;
}

/** Networks of tests: https://www.rfc-editor.org/rfc/rfc2544. */
export const LINKS = '198.18.0.0/15';
const PREFIX = 'folder-runner-test';

let links = 0;

/** Until the test has ended. What is left by one that was killed goes with the next one. */
export function makeLink(): Link {
  sweep();
  links += 1;
  const name = `${PREFIX}-${process.pid}-${links}`;
  const device = deviceOf(name);
  onTestFinished(() => remove(name));
  const inside = (...args: readonly string[]): void => void ip('-n', name, ...args);
  ip('netns', 'add', name);
  ip('link', 'add', device, 'type', 'veth', 'peer', 'name', 'eth0', 'netns', name);
  const [here, there] = addressesOf(device);
  ip('address', 'add', `${here}/30`, 'dev', device);
  ip('link', 'set', device, 'up');
  inside('address', 'add', `${there}/30`, 'dev', 'eth0');
  inside('link', 'set', 'lo', 'up');
  inside('link', 'set', 'eth0', 'up');
  return {
    address: here,
    machine: there,
    enter: ['nsenter', `--net=/run/netns/${name}`],
    set: (state) => {
      // A route for one address comes before that of its network.
      inside('route', 'flush', 'type', 'unreachable');
      if (state === 'unreachable') inside('route', 'add', 'unreachable', `${here}/32`);
      ip('link', 'set', device, state === 'down' ? 'down' : 'up');
    },
  };
}

/** Two of four addresses that no other link of this host has: they go by the number of its device. */
function addressesOf(device: string): readonly [string, string] {
  const first = (Number(readFileSync(`/sys/class/net/${device}/ifindex`, 'utf8')) % 2 ** 15) * 4;
  const addressAt = (at: number): string => `198.${18 + (at >> 16)}.${(at >> 8) & 255}.${at & 255}`;
  return [addressAt(first + 1), addressAt(first + 2)];
}

function deviceOf(name: string): string {
  return name.replace(PREFIX, 'fr');
}

/** Why there can be none here; null: there can. */
export function findLinkFlaw(): string | null {
  if (process.getuid?.() !== 0) return 'only root can make network namespaces';
  const name = `${PREFIX}-${process.pid}-0`;
  try {
    ip('netns', 'add', name);
    ip('link', 'add', deviceOf(name), 'type', 'veth', 'peer', 'name', 'eth0', 'netns', name);
    execFileSync('nsenter', [`--net=/run/netns/${name}`, 'true'], { stdio: 'pipe' });
    return null;
  } catch (error) {
    return (error as Error).message.trim().replaceAll('\n', ' ');
  } finally {
    remove(name);
  }
}

function sweep(): void {
  for (const name of namespaces()) {
    const [, pid] = new RegExp(`^${PREFIX}-(\\d+)-`).exec(name) ?? [];
    if (pid !== undefined && !isAlive(Number(pid))) remove(name);
  }
}

function namespaces(): readonly string[] {
  return readOut('netns', 'list').map((line) => line.split(' ')[0] as string);
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

/** With all that runs in it: whoever is there keeps it. */
function remove(name: string): void {
  for (const pid of readOut('netns', 'pids', name)) {
    try {
      process.kill(Number(pid), 'SIGKILL');
    } catch {
      // It has ended by itself.
    }
  }
  readOut('link', 'delete', deviceOf(name));
  readOut('netns', 'delete', name);
}

/** Lines; none of what is not there. */
function readOut(...args: readonly string[]): readonly string[] {
  try {
    return ip(...args)
      .split('\n')
      .filter(Boolean);
  } catch {
    return [];
  }
}

function ip(...args: readonly string[]): string {
  return execFileSync('ip', args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] });
}

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
