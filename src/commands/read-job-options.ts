import type { JobOptions } from '../queue/queue.ts';

/** The options of `runner add`, as they were typed. */
export interface AddWords {
  readonly at?: string;
  readonly priority?: string;
  readonly retries?: string;
  readonly retryDelay?: string;
  readonly unique?: string;
  readonly onDuplicate?: string;
  readonly repeat?: string;
  readonly missed?: string;
  readonly parent?: string;
  readonly onChildFailure?: string;
  readonly group?: string;
  readonly lease?: string;
}

/** What the queue is given; whether it is right is for the queue to say. */
export function readJobOptions(words: AddWords): JobOptions {
  return withoutUndefined({
    runAt: words.at,
    priority: numberIn(words.priority),
    retries: numberIn(words.retries),
    retryDelay: words.retryDelay,
    uniqueKey: words.unique,
    onDuplicate: words.onDuplicate,
    repeat: words.repeat,
    missed: words.missed,
    parent: numberIn(words.parent),
    onChildFailure: words.onChildFailure,
    group: words.group,
    lease: words.lease,
  }) as JobOptions;
}

/** The whole number that a word is; any other word as it is, for the message that refuses it. */
export function numberIn(word: string | undefined): number | string | undefined {
  return word !== undefined && /^-?\d{1,16}$/.test(word) ? Number(word) : word;
}

export function withoutUndefined(values: Readonly<Record<string, unknown>>): object {
  return Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined));
}
