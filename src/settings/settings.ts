import { nearestName } from '../system/base/suggest.ts';
import type { StateFolder } from '../system/place/state-folder.ts';
import { readChannels, variablesOf } from './channels.ts';
import {
  type Reader,
  readBoolean,
  readByteSize,
  readChoice,
  readDurationMs,
  readFlag,
  readHostPatterns,
  readPassedVariables,
  readPath,
  readPatternList,
  readPositiveNumber,
  readQuiet,
  readRetryDelay,
  readRuleText,
  readShell,
  readSiteZone,
  readTagWords,
  readText,
  readTimerMs,
  readUmask,
  readUrl,
  readWholeNumber,
  readWords,
  readZoneName,
  variableName,
} from './readers.ts';
import {
  type Entry,
  heldName,
  readTable,
  type SettingIssue,
  type SettingsTable,
  type ValuesOf,
  type WrittenIn,
} from './table.ts';

/**
 * The options of scripts, by their keys in the settings; `retryDelay` is the tag `@retry-delay`. All are read alike in
 * both places.
 */
export const scriptTable = {
  description: { read: readText, isProse: true, alsoCalled: ['desc'] },
  /** A run that takes longer is ended: `30s`, `10m`, `2h`. Default: the tier's period, at most `1h`. */
  timeout: {
    read: readTimerMs,
    unit: 'Ms',
    alsoCalled: ['time-limit', 'timelimit', 'max-time', 'max-duration'],
  },
  /** How many times a failed job is tried again, 0 to 100. Default 0. */
  retries: { read: readWholeNumber(0, 100), alsoCalled: ['retry', 'tries', 'attempts'] },
  /** How long to wait before the next try: `5m`, `exponential 30s 6h`. Default `1m`. */
  retryDelay: { read: readRetryDelay, alsoCalled: ['backoff'] },
  /**
   * How a run is treated during which the runner or the machine died: `retry` (at least once), `skip` (until its tier's
   * next pass), `fail` (no more tries). Default: as after any failure.
   */
  onCrash: { read: readChoice('retry', 'skip', 'fail') },
  /**
   * While the database of a fleet is away: `run`, without knowing what other machines do, or `wait`. Default `wait`.
   */
  offline: { read: readChoice('run', 'wait') },
  /** Heap limit of Node scripts: `256mb`, at least `16mb`. Default: V8's own. */
  memory: { read: readByteSize('16mb'), unit: 'Bytes', alsoCalled: ['max-memory', 'memory-limit', 'heap', 'mem'] },
  /** Resident memory of all processes of a run above which a warning is noted: `200mb`. */
  warnRss: { read: readByteSize('1mb'), unit: 'Bytes' },
  /** Resident memory at which a run is ended: `400mb`. Default: no limit. */
  maxRss: { read: readByteSize('1mb'), unit: 'Bytes', alsoCalled: ['rss'] },
  /** How long the memory may be above that limit. Default `5s`. */
  rssSustain: { read: readTimerMs, unit: 'Ms' },
  /** How much of one run's output is kept on disk, at least `64kb`. Default: the root's `maxOutput`. */
  maxOutput: { read: readByteSize('64kb'), unit: 'Bytes' },
  /** Added to the process's niceness, 0 to 19. Default 0. */
  nice: { read: readWholeNumber(0, 19) },
  /** Names of variables that scripts get from the runner's environment: `['API_KEY']`. */
  env: { read: readPassedVariables, addsUp: true, alsoCalled: ['environment'] },
  /** For handlers in `jobs/queue/`: a fresh process for each job. Default false. */
  isolate: { read: readFlag },
  /** Failures in a row before an alert is sent, 1 to 1000. Default: `alerts.after`. */
  alertAfter: { read: readWholeNumber(1, 1_000) },
  tags: { read: readTagWords, addsUp: true },
  /** The machines that it runs on, by `RUNNER_HOST` or host name: `web-*`, `['web-1', 'web-2']`. Default: any. */
  host: { read: readHostPatterns, alsoCalled: ['hosts'] },
  /** In a fleet, each machine runs it. Default false: one machine runs it per period. */
  everyHost: { read: readFlag },
  /**
   * A URL that is called when a run starts, succeeds and fails, in the style of healthchecks.io; or the variable that
   * holds it: `$HEALTHCHECK_URL`. For a tier, it is called for its passes. Not allowed in `defaults`.
   */
  ping: { read: readUrl, isSecret: true, alsoCalled: ['healthcheck'] },
  /** When it runs within its tier: `daily at 02:30`, `0 7 * * 1`, see docs/scripts.md. Default: in each pass. */
  schedule: { read: readRuleText, alsoCalled: ['cron', 'every', 'at', 'interval'] },
  /** The zone of a schedule that names none: `Europe/Berlin`. Default: the zone of the settings. */
  timezone: { read: readZoneName, alsoCalled: ['tz', 'zone'] },
  /** Run once after each boot of the machine. Default false. */
  reboot: { read: readFlag, alsoCalled: ['boot', 'on-boot', 'startup'] },
  /**
   * A run has failed if it has printed such a line: a text, `/a regular expression/`, or several; `true`: any line by
   * which shells, PHP, Python, mysqldump and others say that something failed; `false`: such a line causes no warning
   * either.
   */
  failOn: { read: readPatternList(true), addsUp: true, isProse: true, alsoCalled: ['fail-if', 'error-on'] },
  /** A run has failed unless it has printed a line with this text, or one that matches `/this regular expression/`. */
  expect: { read: readPatternList(false), addsUp: true, isProse: true, alsoCalled: ['success-if', 'expect-output'] },
  /** The shell of shell scripts without a `#!` line: `bash -euo pipefail`. Default: `/bin/sh`. */
  shell: { read: readShell, alsoCalled: ['interpreter', 'bash', 'sh'] },
} as const satisfies Readonly<Record<string, Entry & ScriptTraits>>;

interface ScriptTraits {
  /** The values of repeated tags make one list. */
  readonly addsUp?: true;
  /** All that stands behind the tag is its value, further tags included. */
  readonly isProse?: true;
  /** Names for its tag from other runners and common words. */
  readonly alsoCalled?: readonly string[];
}

/** A single URL for all scripts of a site would say nothing about any of them. */
const { ping: _, ...sharedTable } = scriptTable;

const tierTable = {
  ...scriptTable,
  /** How many scripts of this tier run at the same time, 1 to 64. */
  concurrency: { read: readWholeNumber(1, 64) },
  /**
   * How to treat passes that `runner due` finds missed: make up for them by one (`once`), or not at all (`skip`).
   * Default `once`.
   */
  catchUp: { read: readChoice('once', 'skip') },
} as const satisfies SettingsTable;

/** How long the activity log keeps runs, and its largest size. */
const retentionTable = {
  /** How long runs that succeeded are kept. Default `90d`. */
  succeeded: { read: readDurationMs, unit: 'Ms', standard: '90d' },
  /** How long all other runs are kept. Default `365d`. */
  failed: { read: readDurationMs, unit: 'Ms', standard: '365d' },
  /** The oldest runs go first when the activity log grows beyond this. Default `500mb`. */
  maxDatabaseSize: { read: readByteSize('1mb'), unit: 'Bytes', standard: '500mb' },
} as const satisfies SettingsTable;

/** The machine's limits. Beyond one of them, a pass does not start a script: it waits, then defers the script. */
const limitsTable = {
  /** The load average of the last minute: `4`, `1.5`. */
  maxLoad: { read: readPositiveNumber(10_000), standard: null },
  /** `200mb` */
  minFreeMemory: { read: readByteSize('1mb'), unit: 'Bytes', standard: null },
  /** This user's processes, without threads. */
  maxProcesses: { read: readWholeNumber(1, 1_000_000), standard: null },
  /** How long to wait for room. Default `1m`. */
  maxWait: { read: readTimerMs, unit: 'Ms', standard: '1m' },
} as const satisfies SettingsTable;

/** The job queue. */
const queueTable = {
  /** How long a claim is valid unless it is renewed. Default `1m`. */
  lease: { read: readTimerMs, unit: 'Ms', standard: '1m' },
  /**
   * Which ended jobs are kept, by glob over their names; later ones win: `keep` (until pruning), `keep-failed`,
   * `remove` (nothing but the activity). Default `keep`.
   */
  archive: { each: { read: readChoice('keep', 'keep-failed', 'remove') } },
  /** How many jobs of one group may run at the same time. Default: any number. */
  groupLimit: { read: readWholeNumber(1, 10_000), standard: null },
  /** How many jobs a warm child serves before it is replaced. Default 10000. */
  childJobs: { read: readWholeNumber(1, 1_000_000), standard: 10_000 },
  /** A warm child that uses more memory than this after a job is replaced. Default `256mb`. */
  childMemory: { read: readByteSize('16mb'), unit: 'Bytes', standard: '256mb' },
  /** Most missed times of a repeating job that are made up for, 1 to 10000. Default 100. */
  missedCap: { read: readWholeNumber(1, 10_000), standard: 100 },
} as const satisfies SettingsTable;

/** `false` switches a check off: its threshold is null. `true` means its default threshold. */
function readCheck<Written>(read: Reader<number, Written>): Reader<number | null | undefined, Written | boolean> {
  return (found) => {
    if (typeof found === 'boolean') return { value: found ? undefined : null };
    const reading = read(found);
    return 'value' in reading ? reading : { expected: `${reading.expected}, or true or false` };
  };
}

const aCount = { read: readCheck(readWholeNumber(1, 1_000_000)) } as const;
const aDuration = { read: readCheck(readDurationMs) } as const;

/** Thresholds of the health checks: `true` for the default, which each check has, `false` for never. */
const checksTable = {
  /** Calls of a tier that did not come, from 1. Default 1. */
  tierOverdue: aCount,
  /** Calls in a row that found the previous pass still running. Default 3. */
  tierSkipped: aCount,
  /** Jobs of a script in a row that have failed, tries included. Default 1. */
  scriptFailing: aCount,
  /** Successes with a warning of a script or handler since it began to warn. Default 1. */
  scriptWarning: aCount,
  /** Periods of its tier for which a script has not run. Default 3. */
  scriptOverdue: aCount,
  /** How many times as long as usual a run may last. Default 3. */
  runUnusual: { read: readCheck(readPositiveNumber(1_000)) },
  /** Jobs of the queue that have failed within an hour. Default 10. */
  jobsFailing: aCount,
  /** Jobs of the queue that are due. Default 1000. */
  jobsWaiting: aCount,
  /** How long a job may be due. Default `30m`, or two periods of the most frequent tier. */
  jobsLate: aDuration,
  /** How long jobs may be due without a worker. Default `30m`, or two periods of the most frequent tier. */
  noWorker: aDuration,
  /** How long one job may keep its worker while others are late. Default `1h`. */
  workerStuck: aDuration,
  /** Workers that have died within a day. Default 3. */
  crashes: aCount,
  /** How busy the queue's workers may be, 0 to 1. Default: any. */
  utilization: { read: readCheck(readPositiveNumber(1)) },
  /** How long jobs may take on average from when they are due to their end. Default: any. */
  serviceTime: aDuration,
  /** How long a quarantined log is reported. Default `7d`. */
  logUnusable: aDuration,
  /** How much of the disk must be free. Default `100mb`. */
  diskFull: { read: readCheck(readByteSize('1kb')) },
  /** How long the delivery of a message may take. Default `1h`. */
  alertsUndelivered: aDuration,
} as const satisfies SettingsTable;

/** The recipients of alerts, and when and how often they get them. */
const alertsTable = {
  channels: { read: readChannels, standard: [] },
  /** Failures in a row before an alert for a script's incident, 1 to 1000; `@alert-after` wins. Default 1. */
  after: { read: readWholeNumber(1, 1_000), standard: 1 },
  /** Time between two reminders of an open incident. Default `1d`. */
  remind: { read: readDurationMs, unit: 'Ms', standard: '1d' },
  /** Local times between which only critical incidents cause alerts: `22:00-07:00`. Default: none. */
  quiet: { read: readQuiet, standard: null },
  /** Most messages per channel and hour, 1 to 1000. Default 10. */
  perHour: { read: readWholeNumber(1, 1_000), standard: 10 },
} as const satisfies SettingsTable;

/** The dashboard as a file for a browser, written after each pass that ran something, otherwise every 15 minutes. */
const reportTable = {
  /** Its path: `../public_html/status/index.html`, relative to the root; `~/` is your home. Default: no file. */
  html: { read: readPath, standard: null },
  /** Include output, errors and data of jobs, which are left out by default. */
  withOutput: { read: readBoolean, standard: false },
  /**
   * If a web server serves the folder, write a new `.htaccess` that lets nobody read it until you say who. Default
   * true.
   */
  protect: { read: readBoolean, standard: true },
} as const satisfies SettingsTable;

/** What `runner.config.*` may hold, with its defaults. */
export const settingsTable = {
  /** Options of every script. */
  defaults: { group: sharedTable },
  /** Options of the scripts of one tier, by its name. */
  tiers: { each: { group: tierTable } },
  /** Options by glob over script names (`hourly/clean-*`) or files (`hourly/*.sh`); later ones win. */
  scripts: { each: { group: scriptTable } },
  /**
   * The time zone in which days begin, rules that name none are read, and times are shown: `Europe/Berlin`. Scripts get
   * it as `TZ`. Default: the machine's zone; the caller's `TZ` never counts.
   */
  timezone: { read: readSiteZone, standard: null },
  /** How many scripts of a tier run at the same time, 1 to 64. Default 1. */
  concurrency: { read: readWholeNumber(1, 64), standard: 1 },
  /** Exit 0 even if a run failed, for hosts that disable failing crontab lines. Default false. */
  exitZeroOnFailure: { read: readBoolean, standard: false },
  /** Variables that every script gets, with these values. */
  env: { each: { read: readText }, names: variableName, isSecret: true },
  /** The umask of scripts and handlers, octal: a shell's may differ from cron's. Default `'022'`. */
  umask: { read: readUmask, standard: '022' },
  retention: { group: retentionTable },
  /** How much of one run's output is kept on disk, at least `64kb`. Default `10mb`. */
  maxOutput: { read: readByteSize('64kb'), unit: 'Bytes', standard: '10mb' },
  limits: { group: limitsTable },
  queue: { group: queueTable },
  /** `max`: most workers of the queue at the same time on one log. Default 8. */
  workers: { group: { max: { read: readWholeNumber(1, 1_000), standard: 8 } } },
  checks: { group: checksTable },
  /** Run and read files that others could have written. Default false: they are refused. */
  allowUnsafe: { read: readBoolean, standard: false },
  /** Names of variables whose values are masked in stored output, besides those that look secret. */
  secrets: { read: readWords(variableName, 'names of environment variables such as SHOP_LOGIN') },
  alerts: { group: alertsTable },
  report: { group: reportTable },
} as const satisfies SettingsTable;

export type ScriptOptions = ValuesOf<typeof scriptTable>;
export type ScriptOptionsInput = WrittenIn<typeof scriptTable>;
/** `ping` is for the tier's passes, not for its scripts. */
export type TierSettings = ValuesOf<typeof tierTable>;
export type TierSettingsInput = WrittenIn<typeof tierTable>;
export type SettingsInput = WrittenIn<typeof settingsTable>;
export type RetentionInput = WrittenIn<typeof retentionTable>;

/** The settings of `runner.config.*`, with all defaults filled in. */
export interface Settings extends ValuesOf<typeof settingsTable> {
  /** Also the variables that channels are read from, should a script get and print one. */
  readonly secrets: readonly string[];
}

export type Retention = Settings['retention'];
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

export const defaultSettings: Settings = withSecrets(readTable(settingsTable, {}, []));

function withSecrets(settings: ValuesOf<typeof settingsTable>): Settings {
  return {
    ...settings,
    secrets: [...new Set([...(settings.secrets ?? []), ...variablesOf(settings.alerts.channels)])],
  };
}

/** Every issue is reported, not only the first; `statement` completes the setting's name, as in `Problem`. */
export function validateSettings(found: unknown) {
  const issues: SettingIssue[] = [];
  const settings = readTable(settingsTable, found, issues);
  if (issues.length === 0) return { settings: withSecrets(settings) };
  return { issues: issues.map((issue) => ({ ...issue, statement: statementOf(issue) })) };
}

function statementOf({ path, known }: SettingIssue): string | undefined {
  return known && `is not a known setting; ${hintFor(path.at(-1) ?? '', known, path.length === 1)}`;
}

function hintFor(key: string, known: readonly string[], isOnTop: boolean): string {
  if (key === 'ping') return 'put it under tiers.<tier> or scripts, as each needs a URL of its own';
  if (isOnTop && Object.hasOwn(scriptTable, key)) return 'put it under defaults, tiers.<tier> or scripts';
  const nearest = nearestSetting(key, known);
  return nearest === null ? `known are ${known.join(', ')}` : `did you mean ${nearest}?`;
}

export interface ScriptSetting extends ScriptTraits {
  readonly key: string;
  /** Its tag, without the `@`: `retry-delay`. */
  readonly tag: string;
  /** Its name among the options: `timeoutMs`. */
  readonly name: string;
  readonly read: Reader<unknown, unknown>;
  readonly isSecret?: true;
}

export const scriptSettings: readonly ScriptSetting[] = Object.entries(scriptTable).map(([key, entry]) => ({
  ...entry,
  key,
  tag: toTag(key),
  name: heldName(key, entry),
}));

/**
 * The setting that was probably meant, in the form of `known`: `retryDelay` or `retry-delay`; null: none is similar.
 */
export function nearestSetting(word: string, known: Iterable<string>): string | null {
  const names = [...known];
  const meant = scriptSettings.find(({ alsoCalled }) => alsoCalled?.includes(toTag(word)))?.tag;
  return names.find((name) => toTag(name) === meant) ?? nearestName(word, names);
}

function toTag(word: string): string {
  return word.replace(/(?<=[a-z])[A-Z]/g, (letter) => `-${letter}`).toLowerCase();
}

/** The parts that all workers of one root share. */
export interface Runner {
  readonly root: string;
  readonly state: StateFolder;
  readonly settings: Settings;
  /** The environment from which scripts get the allowed variables. */
  readonly environment: NodeJS.ProcessEnv;
  /** The file that Node scripts load before they start. */
  readonly probePath: string;
  readonly version: string;
  /** UTC epoch milliseconds. */
  readonly now: () => number;
}
