import type { StateFolder } from '../place/state-folder.ts';
import type { ScriptOptions } from './readers.ts';

/** What `runner.config.*` says, with every default filled in. */
export interface Settings {
  readonly defaults: ScriptOptions;
  readonly tiers: Readonly<Record<string, TierSettings>>;
  /** By glob over script names (`hourly/clean-*`) or file names (`hourly/*.sh`); later ones win. */
  readonly scripts: Readonly<Record<string, ScriptOptions>>;
  /** How many scripts of a tier run at the same time. */
  readonly concurrency: number;
  /** For hosts that disable a crontab line after failures. */
  readonly exitZeroOnFailure: boolean;
  /** Variables that every script gets, with these values. */
  readonly env: Readonly<Record<string, string>>;
  readonly retention: Retention;
  /** How much of one run's output is kept on disk. */
  readonly maxOutputBytes: number;
  readonly limits: Limits;
  readonly queue: QueueSettings;
  readonly workers: WorkersSettings;
  /** Files that others could have written are run and read all the same. */
  readonly allowUnsafe: boolean;
  /** Variables whose values are masked in stored output, besides those whose names look secret. */
  readonly secrets: readonly string[];
}

/** What `runner due` makes of passes that were missed: one for all of them, or none. */
export type CatchUp = 'once' | 'skip';

export interface TierSettings extends ScriptOptions {
  readonly concurrency?: number;
  /** Default: `once`. */
  readonly catchUp?: CatchUp;
}

/** What the machine must have left before a pass starts a script; null: whatever it has. */
export interface Limits {
  /** The machine's load average of the last minute. */
  readonly maxLoad: number | null;
  readonly minFreeMemoryBytes: number | null;
  /** The user's processes, threads not counted. */
  readonly maxProcesses: number | null;
  /** How long to wait for room before the rest is deferred to the next pass. */
  readonly maxWaitMs: number;
}

/**
 * What is kept of jobs that have ended: all until it is pruned; only what failed; nothing but the
 * activity.
 */
export type ArchivePolicy = 'keep' | 'keep-failed' | 'remove';

export interface QueueSettings {
  /** How long a claim holds unless it is renewed. */
  readonly leaseMs: number;
  /** By glob over job names; later ones win. */
  readonly archive: Readonly<Record<string, ArchivePolicy>>;
  /** How many jobs of one group may run at the same time; null: any number. */
  readonly groupLimit: number | null;
  /** How many jobs a child serves before it is replaced. */
  readonly childJobs: number;
  /** A child that holds more after a job is replaced. */
  readonly childMemoryBytes: number;
  /** How many missed times of a repeating job are made up for at most. */
  readonly missedCap: number;
}

interface WorkersSettings {
  /** How many workers of the queue may live at the same time. */
  readonly max: number;
}

/** How long the activity log keeps what. */
export interface Retention {
  readonly succeededMs: number;
  readonly failedMs: number;
  readonly maxDatabaseBytes: number;
}

const dayMs = 24 * 60 * 60 * 1000;
const megabyte = 1024 * 1024;

export const defaultSettings: Settings = {
  defaults: {},
  tiers: {},
  scripts: {},
  concurrency: 1,
  exitZeroOnFailure: false,
  env: {},
  retention: {
    succeededMs: 90 * dayMs,
    failedMs: 365 * dayMs,
    maxDatabaseBytes: 500 * megabyte,
  },
  maxOutputBytes: 10 * megabyte,
  limits: { maxLoad: null, minFreeMemoryBytes: null, maxProcesses: null, maxWaitMs: 60_000 },
  queue: {
    leaseMs: 60_000,
    archive: {},
    groupLimit: null,
    childJobs: 1_000,
    childMemoryBytes: 256 * megabyte,
    missedCap: 100,
  },
  workers: { max: 8 },
  allowUnsafe: false,
  secrets: [],
};

/** What every worker of one root shares. */
export interface Runner {
  readonly root: string;
  readonly state: StateFolder;
  readonly settings: Settings;
  /** Of which scripts get what is allowed. */
  readonly environment: NodeJS.ProcessEnv;
  /** The file that is loaded into Node scripts before they start. */
  readonly probePath: string;
  readonly version: string;
  /** UTC epoch milliseconds. */
  readonly now: () => number;
}
