import type { RetryDelay } from './retry-delay.ts';

/** What becomes of a job whose runner or machine died under it. */
export type CrashPolicy = 'retry' | 'skip' | 'fail';

/** What a script's tags or the settings say about how it is run. Every option is optional. */
export interface ScriptOptions {
  readonly description?: string;
  /** Default: the tier's period, at most one hour. */
  readonly timeoutMs?: number;
  /** How many times a failed job is tried again. Default 0. */
  readonly retries?: number;
  readonly retryDelay?: RetryDelay;
  /** Default: a crash is a failure like any other, and `retries` says what follows. */
  readonly onCrash?: CrashPolicy;
  /** Heap limit of a Node script. Default: V8's own. */
  readonly memoryBytes?: number;
  /** Resident memory of the run's processes together: above this it is noted. Default: no limit. */
  readonly warnRssBytes?: number;
  /** Above this, for `rssSustainMs`, the run is ended. Default: no limit. */
  readonly maxRssBytes?: number;
  /** How long the memory may be above its limit. Default 5 s. */
  readonly rssSustainMs?: number;
  /** How much of its output is kept on disk. Default: the settings' `maxOutput`. */
  readonly maxOutputBytes?: number;
  /** Added to the process's niceness, 0 to 19. Default 0. */
  readonly nice?: number;
  /** Names of environment variables that the script gets from the runner's environment. */
  readonly env?: readonly string[];
  /** Of a handler: a fresh process for each job. Default false: one serves many. */
  readonly isolate?: boolean;
  readonly tags?: readonly string[];
}
