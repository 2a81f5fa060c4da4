import type { Duplex } from 'node:stream';
import { splitLines } from '../child/message-lines.ts';
import { LONGEST_MESSAGE } from './child-message.ts';
import type { HandlerFacts } from './run-request.ts';
import { settleWithin } from './settle-within.ts';

/** What is under way is not waited for any longer once the process has ended. */
const DRAIN_MS = 1_000;

/**
 * Hands on what a handler with a process of its own tells of its progress, one after the other.
 *
 * @returns to be awaited once the process has ended: all of it is in the log then
 */
export function takeUpdates(
  channel: Duplex,
  { onUpdate }: Pick<HandlerFacts, 'onUpdate'>,
): () => Promise<void> {
  let written: Promise<unknown> = Promise.resolve();
  const write = async (line: string): Promise<void> => {
    const data: unknown = JSON.parse(line);
    // A handler can write there by its number, as into a file of its own.
    if (typeof data === 'string') await onUpdate(data);
  };
  channel.setEncoding('utf8');
  channel.on(
    'data',
    splitLines((line) => {
      // Nobody waits for an answer there.
      written = written.then(() => write(line)).catch(() => {});
    }, LONGEST_MESSAGE),
  );
  channel.on('error', () => {});
  const ended = new Promise<void>((resolve) => channel.once('close', resolve));
  return async () => {
    await settleWithin(ended, DRAIN_MS);
    channel.destroy();
    await written;
  };
}
