import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';
import { onTestFinished } from 'vitest';
import type { Link, LinkState } from './link.ts';

/**
 * `open`: all goes through. `closed`: nobody is let in, and who is in is thrown out. `half-open`: connections stay, and
 * nothing goes through them, until all of them end. `slow`: each piece is late. Of a link alone: `unplugged`, when
 * packets vanish and connections outlast it, and `unreachable`.
 */
export type Weather = 'open' | 'closed' | 'half-open' | 'slow' | 'unplugged' | 'unreachable';

/** The network between a machine and the database. */
export interface Network {
  /** Where the machine finds the database: host and port. */
  readonly address: string;
  set(weather: Weather): void;
}

const SLOW_MS = 40;

const LINK_STATES: Partial<Record<Weather, LinkState>> = { unplugged: 'down', unreachable: 'unreachable' };

/** Until the test has ended. */
export async function startNetwork(
  target: { readonly host: string; readonly port: number },
  link: Link | null,
): Promise<Network> {
  const host = link?.address ?? '127.0.0.1';
  const sockets = new Set<Socket>();
  let weather: Weather = 'open';
  const keep = (socket: Socket): void => {
    sockets.add(socket);
    socket.on('error', () => {}).on('close', () => sockets.delete(socket));
  };
  const pass = (from: Socket, to: Socket): void => {
    from.on('data', (piece) => {
      // What is lost is lost: a connection that was cut in the midst of a statement is of no use again.
      if (weather === 'half-open') return void from.pause();
      if (weather === 'slow') setTimeout(() => to.writable && to.write(piece), SLOW_MS);
      else to.write(piece);
    });
    from.on('close', () => to.destroy());
  };
  const server = createServer((socket) => {
    keep(socket);
    if (weather === 'closed') return void socket.destroy();
    if (weather === 'half-open') return;
    const upstream = connect(target);
    keep(upstream);
    pass(socket, upstream);
    pass(upstream, socket);
  }).listen(0, host);
  await once(server, 'listening');
  const end = (): void => {
    for (const socket of sockets) socket.destroy();
  };
  onTestFinished(() => {
    end();
    server.close();
  });
  return {
    address: `${host}:${(server.address() as { readonly port: number }).port}`,
    set: (next) => {
      const wasLost = weather === 'half-open';
      weather = next;
      link?.set(LINK_STATES[next] ?? 'up');
      if (next === 'closed' || wasLost) end();
    },
  };
}
