import type { StateFolder } from '../system/place/state-folder.ts';
import type { ScriptOptions } from './readers.ts';

/** The settings of `runner.config.*`, with all defaults filled in. */
export interface Settings {
  readonly defaults: ScriptOptions;
  readonly tiers: Readonly<Record<string, TierSettings>>;
  /** Options by glob over script names (`hourly/clean-*`) or file names (`hourly/*.sh`); later ones win. */
  readonly scripts: Readonly<Record<string, ScriptOptions>>;
  /** The zone of all times: periods, rules that name none, and displayed times. Null: the machine's zone. */
  readonly timezone: string | null;
  /** How many scripts of a tier run at the same time. */
  readonly concurrency: number;
  /** For hosts that disable a crontab line after failures. */
  readonly exitZeroOnFailure: boolean;
  /** Variables that every script gets, with these values. */
  readonly env: Readonly<Record<string, string>>;
  /** The umask of scripts and handlers. */
  readonly umask: number;
  readonly retention: Retention;
  /** How many bytes of one run's output are kept on disk. */
  readonly maxOutputBytes: number;
  readonly limits: Limits;
  readonly queue: QueueSettings;
  readonly workers: WorkersSettings;
  /** Whether files that others could have written are run and read nevertheless. */
  readonly allowUnsafe: boolean;
  /** Variables whose values are masked in stored output, besides those whose names look secret. */
  readonly secrets: readonly string[];
  readonly alerts: AlertSettings;
  /** Thresholds that are left out have the defaults of `monitor/checks/all-well.ts`. */
  readonly checks: CheckSettings;
  readonly report: ReportSettings;
}

/** The dashboard as a file, written after passes. */
export interface ReportSettings {
  /** The path as written: relative to the root, or with `~/` to the user's home; null: no file is written. */
  readonly html: string | null;
  /** Whether it includes the output and errors of scripts, and the data of jobs. */
  readonly withOutput: boolean;
  /** Whether a web server keeps it from everybody except its intended readers. */
  readonly protect: boolean;
}

/** The names of the checks in the settings. */
export type CheckSetting =
  | 'tierOverdue'
  | 'tierSkipped'
  | 'scriptFailing'
  | 'scriptWarning'
  | 'scriptOverdue'
  | 'runUnusual'
  | 'jobsFailing'
  | 'jobsWaiting'
  | 'jobsLate'
  | 'noWorker'
  | 'workerStuck'
  | 'crashes'
  | 'utilization'
  | 'serviceTime'
  | 'logUnusable'
  | 'diskFull'
  | 'alertsUndelivered';

/** The threshold of each check: a count, milliseconds or bytes; null: the check is off. */
export type CheckSettings = Readonly<Partial<Record<CheckSetting, number | null>>>;

/** The recipients of alerts, and when and how often they get them. */
export interface AlertSettings {
  readonly channels: readonly ChannelSettings[];
  /** Failures in a row before an alert for a script's incident; `@alert-after` takes precedence. */
  readonly after: number;
  /** Time between two reminders of an open incident. */
  readonly remindMs: number;
  /** Minutes of the local day, from and until, during which only `critical` incidents cause alerts; null: none. */
  readonly quiet: { readonly from: number; readonly until: number } | null;
  /** Most messages per channel and hour. */
  readonly perHour: number;
}

export type ChannelKind = 'mail' | 'webhook' | 'command';

export type ChannelOption = 'from' | 'smtp' | 'sendmail' | 'preset' | 'token' | 'chat' | 'user' | 'env';

/** Services that need their own form of message; `json`: the message unchanged. */
export const presets = ['json', 'slack', 'discord', 'teams', 'ntfy', 'telegram', 'pushover'] as const;

export type Preset = (typeof presets)[number];

/**
 * A channel for messages. Values that begin with `$` name variables of the runner's environment, which are read when a
 * message is sent.
 */
export interface ChannelSettings {
  /** Its name in the settings, otherwise its preset or kind; a second channel of that name is `webhook-2`. */
  readonly name: string;
  readonly kind: ChannelKind;
  /** For mail, the addresses; for a webhook, the URL, or '' if its preset has one; for a command, its text. */
  readonly target: string;
  /** Further options of its kind: `smtp`, `from`, `preset`, `token` … */
  readonly options: Readonly<Partial<Record<ChannelOption, string>>>;
  /** Only incidents of at least this severity; null: all. */
  readonly severity: 'warning' | 'critical' | null;
  /** Only incidents of scripts with one of these tags; empty: all. */
  readonly tags: readonly string[];
}

/** How `runner due` treats missed passes: one pass for all of them, or none. */
export type CatchUp = 'once' | 'skip';

/** `ping` is for the tier's passes, not for its scripts. */
export interface TierSettings extends ScriptOptions {
  readonly concurrency?: number;
  /** Default: `once`. */
  readonly catchUp?: CatchUp;
}

/** The machine's limits. Beyond one of them, a pass waits before it starts a script; null: no limit. */
export interface Limits {
  /** The machine's load average of the last minute. */
  readonly maxLoad: number | null;
  readonly minFreeMemoryBytes: number | null;
  /** The user's processes, without threads. */
  readonly maxProcesses: number | null;
  /** How long to wait for room before the rest is deferred to the next pass. */
  readonly maxWaitMs: number;
}

/** Which ended jobs are kept: all until pruning; only failed ones; none except for their activity. */
export type ArchivePolicy = 'keep' | 'keep-failed' | 'remove';

export interface QueueSettings {
  /** How long a claim is valid unless it is renewed. */
  readonly leaseMs: number;
  /** Policies by glob over job names; later ones win. */
  readonly archive: Readonly<Record<string, ArchivePolicy>>;
  /** How many jobs of one group may run at the same time; null: any number. */
  readonly groupLimit: number | null;
  /** How many jobs a child serves before it is replaced. */
  readonly childJobs: number;
  /** A child that uses more memory than this after a job is replaced. */
  readonly childMemoryBytes: number;
  /** Most missed times of a repeating job that are made up for. */
  readonly missedCap: number;
}

interface WorkersSettings {
  /** Most workers of the queue at the same time. */
  readonly max: number;
}

/** How long the activity log keeps runs, and its largest size. */
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
  timezone: null,
  concurrency: 1,
  exitZeroOnFailure: false,
  env: {},
  // A shell's umask may differ from cron's: files of scripts get the same mode, whoever the caller is.
  umask: 0o022,
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
    childJobs: 10_000,
    childMemoryBytes: 256 * megabyte,
    missedCap: 100,
  },
  workers: { max: 8 },
  allowUnsafe: false,
  secrets: [],
  alerts: { channels: [], after: 1, remindMs: dayMs, quiet: null, perHour: 10 },
  checks: {},
  report: { html: null, withOutput: false, protect: true },
};

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

/** Options of scripts as written in `runner.config.*`, in the same forms as in tags. */
export interface ScriptOptionsInput {
  readonly description?: string;
  /** A run that takes longer is ended: `30s`, `10m`, `2h`. Default: the tier's period, at most `1h`. */
  readonly timeout?: string;
  /** How many times a failed job is tried again, 0 to 100. Default 0. */
  readonly retries?: number | string;
  /** How long to wait before the next try: `5m`, `exponential 30s 6h`. Default `1m`. */
  readonly retryDelay?: string;
  /**
   * How a run is treated during which the runner or the machine died: `retry` (at least once), `skip` (until its tier's
   * next pass), `fail` (no more tries). Default: as after any failure.
   */
  readonly onCrash?: 'retry' | 'skip' | 'fail';
  /**
   * While the database of a fleet is away: `run`, without knowing what other machines do, or `wait`. Default `wait`.
   */
  readonly offline?: 'run' | 'wait';
  /** Heap limit of Node scripts: `256mb`, at least `16mb`. Default: V8's own. */
  readonly memory?: string;
  /** Resident memory of all processes of a run above which a warning is noted: `200mb`. */
  readonly warnRss?: string;
  /** Resident memory at which a run is ended: `400mb`. Default: no limit. */
  readonly maxRss?: string;
  /** How long the memory may be above that limit. Default `5s`. */
  readonly rssSustain?: string;
  /** How much of one run's output is kept on disk, at least `64kb`. Default: the root's `maxOutput`. */
  readonly maxOutput?: string;
  /** Added to the process's niceness, 0 to 19. Default 0. */
  readonly nice?: number | string;
  /** Names of variables that scripts get from the runner's environment: `['API_KEY']`. */
  readonly env?: string | readonly string[];
  /** For handlers in `jobs/queue/`: a fresh process for each job. Default false. */
  readonly isolate?: boolean | string;
  /** Failures in a row before an alert is sent, 1 to 1000. Default: `alerts.after`. */
  readonly alertAfter?: number | string;
  readonly tags?: string | readonly string[];
  /** The machines that it runs on, by `RUNNER_HOST` or host name: `web-*`, `['web-1', 'web-2']`. Default: any. */
  readonly host?: string | readonly string[];
  /** In a fleet, each machine runs it. Default false: one machine runs it per period. */
  readonly everyHost?: boolean | string;
  /**
   * A URL that is called when a run starts, succeeds and fails, in the style of healthchecks.io; or the variable that
   * holds it: `$HEALTHCHECK_URL`. For a tier, it is called for its passes. Not allowed in `defaults`.
   */
  readonly ping?: string;
  /** When it runs within its tier: `daily at 02:30`, `0 7 * * 1`, see docs/scripts.md. Default: in each pass. */
  readonly schedule?: string;
  /** The zone of a schedule that names none: `Europe/Berlin`. Default: the zone of the settings. */
  readonly timezone?: string;
  /** Run once after each boot of the machine. Default false. */
  readonly reboot?: boolean | string;
  /**
   * A run has failed if it has printed such a line: a text, `/a regular expression/`, or several; `true`: any line by
   * which shells, PHP, Python, mysqldump and others say that something failed; `false`: such a line causes no warning
   * either.
   */
  readonly failOn?: string | readonly string[] | boolean;
  /** A run has failed unless it has printed a line with this text, or one that matches `/this regular expression/`. */
  readonly expect?: string | readonly string[];
  /** The shell of shell scripts without a `#!` line: `bash -euo pipefail`. Default: `/bin/sh`. */
  readonly shell?: string;
}

export interface TierSettingsInput extends ScriptOptionsInput {
  /** How many scripts of this tier run at the same time, 1 to 64. */
  readonly concurrency?: number;
  /**
   * How to treat passes that `runner due` finds missed: make up for them by one (`once`), or not at all (`skip`).
   * Default `once`.
   */
  readonly catchUp?: 'once' | 'skip';
}

/** The machine's limits. Beyond one of them, a pass does not start a script: it waits, then defers the script. */
interface LimitsInput {
  /** The load average of the last minute: `4`, `1.5`. */
  readonly maxLoad?: number;
  /** `200mb` */
  readonly minFreeMemory?: string;
  /** This user's processes, without threads. */
  readonly maxProcesses?: number;
  /** How long to wait for room. Default `1m`. */
  readonly maxWait?: string;
}

export interface RetentionInput {
  /** How long runs that succeeded are kept. Default `90d`. */
  readonly succeeded?: string;
  /** How long all other runs are kept. Default `365d`. */
  readonly failed?: string;
  /** The oldest runs go first when the activity log grows beyond this. Default `500mb`. */
  readonly maxDatabaseSize?: string;
}

/** The job queue. */
interface QueueInput {
  /** How long a claim is valid unless it is renewed. Default `1m`. */
  readonly lease?: string;
  /**
   * Which ended jobs are kept, by glob over their names; later ones win: `keep` (until pruning), `keep-failed`,
   * `remove`. Default `keep`.
   */
  readonly archive?: Readonly<Record<string, 'keep' | 'keep-failed' | 'remove'>>;
  /** How many jobs of one group may run at the same time. Default: any number. */
  readonly groupLimit?: number;
  /** How many jobs a warm child serves before it is replaced. Default 10000. */
  readonly childJobs?: number;
  /** A warm child that uses more memory than this after a job is replaced. Default `256mb`. */
  readonly childMemory?: string;
  /** Most missed times of a repeating job that are made up for, 1 to 10000. Default 100. */
  readonly missedCap?: number;
}

interface WorkersInput {
  /** Most workers of the queue at the same time on one log. Default 8. */
  readonly max?: number;
}

/** Options of every channel. */
interface AnyChannelInput {
  /** The name for `runner alert test`. Default: its preset or kind. */
  readonly name?: string;
  /** Only incidents of at least this severity. Default: all. */
  readonly severity?: 'warning' | 'critical';
  /** Only incidents of scripts with one of these tags. Default: all. */
  readonly tags?: string | readonly string[];
}

interface MailInput extends AnyChannelInput {
  readonly kind: 'mail';
  readonly to: string | readonly string[];
  /** Default: the user, at this host. */
  readonly from?: string;
  /** `$SMTP_URL`, which holds `smtps://user:password@mail.example.org`. Default: the local sendmail. */
  readonly smtp?: string;
  /** Full path of a program that accepts mail as sendmail does. Default: the usual places of sendmail. */
  readonly sendmail?: string;
}

interface WebhookInput extends AnyChannelInput {
  readonly kind: 'webhook';
  /** `https://…`, or `$NAME`. Telegram and Pushover need none. */
  readonly url?: string;
  /** The form of the messages. Default: by the URL's host, otherwise `json`. */
  readonly preset?: Preset;
  /** `$NAME`: the token of the service; with `json` and `ntfy` it is sent as `Authorization: Bearer …`. */
  readonly token?: string;
  /** Telegram: the number of the chat. */
  readonly chat?: string;
  /** Pushover: the user's or the group's key. */
  readonly user?: string;
}

interface CommandInput extends AnyChannelInput {
  readonly kind: 'command';
  /** A line for `/bin/sh`, run in the root, with the message as JSON on stdin. */
  readonly run: string;
  /** Variables that it gets from the runner's environment. */
  readonly env?: string | readonly string[];
}

/** The recipients of alerts, and when and how often they get them. */
interface AlertsInput {
  readonly channels?: readonly (MailInput | WebhookInput | CommandInput)[];
  /** Failures in a row before an alert for a script's incident, 1 to 1000. Default 1. */
  readonly after?: number;
  /** Time between two reminders of an open incident. Default `1d`. */
  readonly remind?: string;
  /** Local times between which only critical incidents cause alerts: `22:00-07:00`. Default: none. */
  readonly quiet?: string;
  /** Most messages per channel and hour, 1 to 1000. Default 10. */
  readonly perHour?: number;
}

/** Thresholds of the health checks: `true` for the default, `false` for never. */
interface ChecksInput {
  /** Calls of a tier that did not come, from 1. Default 1. */
  readonly tierOverdue?: number | boolean;
  /** Calls in a row that found the previous pass still running. Default 3. */
  readonly tierSkipped?: number | boolean;
  /** Jobs of a script in a row that have failed, tries included. Default 1. */
  readonly scriptFailing?: number | boolean;
  /** Successes with a warning of a script or handler since it began to warn. Default 1. */
  readonly scriptWarning?: number | boolean;
  /** Periods of its tier for which a script has not run. Default 3. */
  readonly scriptOverdue?: number | boolean;
  /** How many times as long as usual a run may last. Default 3. */
  readonly runUnusual?: number | boolean;
  /** Jobs of the queue that have failed within an hour. Default 10. */
  readonly jobsFailing?: number | boolean;
  /** Jobs of the queue that are due. Default 1000. */
  readonly jobsWaiting?: number | boolean;
  /** How long a job may be due. Default `30m`, or two periods of the most frequent tier. */
  readonly jobsLate?: string | boolean;
  /** How long jobs may be due without a worker. Default `30m`, or two periods of the most frequent tier. */
  readonly noWorker?: string | boolean;
  /** How long one job may keep its worker while others are late. Default `1h`. */
  readonly workerStuck?: string | boolean;
  /** Workers that have died within a day. Default 3. */
  readonly crashes?: number | boolean;
  /** How busy the queue's workers may be, 0 to 1. Default: any. */
  readonly utilization?: number | false;
  /** How long jobs may take on average from when they are due to their end. Default: any. */
  readonly serviceTime?: string | false;
  /** How long a quarantined log is reported. Default `7d`. */
  readonly logUnusable?: string | boolean;
  /** How much of the disk must be free. Default `100mb`. */
  readonly diskFull?: string | boolean;
  /** How long the delivery of a message may take. Default `1h`. */
  readonly alertsUndelivered?: string | boolean;
}

/** The dashboard as a file for a browser, written after each pass that ran something, otherwise every 15 minutes. */
interface ReportInput {
  /** Its path: `../public_html/status/index.html`, relative to the root; `~/` is your home. Default: no file. */
  readonly html?: string;
  /** Include output, errors and data of jobs, which are left out by default. */
  readonly withOutput?: boolean;
  /**
   * If a web server serves the folder, write a new `.htaccess` that lets nobody read it until you say who. Default
   * true.
   */
  readonly protect?: boolean;
}

/** The settings that `runner.config.{ts,js,json}` may contain; each one is optional. */
export interface SettingsInput {
  /** Options of every script. */
  readonly defaults?: ScriptOptionsInput;
  /** Options of the scripts of one tier, by its name. */
  readonly tiers?: Readonly<Record<string, TierSettingsInput>>;
  /** Options by glob over script names (`hourly/clean-*`) or files (`hourly/*.sh`); later ones win. */
  readonly scripts?: Readonly<Record<string, ScriptOptionsInput>>;
  /**
   * The time zone in which days begin, rules that name none are read, and times are shown: `Europe/Berlin`. Scripts get
   * it as `TZ`. Default: the machine's zone; the caller's `TZ` never counts.
   */
  readonly timezone?: string;
  /** How many scripts of a tier run at the same time, 1 to 64. Default 1. */
  readonly concurrency?: number;
  /** Exit 0 even if a run failed, for hosts that disable failing crontab lines. Default false. */
  readonly exitZeroOnFailure?: boolean;
  /** Variables that every script gets, with these values. */
  readonly env?: Readonly<Record<string, string>>;
  /** The umask of scripts and handlers, octal. Default `'022'`. */
  readonly umask?: string;
  readonly retention?: RetentionInput;
  /** How much of one run's output is kept on disk, at least `64kb`. Default `10mb`. */
  readonly maxOutput?: string;
  readonly limits?: LimitsInput;
  readonly queue?: QueueInput;
  readonly workers?: WorkersInput;
  readonly checks?: ChecksInput;
  /** Run and read files that others could have written. Default false: they are refused. */
  readonly allowUnsafe?: boolean;
  /** Names of variables whose values are masked in stored output, besides those that look secret. */
  readonly secrets?: string | readonly string[];
  readonly alerts?: AlertsInput;
  readonly report?: ReportInput;
}

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
