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
