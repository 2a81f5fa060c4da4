import type { Liveness } from '../process/process-identity.ts';
import type { Pause } from '../queue/pauses.ts';
import type { MissedPasses } from './missed-passes.ts';
import type { RunRecord } from './run-record.ts';
import type { Pass } from './select-passes.ts';
import type { RunningRun } from './select-running.ts';
import type { RecentRun } from './select-runs.ts';
import type { WaitingJob } from './status.ts';
import type { Summary, Totals } from './summarize-runs.ts';

/** What the log says about all scripts in one window of time. */
export interface Overview {
  readonly sinceMs: number;
  readonly untilMs: number;
  /** Shortest period first, tiers without one last. */
  readonly tiers: readonly TierOverview[];
  /** In the order of the tiers, then by name. */
  readonly scripts: readonly ScriptOverview[];
  readonly running: readonly RunningRun[];
  /** What is paused now. */
  readonly pauses: readonly Pause[];
  readonly totals: Totals;
}

export interface TierOverview {
  readonly tier: string;
  readonly periodMs: number | null;
  readonly presence: Presence;
  /** The newest pass that had the lock, however old; null when there never was one. */
  readonly lastPass: LastPass | null;
  /** Passes in the window that had the lock. */
  readonly passes: number;
  /** Passes in the window that found the lock held. */
  readonly skippedPasses: number;
  readonly lastSkipped: Pass | null;
  readonly missed: MissedPasses | null;
  /** What keeps all of it from running now. */
  readonly pause: Pause | null;
}

export interface LastPass extends Pass {
  readonly succeeded: number;
  readonly failed: number;
  readonly running: number;
  /** Whether the process of a pass that has not ended still lives; null for one that has. */
  readonly liveness: Liveness | null;
}

/** Whether it is in `jobs/` now: what is `gone` only the log knows; `unknown`: nobody looked. */
export type Presence = 'present' | 'gone' | 'unknown';

export interface ScriptOverview {
  readonly script: string;
  readonly tier: string;
  readonly presence: Presence;
  readonly summary: Summary;
  /** The newest run, however old; null: never run. */
  readonly lastRun: RunRecord | null;
  /** First line of why the last run failed; null when it did not. */
  readonly lastError: string | null;
  /** Oldest first, at most 20, however old. */
  readonly recentRuns: readonly RecentRun[];
  /** Its own, or that of its tier or of everything. */
  readonly pause: Pause | null;
  /** Its job that waits to be run or tried again. */
  readonly waiting: WaitingJob | null;
}

/** A tier of `jobs/` and the names of its scripts. */
export interface KnownTier {
  readonly tier: string;
  readonly scripts: readonly string[];
  /** Its folder cannot be read: whether a script is there is not known. Default false. */
  readonly isUnread?: boolean;
}

/** `hourly` of `hourly/clean-tmp`. */
export function tierOf(script: string): string {
  return script.slice(0, Math.max(0, script.indexOf('/')));
}
