import { readChannels } from './channels.ts';
import {
  type Reader,
  readBoolean,
  readByteSize,
  readChoice,
  readDurationMs,
  readFileList,
  readPath,
  readPositiveNumber,
  readPublicAddress,
  readQuiet,
  readSiteZone,
  readText,
  readTimerMs,
  readUmask,
  readWholeNumber,
  readWords,
  variableName,
} from './readers.ts';
import { scriptTable } from './script-settings.ts';
import type { SettingsTable } from './table.ts';

/** A single URL for all scripts of a site would say nothing about any of them. */
const { ping: _, ...sharedTable } = scriptTable;

export const tierTable = {
  ...scriptTable,
  /** How many scripts of this tier run at the same time, 1 to 64. */
  concurrency: { read: readWholeNumber(1, 64) },
  /**
   * How to treat passes that `runner due` finds missed: make up for them by one (`once`), or not at all (`skip`).
   * Default `once`.
   */
  catchUp: { read: readChoice('once', 'skip') },
  /** Files of variables for the scripts of this tier, besides those of the site, whose values they replace. */
  envFile: { read: readFileList },
} as const satisfies SettingsTable;

/** How long the activity log keeps runs, and its largest size. */
export const retentionTable = {
  /** How long runs that succeeded are kept. Default `90d`. */
  succeeded: { read: readDurationMs, unit: 'Ms' },
  /** How long all other runs are kept. Default `365d`. */
  failed: { read: readDurationMs, unit: 'Ms' },
  /** The oldest runs go first when the activity log grows beyond this. Default `500mb`. */
  maxDatabaseSize: { read: readByteSize('1mb'), unit: 'Bytes' },
} as const satisfies SettingsTable;

/** The machine's limits. Beyond one of them, a pass does not start a script: it waits, then defers the script. */
const limitsTable = {
  /** The load average of the last minute: `4`, `1.5`. */
  maxLoad: { read: readPositiveNumber(10_000) },
  /** `200mb` */
  minFreeMemory: { read: readByteSize('1mb'), unit: 'Bytes' },
  /** This user's processes, without threads. */
  maxProcesses: { read: readWholeNumber(1, 1_000_000) },
  /** How long to wait for room. Default `1m`. */
  maxWait: { read: readTimerMs, unit: 'Ms' },
} as const satisfies SettingsTable;

/** The job queue. */
const queueTable = {
  /** How long a claim is valid unless it is renewed. Default `1m`. */
  lease: { read: readTimerMs, unit: 'Ms' },
  /**
   * Which ended jobs are kept, by glob over their names; later ones win: `keep` (until pruning), `keep-failed`,
   * `remove` (nothing but the activity). Default `keep`.
   */
  archive: { each: { read: readChoice('keep', 'keep-failed', 'remove') } },
  /** How many jobs of one group may run at the same time. Default: any number. */
  groupLimit: { read: readWholeNumber(1, 10_000) },
  /** How many jobs a warm child serves before it is replaced. Default 10000. */
  childJobs: { read: readWholeNumber(1, 1_000_000) },
  /** A warm child that uses more memory than this after a job is replaced. Default `256mb`. */
  childMemory: { read: readByteSize('16mb'), unit: 'Bytes' },
  /** Most missed times of a repeating job that are made up for, 1 to 10000. Default 100. */
  missedCap: { read: readWholeNumber(1, 10_000) },
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
  scriptSuspect: aCount,
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
  channels: { read: readChannels },
  /** Failures in a row before an alert for a script's incident, 1 to 1000; `@alert-after` wins. Default 1. */
  after: { read: readWholeNumber(1, 1_000) },
  /** Time between two reminders of an open incident. Default `1d`. */
  remind: { read: readDurationMs, unit: 'Ms' },
  /** Local times between which only critical incidents cause alerts: `22:00-07:00`. Default: none. */
  quiet: { read: readQuiet },
  /** Most messages per channel and hour, 1 to 1000. Default 10. */
  perHour: { read: readWholeNumber(1, 1_000) },
} as const satisfies SettingsTable;

/** The dashboard as a file for a browser, written after each pass that ran something, otherwise every 15 minutes. */
const reportTable = {
  /** Its path: `../public_html/status/index.html`, relative to the root; `~/` is your home. Default: no file. */
  html: { read: readPath },
  /** Include output, errors and data of jobs, which are left out by default. */
  withOutput: { read: readBoolean },
  /**
   * If a web server serves the folder, write a new `.htaccess` that lets nobody read it until you say who. Default
   * true.
   */
  protect: { read: readBoolean },
} as const satisfies SettingsTable;

/** The dashboard, where `runner web` serves it. */
const webTable = {
  /** Its public address, to which mails and alerts link: `https://example.org/runner`. Default: they have no links. */
  url: { read: readPublicAddress, isSecret: true },
} as const satisfies SettingsTable;

/** All settings of `runner.config.*`. */
export const settingsTable = {
  /** The site's name in the dashboard: `shop.example`. Default: the root's folder and the machine. */
  siteName: { read: readText },
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
  timezone: { read: readSiteZone },
  /** How many scripts of a tier run at the same time, 1 to 64. Default 1. */
  concurrency: { read: readWholeNumber(1, 64) },
  /** Exit 0 even if a run failed, for hosts that disable failing crontab lines. Default false. */
  exitZeroOnFailure: { read: readBoolean },
  /** Variables that every script gets, with these values. */
  env: { each: { read: readText }, names: variableName, isSecret: true },
  /**
   * Files of variables that every script gets, relative to the root; `~/` is your home, later files win. Default:
   * `.env`, if there is one; `[]`: none.
   */
  envFile: { read: readFileList },
  /** The umask of scripts and handlers, octal: a shell's may differ from cron's. Default `'022'`. */
  umask: { read: readUmask },
  retention: { group: retentionTable },
  /** How much of one run's output is kept on disk, at least `64kb`. Default `10mb`. */
  maxOutput: { read: readByteSize('64kb'), unit: 'Bytes' },
  limits: { group: limitsTable },
  queue: { group: queueTable },
  /** `max`: most workers of the queue at the same time on one log. Default 8. */
  workers: { group: { max: { read: readWholeNumber(1, 1_000) } } },
  checks: { group: checksTable },
  /** Run and read files that others could have written. Default false: they are refused. */
  allowUnsafe: { read: readBoolean },
  /** Names of variables whose values are masked in stored output, besides those that look secret. */
  secrets: { read: readWords(variableName, 'names of environment variables such as SHOP_LOGIN') },
  alerts: { group: alertsTable },
  report: { group: reportTable },
  web: { group: webTable },
} as const satisfies SettingsTable;
