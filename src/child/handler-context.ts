import type { Signal } from './job-context.ts';

/**
 * What a handler is given: its job, and what it can do about it. A new one for each try.
 *
 * @typeParam Data what the job's data is; it is not checked at run time
 */
export interface HandlerContext<Data = unknown> {
  /** The job's number. */
  readonly id: number;
  /** `mail/welcome` for `jobs/queue/mail/welcome.ts`. */
  readonly name: string;
  /** What was given when the job was added, or the last {@link update}. */
  readonly data: Data;
  /** 1 for the first try. */
  readonly attempt: number;
  /** Of a repeating job, the time that its rule gave; of others, when it was first due. */
  readonly scheduledFor: Date | null;
  /** How long after its time it was started. */
  readonly latenessMs: number;
  /** When a job of this name that succeeded was last started; null when none did. */
  readonly lastSuccess: Date | null;
  /** Whether a worker or the machine died under an earlier try. */
  readonly previouslyCrashed: boolean;
  /** Of a child, its parent's data; null: it has no parent. */
  readonly parentData: unknown;
  /** Of a parent that goes on, what its children have become; empty lists for others. */
  readonly children: HandlerChildren;
  /**
   * Aborted at the time limit, or when the worker is told to stop; SIGKILL follows after 10 s. A
   * handler that never looks at it is ended by SIGTERM at once.
   *
   * @example
   * const response = await fetch(data.url, { signal });
   */
  readonly signal: Signal;
  /** Writes a line to the run's output, as `console.log` does. */
  log(...values: unknown[]): void;
  /**
   * Replaces the job's data in the log: how far it has come. A later try begins with it.
   *
   * @param data anything that can be written as JSON, at most 1 MiB
   * @returns fulfilled once it is in the log; rejected if it cannot be written, or the job was taken away
   *   meanwhile. In a process of its own (`@isolate`) fulfilled once it is handed over
   * @example
   * for (const [index, row] of rows.entries()) {
   *   await send(row);
   *   await update({ ...data, done: index + 1 });
   * }
   */
  update(data: unknown): Promise<void>;
  /**
   * Ends this try and has the job tried again, whether or not it has tries left. Never returns.
   *
   * @example
   * if (response.status === 429) retry({ delay: '10m' });
   */
  retry(options?: RetryRequest): never;
  /**
   * Ends the job as failed, whatever tries it has left. Never returns.
   *
   * @example
   * if (customer === null) fail(`there is no customer ${data.customer}`);
   */
  fail(reason: string): never;
}

/** How a job is to be tried again. */
export interface RetryRequest {
  /** How long to wait: `30s`, `10m`, `1.5 hours`. Default: the retry delay of the job. */
  readonly delay?: string;
  /** A whole number; higher ones are taken first. Default: as it is. */
  readonly priority?: number;
  /** The job goes on under another name. */
  readonly name?: string;
  /** Replaces the job's data; anything that can be written as JSON, at most 1 MiB. */
  readonly data?: unknown;
}

/** A child that has ended, as its parent is told of it. */
export interface HandlerChild {
  readonly id: number;
  readonly name: string;
  readonly data: unknown;
  /** Null: it gave none. */
  readonly result: unknown;
}

/** What a parent's children have become. */
export interface HandlerChildren {
  readonly finished: readonly HandlerChild[];
  readonly failed: readonly HandlerChild[];
  readonly cancelled: readonly HandlerChild[];
}

/**
 * The function that a handler exports as default. What it returns is the job's result: anything that
 * can be written as JSON, at most 1 MiB, or nothing. What it throws makes the try a failed one.
 *
 * @typeParam Data what the job's data is
 * @typeParam Result what it returns
 * @example
 * import type { Handler } from 'folder-runner';
 *
 * export default (async ({ data, attempt, log }) => {
 *   log(`mail to ${data.to}, try ${attempt}`);
 *   return { sent: true };
 * }) satisfies Handler<{ to: string }>;
 */
export type Handler<Data = unknown, Result = unknown> = (
  context: HandlerContext<Data>,
) => Result | Promise<Result>;

/**
 * Gives a handler its types. For those who import it: `import type { Handler }` needs no package
 * where the handler runs, this does.
 *
 * @example
 * import { defineHandler } from 'folder-runner';
 *
 * export default defineHandler<{ to: string }, { sent: boolean }>(async ({ data, log }) => {
 *   log(`mail to ${data.to}`);
 *   return { sent: true };
 * });
 */
export function defineHandler<Data = unknown, Result = unknown>(
  handler: Handler<Data, Result>,
): Handler<Data, Result> {
  return handler;
}
