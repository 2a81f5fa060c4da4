import type { FileState } from './file-state.ts';
import type { ProbeResult } from './probe-contract.ts';

/** What a handler is told of its job. JSON stays text until the child reads it; instants in epoch milliseconds. */
export interface HandlerJob {
  readonly id: number;
  readonly name: string;
  /** JSON. */
  readonly data: string;
  readonly attempt: number;
  readonly scheduledFor: number | null;
  readonly startedAt: number;
  readonly latenessMs: number;
  readonly lastSuccess: number | null;
  readonly previouslyCrashed: boolean;
  /** JSON; null: it has no parent. */
  readonly parentData: string | null;
  /** JSON of `HandlerChildren`; null: there are none to tell of. */
  readonly children: string | null;
}

/** What a warm child is started with, as JSON in one environment variable. */
export interface HostOptions {
  readonly root: string;
  readonly cacheFolder: string;
  /** Where all output of this process goes. */
  readonly output: string;
  readonly temporary: string;
}

/** A job for a warm child. */
export interface JobMessage {
  readonly job: HandlerJob;
  readonly runId: number | string;
  readonly script: string;
  readonly path: string;
  /** Where the end is written down should nobody be there to be told. */
  readonly resultPath: string;
  /** Where the output is looked for then. */
  readonly outputPath: string;
}

/** What the runner tells a warm child. */
export type ToChild =
  | JobMessage
  /** An update is in the log, or why it is not. */
  | { readonly updated: number; readonly problem: string | null }
  | { readonly bye: true };

/** What a warm child tells the runner. */
export type FromChild =
  | { readonly ready: true }
  | { readonly update: number; readonly data: string }
  | EndMessage;

export interface EndMessage {
  readonly end: ProbeResult;
  readonly rssBytes: number;
  /** Files that it has imported since it said so last. */
  readonly loaded?: readonly FileState[];
  /** It cannot serve another job as if nothing had been. */
  readonly isSpoilt?: true;
  /** What an earlier run left behind and has failed during this one. */
  readonly stray?: Stray;
}

/** An error of which a run that has ended is the cause. */
export interface Stray {
  /** Null: nobody knows. */
  readonly runId: number | string | null;
  /** The last run that the child has begun. */
  readonly lastRunId: number | string | null;
  readonly sentence: string;
}

/**
 * In a warm child's temporary folder: what has failed while no job was there, as a {@link Stray}. The
 * child ends itself then, and of a channel that the runner writes to at this moment nothing more is read.
 */
export const STRAY_FILE = '.stray.json';

/** Deleted from `process.env` before any code of a handler runs. */
export const HOST_VARIABLE = 'RUNNER_HOST';

/** The descriptor of a warm child that leads to its runner. */
export const CHANNEL_FD = 4;

/** The descriptor on which a handler with a process of its own tells of its updates. */
export const UPDATE_FD = 4;

/** What a handler itself wants to become of its job. */
export type HandlerAsk =
  | {
      readonly kind: 'retry';
      readonly delayMs?: number;
      readonly priority?: number;
      readonly name?: string;
      /** JSON. */
      readonly data?: string;
    }
  | { readonly kind: 'fail'; readonly reason: string };
