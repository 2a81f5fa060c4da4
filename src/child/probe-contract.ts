/**
 * A Node script gets the runner's own descriptor of its output too, and the first thing that the probe
 * does is to close it: so anybody can see, at the price of two system calls, that Node came that far.
 */
export const SIGN_OF_LIFE_FD = 3;

/** What the runner tells the probe in a Node script, as JSON in one environment variable. */
export interface ProbeOptions {
  readonly scriptPath: string;
  readonly resultPath: string;
  readonly cacheFolder: string;
  /** It holds no function for the runner to call. */
  readonly exportsNothing: boolean;
  /** It is a handler: its job is what there is to be read on standard input. */
  readonly isHandler?: true;
  readonly context: ProbeContext;
}

/** What a script's function learns of its run; instants in epoch milliseconds. */
export interface ProbeContext {
  readonly script: string;
  readonly scheduledFor: number;
  readonly latenessMs: number;
  readonly attempt: number;
  readonly lastSuccess: number | null;
  readonly previouslyCrashed: boolean;
}

/** What the probe leaves at the script's end. */
export interface ProbeResult extends HandlerEnd {
  readonly userCpuMs: number;
  readonly systemCpuMs: number;
  readonly maxRssBytes: number;
  /** Of a child that serves many jobs, by how much it has grown with this one. */
  readonly rssChangeBytes?: number;
}

/** How a script ended, and what only handlers say of that. */
export interface HandlerEnd {
  readonly exitCode: number;
  readonly error: ProbeError | null;
  /** JSON; absent: none. */
  readonly result?: string;
  readonly ask?: SpokenAsk;
  /** Why it counts as failed though nothing was thrown: one sentence. */
  readonly refusal?: string;
}

/** What a handler asked for, in its own words. */
export type SpokenAsk =
  | {
      readonly kind: 'retry';
      readonly delay?: string;
      readonly priority?: number;
      readonly name?: string;
      /** JSON. */
      readonly data?: string;
    }
  | { readonly kind: 'fail'; readonly reason: string };

export interface ProbeError {
  readonly name: string;
  readonly message: string;
  readonly stack: string | null;
}

/** Deleted from `process.env` before any code of the script runs. */
export const PROBE_VARIABLE = 'RUNNER_PROBE';
