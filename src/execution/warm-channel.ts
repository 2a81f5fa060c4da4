import type { Duplex } from 'node:stream';
import type { FromChild, ToChild } from '../child/handler-contract.ts';
import { splitLines } from '../child/message-lines.ts';
import { LONGEST_MESSAGE, readChildMessage } from './child-message.ts';
import { settleWithin } from './settle-within.ts';

/** How long the last words of a process are waited for, as something it has started may hold them back. */
const DRAIN_MS = 1_000;

/** The way to a warm child. */
export interface WarmChannel {
  /** Whether something that was sent is known not to have been read: the process died before that. */
  readonly hasLost: boolean;
  send(message: ToChild): void;
  /** To be awaited once the process has ended: all it has said was taken then. */
  drain(): Promise<void>;
  /** As if this end had died. */
  close(): void;
}

/** @param onGarbage what is said cannot be told any more from what a handler says; nothing further is taken */
export function openWarmChannel(
  stream: Duplex,
  onMessage: (message: FromChild) => void,
  onGarbage: () => void,
): WarmChannel {
  const state = { hasLost: false, isGarbled: false };
  const closed = new Promise<void>((resolve) => stream.once('close', resolve));
  const take = (line: string): void => {
    if (state.isGarbled) return;
    const message = readChildMessage(line);
    state.isGarbled = message === null;
    if (message === null) onGarbage();
    else onMessage(message);
  };
  stream.setEncoding('utf8');
  stream.on('data', splitLines(take, LONGEST_MESSAGE));
  // The kernel tells it of what lay unread when the other end was closed, or came after that.
  stream.on('error', () => {
    state.hasLost = true;
  });
  return {
    get hasLost() {
      return state.hasLost;
    },
    send: (message) => {
      if (stream.writable) stream.write(`${JSON.stringify(message)}\n`);
      else state.hasLost = true;
    },
    drain: async () => {
      await settleWithin(closed, DRAIN_MS);
      stream.destroy();
    },
    close: () => void stream.destroy(),
  };
}
