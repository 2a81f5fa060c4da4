import { Socket } from 'node:net';
import type { FromChild, ToChild } from './handler-contract.ts';
import { splitLines } from './message-lines.ts';

/** The way from a warm child to its runner. */
export interface Channel {
  send(message: FromChild): void;
  /** Whether waiting for a message keeps the process alive. */
  keepAlive(isNeeded: boolean): void;
}

/** A descriptor of its own: what a handler does with `process.send` and its like is no matter. */
export function openChannel(
  fd: number,
  onMessage: (message: ToChild) => void,
  onClose: () => void,
): Channel {
  const socket = new Socket({ fd, readable: true, writable: true });
  socket.setEncoding('utf8');
  const take = splitLines((line) => onMessage(JSON.parse(line) as ToChild));
  socket.on('data', (piece) => take(piece as unknown as string));
  // Writing to a runner that is gone; that it is gone is told by the end of what it sends.
  socket.on('error', () => {});
  socket.once('close', onClose);
  return {
    send: (message) => socket.write(`${JSON.stringify(message)}\n`),
    keepAlive: (isNeeded) => (isNeeded ? socket.ref() : socket.unref()),
  };
}
