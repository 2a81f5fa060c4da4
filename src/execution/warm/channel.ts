import { join } from 'node:path';
import type { Duplex } from 'node:stream';
import { type FromChild, STRAY_FILE, type Stray, splitLines, type ToChild } from '../../child/contract.ts';
import {
  areAll,
  type Form,
  hasForm,
  isNullOr,
  isNumber,
  isOneOf,
  isProbeResult,
  isText,
  orAbsent,
  readReport,
} from '../result/report.ts';

/** How long to wait for a process's last words: a process that it has started may hold them back. */
const DRAIN_MS = 1_000;

/** Longer than any valid message: a result of 1 MiB is written as JSON within JSON. */
const LONGEST_MESSAGE = 8 * 1024 * 1024;

/** The runner's channel to a warm child. */
export interface WarmChannel {
  /** Whether a message is known to be unread, because the process died before it read it. */
  readonly hasLost: boolean;
  send(message: ToChild): void;
  /** Await it once the process has ended: then all of its messages have been taken. */
  drain(): Promise<void>;
  /** Closes the channel as if the runner had died. */
  close(): void;
}

/**
 * @param onGarbage called when the child's messages can no longer be distinguished from a handler's writing; nothing
 * more is read
 */
export function openWarmChannel(
  stream: Duplex,
  onMessage: (message: FromChild) => void,
  onGarbage: () => void,
): WarmChannel {
  let hasLost = false;
  let isGarbled = false;
  const closed = new Promise<void>((resolve) => stream.once('close', resolve));
  const take = (line: string): void => {
    if (isGarbled) return;
    const message = readChildMessage(line);
    isGarbled = message === null;
    if (message === null) onGarbage();
    else onMessage(message);
  };
  stream.setEncoding('utf8');
  stream.on('data', splitLines(take, LONGEST_MESSAGE));
  // The kernel reports messages that lay unread when the other end was closed, or that came later.
  stream.on('error', () => {
    hasLost = true;
  });
  return {
    get hasLost() {
      return hasLost;
    },
    send: (message) => {
      if (stream.writable) stream.write(`${JSON.stringify(message)}\n`);
      else hasLost = true;
    },
    drain: async () => {
      await settleWithin(closed, DRAIN_MS);
      stream.destroy();
    },
    close: () => void stream.destroy(),
  };
}

const isStray = hasForm({ jobId: isNullOr(isNumber), lastKey: isNullOr(isText), sentence: isText });

/** The forms of messages, by the field that tells them apart. */
const forms: readonly (readonly [string, Form])[] = [
  ['update', hasForm({ update: Number.isInteger, data: isText })],
  [
    'end',
    hasForm({
      end: isProbeResult,
      durationMs: isNumber,
      rssBytes: isNullOr(isNumber),
      loaded: orAbsent(areAll(hasForm({ path: isText }))),
      stray: orAbsent(isStray),
      trace: orAbsent(hasForm({ kind: isOneOf('changed', 'running'), what: isText })),
    }),
  ],
  ['unbegun', hasForm({ unbegun: Number.isInteger })],
  ['ready', hasForm({ ready: isOneOf(true) })],
];

/**
 * Reads a warm child's message. Null: a handler has written to the descriptor by its number, as to a file of its own.
 */
export function readChildMessage(line: string): FromChild | null {
  try {
    const message = JSON.parse(line);
    const [, isOfForm] = forms.find(([field]) => field in message) ?? [];
    return isOfForm?.(message) ? message : null;
  } catch {
    return null;
  }
}

/** Why a waiting child has ended itself; null: it has not. A handler can write there, too. */
export function readStray(temporary: string): Stray | null {
  const stray = readReport(join(temporary, STRAY_FILE));
  return isStray(stray) ? (stray as Stray) : null;
}

/** Whether the promise has settled in time. */
export async function settleWithin(promise: Promise<unknown>, withinMs: number): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<boolean>((resolve) => {
    timer = setTimeout(resolve, withinMs, false);
  });
  const isInTime = await Promise.race([promise.then(() => true), late]);
  clearTimeout(timer);
  return isInTime;
}
