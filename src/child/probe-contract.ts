/** What the runner tells the probe in a Node script, as JSON in one environment variable. */
export interface ProbeOptions {
  readonly scriptPath: string;
  readonly resultPath: string;
  readonly cacheFolder: string;
  /** It holds no function for the runner to call. */
  readonly exportsNothing: boolean;
  /** Open from the start; once it is closed, Node has come as far as the probe. */
  readonly signOfLifeFd?: number;
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
export interface ProbeResult {
  readonly exitCode: number;
  readonly userCpuMs: number;
  readonly systemCpuMs: number;
  readonly maxRssBytes: number;
  readonly error: ProbeError | null;
}

export interface ProbeError {
  readonly name: string;
  readonly message: string;
  readonly stack: string | null;
}

/** Deleted from `process.env` before any code of the script runs. */
export const PROBE_VARIABLE = 'RUNNER_PROBE';
