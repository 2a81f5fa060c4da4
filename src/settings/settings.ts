import type { StateFolder } from '../system/place/state-folder.ts';
import type { ScriptOptions } from './readers.ts';

/** What `runner.config.*` says, with every default filled in. */
export interface Settings {
  readonly defaults: ScriptOptions;
  readonly tiers: Readonly<Record<string, TierSettings>>;
  /** By glob over script names (`hourly/clean-*`) or file names (`hourly/*.sh`); later ones win. */
  readonly scripts: Readonly<Record<string, ScriptOptions>>;
  /** The zone of all times: periods, rules that name none, what is shown. Null: that of the machine. */
  readonly timezone: string | null;
  /** How many scripts of a tier run at the same time. */
  readonly concurrency: number;
  /** For hosts that disable a crontab line after failures. */
  readonly exitZeroOnFailure: boolean;
  /** Variables that every script gets, with these values. */
  readonly env: Readonly<Record<string, string>>;
  /** Of scripts and handlers. */
  readonly umask: number;
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
  readonly alerts: AlertSettings;
  /** What is left out is as `monitor/checks/all-well.ts` says. */
  readonly checks: CheckSettings;
  readonly report: ReportSettings;
}

/** The dashboard as a file, written after passes. */
export interface ReportSettings {
  /** As it is written: from the root, or from the user's home by `~/`; null: none is written. */
  readonly html: string | null;
  /** Also what scripts have printed and thrown, and what jobs carry. */
  readonly withOutput: boolean;
  /** Kept from anybody but whom it is for, where a web server serves its folder. */
  readonly protect: boolean;
}

/** The checks by the names that they have in the settings. */
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

/** From where on each check complains: a count, milliseconds or bytes; null: never. */
export type CheckSettings = Readonly<Partial<Record<CheckSetting, number | null>>>;

/** Whom to tell what is wrong, when, and how often. */
export interface AlertSettings {
  readonly channels: readonly ChannelSettings[];
  /** Failures in a row before a script's incident is told; `@alert-after` wins. */
  readonly after: number;
  /** How often people are reminded of an incident that is not over. */
  readonly remindMs: number;
  /** Minutes of the local day, from and until, in which only `critical` incidents are told; null: none. */
  readonly quiet: { readonly from: number; readonly until: number } | null;
  /** Messages of one channel within an hour. */
  readonly perHour: number;
}

export type ChannelKind = 'mail' | 'webhook' | 'command';

export type ChannelOption = 'from' | 'smtp' | 'sendmail' | 'preset' | 'token' | 'chat' | 'user' | 'env';

/** Services whose messages have a form of their own; `json`: the message as it is. */
export const presets = ['json', 'slack', 'discord', 'teams', 'ntfy', 'telegram', 'pushover'] as const;

export type Preset = (typeof presets)[number];

/**
 * Where messages go. Values that begin with `$` name variables of the runner's environment, whose values are read
 * as a message is sent.
 */
export interface ChannelSettings {
  /** As it is called in the settings, else its preset or kind; a further one of that name is `webhook-2`. */
  readonly name: string;
  readonly kind: ChannelKind;
  /** Of mail, the addresses; of a webhook, the URL, '' where its preset has one; of a command, its text. */
  readonly target: string;
  /** Further options of its kind: `smtp`, `from`, `preset`, `token` … */
  readonly options: Readonly<Partial<Record<ChannelOption, string>>>;
  /** Only incidents at least as bad; null: all. */
  readonly severity: 'warning' | 'critical' | null;
  /** Only incidents of scripts with one of these tags; empty: all. */
  readonly tags: readonly string[];
}

/** What `runner due` makes of passes that were missed: one for all of them, or none. */
export type CatchUp = 'once' | 'skip';

/** `ping` is that of the tier's passes, not of its scripts. */
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
  timezone: null,
  concurrency: 1,
  exitZeroOnFailure: false,
  env: {},
  // A shell's may differ from cron's: files of scripts have the same mode, whoever calls.
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

/** Options of scripts as they are written in `runner.config.*`, the same forms as in tags. */
export interface ScriptOptionsInput {
  readonly description?: string;
  /** A run that takes longer is ended: `30s`, `10m`, `2h`. Default: the tier's period, at most `1h`. */
  readonly timeout?: string;
  /** How many times a failed job is tried again, 0 to 100. Default 0. */
  readonly retries?: number | string;
  /** How long to wait before the next try: `5m`, `exponential 30s 6h`. Default `1m`. */
  readonly retryDelay?: string;
  /**
   * What follows when the runner or the machine died under a run: `retry` (at least once), `skip`
   * (until its tier's next pass), `fail` (no more tries). Default: as after any failure.
   */
  readonly onCrash?: 'retry' | 'skip' | 'fail';
  /**
   * While the database of many machines is away: `run`, without knowing what other machines do, or `wait`. Default
   * `wait`.
   */
  readonly offline?: 'run' | 'wait';
  /** Heap limit of Node scripts: `256mb`, at least `16mb`. Default: V8's own. */
  readonly memory?: string;
  /** Resident memory of a run's processes together that is worth a note: `200mb`. */
  readonly warnRss?: string;
  /** Resident memory at which a run is ended: `400mb`. Default: no limit. */
  readonly maxRss?: string;
  /** How long it may be above that. Default `5s`. */
  readonly rssSustain?: string;
  /** How much of one run's output is kept on disk, at least `64kb`. Default: the root's `maxOutput`. */
  readonly maxOutput?: string;
  /** Added to the process's niceness, 0 to 19. Default 0. */
  readonly nice?: number | string;
  /** Names of variables that scripts get from the runner's environment: `['API_KEY']`. */
  readonly env?: string | readonly string[];
  /** Of handlers in `jobs/queue/`: a fresh process for each job. Default false. */
  readonly isolate?: boolean | string;
  /** Failures in a row before people are told, 1 to 1000. Default: `alerts.after`. */
  readonly alertAfter?: number | string;
  readonly tags?: string | readonly string[];
  /** The machines that it runs on, by `RUNNER_HOST` or host name: `web-*`, `['web-1', 'web-2']`. Default: any. */
  readonly host?: string | readonly string[];
  /** Of many machines, each runs it. Default false: of a period, one of them does. */
  readonly everyHost?: boolean | string;
  /**
   * A URL that is called when a run starts, succeeds and fails, in the style of healthchecks.io; or the variable that
   * holds it: `$HEALTHCHECK_URL`. Of a tier: when a pass does. Not among `defaults`.
   */
  readonly ping?: string;
  /** When it runs, within its tier: `daily at 02:30`, `0 7 * * 1`, see docs/scripts.md. Default: in each pass. */
  readonly schedule?: string;
  /** The zone of a schedule that names none: `Europe/Berlin`. Default: that of the settings. */
  readonly timezone?: string;
  /** It runs once after each boot of the machine. Default false. */
  readonly reboot?: boolean | string;
  /**
   * A run has failed that has printed such a line: a text, `/a regular expression/`, or several; `true`: any line by
   * which shells, PHP, Python, mysqldump and others say that something failed; `false`: such a line is no warning either.
   */
  readonly failOn?: string | readonly string[] | boolean;
  /** A run has failed that has not printed a line with this text, or for `/this regular expression/`. */
  readonly expect?: string | readonly string[];
  /** The shell of shell scripts without a `#!` line: `bash -euo pipefail`. Default: `/bin/sh`. */
  readonly shell?: string;
}

export interface TierSettingsInput extends ScriptOptionsInput {
  /** How many scripts of this tier run at the same time, 1 to 64. */
  readonly concurrency?: number;
  /** Passes that `runner due` finds missed: made up for by one (`once`), or not. Default `once`. */
  readonly catchUp?: 'once' | 'skip';
}

/** What the machine must have left before a script is started; else the pass waits, then defers it. */
interface LimitsInput {
  /** The load average of the last minute: `4`, `1.5`. */
  readonly maxLoad?: number;
  /** `200mb` */
  readonly minFreeMemory?: string;
  /** Of this user, threads not counted. */
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
  /** How long a claim holds unless it is renewed. Default `1m`. */
  readonly lease?: string;
  /**
   * What is kept of jobs that have ended, by glob over their names, later ones winning: `keep` (until
   * it is pruned), `keep-failed`, `remove`. Default `keep`.
   */
  readonly archive?: Readonly<Record<string, 'keep' | 'keep-failed' | 'remove'>>;
  /** How many jobs of one group may run at the same time. Default: any number. */
  readonly groupLimit?: number;
  /** How many jobs a warm child serves before it is replaced. Default 10000. */
  readonly childJobs?: number;
  /** A warm child that holds more than this after a job is replaced. Default `256mb`. */
  readonly childMemory?: string;
  /** How many missed times of a repeating job are made up for at most, 1 to 10000. Default 100. */
  readonly missedCap?: number;
}

interface WorkersInput {
  /** How many workers of the queue may live at the same time on one log. Default 8. */
  readonly max?: number;
}

/** What every channel may have. */
interface AnyChannelInput {
  /** By which `runner alert test` calls it. Default: its preset or kind. */
  readonly name?: string;
  /** Only incidents at least as bad. Default: all. */
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
  /** Full path of a program that takes mail as sendmail does. Default: where hosts have it. */
  readonly sendmail?: string;
}

interface WebhookInput extends AnyChannelInput {
  readonly kind: 'webhook';
  /** `https://…`, or `$NAME`. Telegram and Pushover need none. */
  readonly url?: string;
  /** The form of the messages. Default: by the URL's host, else `json`. */
  readonly preset?: Preset;
  /** `$NAME`: what the service asks for; of `json` and `ntfy`, sent as `Authorization: Bearer …`. */
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

/** Whom to tell what is wrong, when, and how often. */
interface AlertsInput {
  readonly channels?: readonly (MailInput | WebhookInput | CommandInput)[];
  /** Failures in a row before a script's incident is told, 1 to 1000. Default 1. */
  readonly after?: number;
  /** How often people are reminded of an incident that is not over. Default `1d`. */
  readonly remind?: string;
  /** Local times between which only critical incidents are told: `22:00-07:00`. Default: none. */
  readonly quiet?: string;
  /** Messages of one channel within an hour, 1 to 1000. Default 10. */
  readonly perHour?: number;
}

/** From where on health checks complain: `true` as by default, `false` never. */
interface ChecksInput {
  /** Calls of a tier that did not come, from 1. Default 1. */
  readonly tierOverdue?: number | boolean;
  /** Calls in a row that found the previous pass still running. Default 3. */
  readonly tierSkipped?: number | boolean;
  /** Jobs of a script in a row that have failed, tries included. Default 1. */
  readonly scriptFailing?: number | boolean;
  /** Runs of a script or handler that have succeeded with a warning since it began to. Default 1. */
  readonly scriptWarning?: number | boolean;
  /** Periods of its tier for which a script has not run. Default 3. */
  readonly scriptOverdue?: number | boolean;
  /** How many times its usual time a run may last. Default 3. */
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
  /** How long a log that was quarantined is told of. Default `7d`. */
  readonly logUnusable?: string | boolean;
  /** How much of the disk must be free. Default `100mb`. */
  readonly diskFull?: string | boolean;
  /** How long a message may be on its way. Default `1h`. */
  readonly alertsUndelivered?: string | boolean;
}

/** The dashboard as a file for a browser, written after each pass that ran something, else every 15 minutes. */
interface ReportInput {
  /** Where: `../public_html/status/index.html`, from the root; `~/` is your home. Default: nowhere. */
  readonly html?: string;
  /** Also output, errors and data of jobs, which are left out by default. */
  readonly withOutput?: boolean;
  /** Where a web server serves the folder, a new `.htaccess` lets nobody read it until you say who. Default true. */
  readonly protect?: boolean;
}

/** What `runner.config.{ts,js,json}` may hold; every setting is optional. */
export interface SettingsInput {
  /** Options of every script. */
  readonly defaults?: ScriptOptionsInput;
  /** Options of the scripts of one tier, by its name. */
  readonly tiers?: Readonly<Record<string, TierSettingsInput>>;
  /** Options by glob over script names (`hourly/clean-*`) or files (`hourly/*.sh`); later ones win. */
  readonly scripts?: Readonly<Record<string, ScriptOptionsInput>>;
  /**
   * The time zone in which days begin, rules that name none are read, and times are shown: `Europe/Berlin`. Scripts get
   * it as `TZ`. Default: that of the machine; `TZ` of the caller never counts.
   */
  readonly timezone?: string;
  /** How many scripts of a tier run at the same time, 1 to 64. Default 1. */
  readonly concurrency?: number;
  /** Exit 0 even if a run failed, for hosts that disable failing crontab lines. Default false. */
  readonly exitZeroOnFailure?: boolean;
  /** Variables that every script gets, with these values. */
  readonly env?: Readonly<Record<string, string>>;
  /** Of scripts and handlers, octal. Default `'022'`. */
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
 * Gives the settings in `runner.config.ts` their types; it returns them as they are.
 * A script's own tags win over `scripts`, `scripts` over `tiers`, `tiers` over `defaults`.
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
