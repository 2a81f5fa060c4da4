import type { Duplex } from 'node:stream';
import type { FromChild, ToChild } from '../child/handler-contract.ts';
import { splitLines } from '../child/message-lines.ts';
import { settleWithin } from './settle-within.ts';

/** How long the last words of a process are waited for, as something it has started may hold them back. */
const DRAIN_MS = 1_000;

/** The way to a warm child. */
export interface WarmChannel {
  send(message: ToChild): void;
  /** To be awaited once the process has ended: all it has said was taken then. */
  drain(): Promise<void>;
  /** As if this end had died. */
  close(): void;
}

export function openWarmChannel(
  stream: Duplex,
  onMessage: (message: FromChild) => void,
  onGarbage: () => void,
): WarmChannel {
  const closed = new Promise<void>((resolve) => stream.once('close', resolve));
  stream.setEncoding('utf8');
  stream.on(
    'data',
    splitLines((line) => {
      const message = parse(line);
      if (message === null) onGarbage();
      else onMessage(message);
    }),
  );
  // Writing to a process that is gone; its end tells.
  stream.on('error', () => {});
  return {
    send: (message) => void stream.write(`${JSON.stringify(message)}\n`),
    drain: async () => {
      await settleWithin(closed, DRAIN_MS);
      stream.destroy();
    },
    close: () => void stream.destroy(),
  };
}

/** Null: a handler has written into it by its number, as into a file that it had taken it for. */
function parse(line: string): FromChild | null {
  try {
    const message: unknown = JSON.parse(line);
    return typeof message === 'object' ? (message as FromChild | null) : null;
  } catch {
    return null;
  }
}
