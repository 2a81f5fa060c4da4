import { DAY_MS, MINUTE_MS } from '../system/base/values.ts';
import type { StateFolder } from '../system/place/state-folder.ts';
import type { RetryDelay } from './readers.ts';
import type { scriptTable } from './script-settings.ts';
import type { retentionTable, settingsTable, tierTable } from './site-settings.ts';
import type { ValuesOf, WrittenIn } from './table.ts';

export type ScriptOptions = ValuesOf<typeof scriptTable>;
export type ScriptOptionsInput = WrittenIn<typeof scriptTable>;
/** `ping` is for the tier's passes, not for its scripts. */
export type TierSettings = ValuesOf<typeof tierTable>;
export type TierSettingsInput = WrittenIn<typeof tierTable>;
export type SettingsInput = WrittenIn<typeof settingsTable>;
export type RetentionInput = WrittenIn<typeof retentionTable>;

/**
 * Gives the settings in `runner.config.ts` their types; it returns them unchanged. A script's own tags win over
 * `scripts`, `scripts` over `tiers`, `tiers` over `defaults`.
 *
 * @example
 * ```ts
 * import { defineConfig } from 'folder-runner';
 *
 * export default defineConfig({
 *   tiers: { daily: { timeout: '30m' } },
 *   scripts: { 'hourly/import-*': { retries: 3, retryDelay: '5m' } },
 * });
 * ```
 */
export function defineConfig(settings: SettingsInput): SettingsInput {
  return settings;
}

const MIB = 1024 * 1024;

/**
 * Values of settings that are not written; null: no value. A setting that is missing here has no default. A call without
 * settings loads this alone, not the tables.
 */
const defaults = {
  siteName: null,
  defaults: {},
  tiers: {},
  scripts: {},
  timezone: null,
  concurrency: 1,
  exitZeroOnFailure: false,
  env: {},
  /** Null: `.env`, if there is one. */
  envFile: null,
  umask: 0o022,
  retention: { succeededMs: 90 * DAY_MS, failedMs: 365 * DAY_MS, maxDatabaseBytes: 500 * MIB },
  maxOutputBytes: 10 * MIB,
  limits: { maxLoad: null, minFreeMemoryBytes: null, maxProcesses: null, maxWaitMs: MINUTE_MS },
  queue: {
    leaseMs: MINUTE_MS,
    archive: {},
    groupLimit: null,
    childJobs: 10_000,
    childMemoryBytes: 256 * MIB,
    missedCap: 100,
  },
  workers: { max: 8 },
  checks: {},
  allowUnsafe: false,
  /** Also the variables that channels are read from, should a script get and print one. */
  secrets: [],
  alerts: { channels: [], after: 1, remindMs: DAY_MS, quiet: null, perHour: 10 },
  report: { html: null, withOutput: false, protect: true },
  web: { url: null },
};

/** The settings of `runner.config.*`, with all defaults filled in. */
export interface Settings extends ValuesOf<typeof settingsTable, typeof defaults> {
  /** Read only for calls that run scripts or send messages. */
  readonly given: GivenVariables;
}

/** Variables in files of the site: `.env`, or the files that `envFile` names. */
export interface GivenVariables {
  readonly files: readonly GivenFile[];
  readonly site: Readonly<Record<string, string>>;
  /** By tiers that name files of their own: those of the site and, before them, the tier's. */
  readonly tiers: Readonly<Record<string, Readonly<Record<string, string>>>>;
}

interface GivenFile {
  /** Absolute. */
  readonly path: string;
  /** The names in it; null: a `.env` that does not exist, and needs not. */
  readonly names: readonly string[] | null;
}

export const nothingGiven: GivenVariables = { files: [], site: {}, tiers: {} };

/** The variables that scripts of a tier get from files. */
export function givenTo({ site, tiers }: GivenVariables, tier: string): Readonly<Record<string, string>> {
  return Object.hasOwn(tiers, tier) ? (tiers[tier] ?? site) : site;
}

/** The variables of channels and pings: the caller's environment and, behind it, the site's files. */
export function ownEnvironment({ environment, settings }: OwnPlace): NodeJS.ProcessEnv {
  return { ...settings.given?.site, ...environment };
}

interface OwnPlace {
  readonly environment: NodeJS.ProcessEnv;
  readonly settings: Partial<Pick<Settings, 'given'>>;
}

export const defaultSettings: Settings = { ...defaults, given: nothingGiven };

/** For scripts that are retried and set no delay. */
export const defaultRetryDelay: RetryDelay = { firstMs: MINUTE_MS, factor: 1, longestMs: MINUTE_MS };

export type Limits = Settings['limits'];
export type QueueSettings = Settings['queue'];
export type AlertSettings = Settings['alerts'];
export type CheckSettings = Settings['checks'];
/** The names of the checks in the settings. */
export type CheckSetting = keyof CheckSettings;
export type ArchivePolicy = QueueSettings['archive'][string];
/** How a job is treated whose runner or machine died during its run. */
export type CrashPolicy = NonNullable<ScriptOptions['onCrash']>;
/** How `runner due` treats missed passes: one pass for all of them, or none. */
export type CatchUp = NonNullable<TierSettings['catchUp']>;

/** The file of variables that no setting needs to name. */
export const ENV_FILE = '.env';

/** Names channels for users without a settings file: `mail:me@example.org`. */
export const ALERTS_VARIABLE = 'RUNNER_ALERTS';

/** The parts that all workers of one root share. */
export interface Runner {
  readonly root: string;
  readonly state: StateFolder;
  readonly settings: Settings;
  /** The caller's environment, from which scripts get the allowed variables. */
  readonly environment: NodeJS.ProcessEnv;
  /** The file that Node scripts load before they start. */
  readonly probePath: string;
  readonly version: string;
  /** UTC epoch milliseconds. */
  readonly now: () => number;
}
