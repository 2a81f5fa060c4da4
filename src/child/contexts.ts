import type { Log } from './counts.ts';

/**
 * The input of a script's default function.
 *
 * @example
 * import type { JobContext } from 'folder-runner';
 *
 * export default async ({ lastSuccess, signal, log }: JobContext) => {
 *   const since = lastSuccess ?? new Date(0);
 *   log('looking at everything since', since);
 *   if (signal.aborted) return;
 * };
 */
export interface JobContext {
  /** `hourly/clean-tmp` */
  readonly script: string;
  /** The arguments after `--` in `runner run hourly/clean-tmp -- --all`; empty in a pass. */
  readonly args: readonly string[];
  /** Start of the period that this run is for. */
  readonly scheduledFor: Date;
  /** How late it was started, in milliseconds; a catch-up or a retry comes late. */
  readonly latenessMs: number;
  /** 1 for the first try. */
  readonly attempt: number;
  /** When the last successful run was started; null: never. */
  readonly lastSuccess: Date | null;
  /** Whether the runner or the machine died during the previous run. */
  readonly previouslyCrashed: boolean;
  /**
   * Aborted at the time limit or when the runner stops; SIGKILL follows after 10 s. A script that never reads it ends
   * at SIGTERM, as any program does.
   */
  readonly signal: Signal;
  /** Writes a line to the run's output, as `console.log` does; `log.count('orders', 12)` reports a number. */
  readonly log: Log;
}

/** The `AbortSignal` of the program that compiles against this; a minimal stand-in if its libraries have none. */
export type Signal = typeof globalThis extends { AbortSignal: { prototype: infer Known } }
  ? Known
  : { readonly aborted: boolean };

/**
 * The input of a handler: its job, and functions to act on it. A new one for each try.
 *
 * @typeParam Data the type of the job's data; it is not checked at run time
 */
export interface HandlerContext<Data = unknown> {
  /** The job's number. */
  readonly id: number;
  /** `mail/welcome` for `jobs/queue/mail/welcome.ts`. */
  readonly name: string;
  /** The data of the job as added, or of the last {@link update}. */
  readonly data: Data;
  /** The same as JSON text, unchanged: with all digits of its numbers, and its keys in their order. */
  readonly dataText: string;
  /** 1 for the first try. */
  readonly attempt: number;
  /** For a repeating job, the time that its rule gave; for others, when it was first due. */
  readonly scheduledFor: Date | null;
  /** How late it was started, in milliseconds. */
  readonly latenessMs: number;
  /** For a repeating job, when the last successful job of its name was started; otherwise null. */
  readonly lastSuccess: Date | null;
  /** Whether a worker or the machine died during an earlier try, or its lease expired. */
  readonly previouslyCrashed: boolean;
  /** For a child, its parent's data; null: it has no parent. */
  readonly parentData: unknown;
  /** For a parent that resumes, its ended children; otherwise empty lists. */
  readonly children: HandlerChildren;
  /**
   * Aborted at the time limit or when the worker stops; SIGKILL follows after 10 s. A handler that never reads it is
   * ended by SIGTERM at once.
   *
   * @example
   * const response = await fetch(data.url, { signal });
   */
  readonly signal: Signal;
  /** Writes a line to the run's output, as `console.log` does; `log.count('mails', 12)` reports a number. */
  readonly log: Log;
  /**
   * Replaces the job's data in the log, to save progress. A later try starts with it.
   *
   * @param data anything that can be written as JSON, at most 1 MiB
   * @returns fulfilled once the data is in the log; rejected if it cannot be written, or if another worker has the job
   * by now
   * @example
   * for (const [index, row] of rows.entries()) {
   *   await send(row);
   *   await update({ ...data, done: index + 1 });
   * }
   */
  update(data: unknown): Promise<void>;
  /**
   * Ends this try and runs the job again, even without tries left unless a `failure` is given. Never returns.
   *
   * @example
   * if (response.status === 429) retry({ delay: '10m' });
   */
  retry(options?: RetryRequest): never;
  /**
   * Ends the job as failed, even if it has tries left. Never returns.
   *
   * @example
   * if (customer === null) fail(`there is no customer ${data.customer}`);
   */
  fail(reason: string): never;
}

/** How to run a job again. */
export interface RetryRequest {
  /** How long to wait: `30s`, `10m`, `1.5 hours`. Default: the retry delay of the job. */
  readonly delay?: string;
  /** When to run the job again, instead of a delay. */
  readonly runAt?: Date;
  /**
   * Why this try has failed. With it, the try counts: the run is `failed`, and so is the job if it has no tries left.
   * Default: the run is `released`, and does not count.
   */
  readonly failure?: string;
  /** An integer; jobs with a higher priority run first. Default: unchanged. */
  readonly priority?: number;
  /** The job's new name. */
  readonly name?: string;
  /** Replaces the job's data; anything that can be written as JSON, at most 1 MiB. */
  readonly data?: unknown;
}

/** A child job that has ended, as its parent sees it. */
export interface HandlerChild {
  readonly id: number;
  readonly name: string;
  readonly data: unknown;
  /** Null: no result. */
  readonly result: unknown;
}

/** The child jobs of a parent that have ended. */
export interface HandlerChildren {
  readonly finished: readonly HandlerChild[];
  readonly failed: readonly HandlerChild[];
  readonly cancelled: readonly HandlerChild[];
}

/**
 * The default export of a handler. Its return value is the job's result: anything that can be written as
 * JSON, at most 1 MiB, or nothing. If it throws, the try has failed.
 *
 * @typeParam Data the type of the job's data
 * @typeParam Result the type of its result
 * @example
 * import type { Handler } from 'folder-runner';
 *
 * export default (async ({ data, attempt, log }) => {
 *   log(`mail to ${data.to}, try ${attempt}`);
 *   return { sent: true };
 * }) satisfies Handler<{ to: string }>;
 */
export type Handler<Data = unknown, Result = unknown> = (context: HandlerContext<Data>) => Result | Promise<Result>;

/**
 * Gives a handler its types. This is a real import, so the package must be installed where the handler runs; `import
 * type { Handler }` does not need the package at run time.
 *
 * @example
 * import { defineHandler } from 'folder-runner';
 *
 * export default defineHandler<{ to: string }, { sent: boolean }>(async ({ data, log }) => {
 *   log(`mail to ${data.to}`);
 *   return { sent: true };
 * });
 */
export function defineHandler<Data = unknown, Result = unknown>(handler: Handler<Data, Result>): Handler<Data, Result> {
  return handler;
}
