import { nearestName } from '../system/base/suggest.ts';
import {
  type Reader,
  readByteSize,
  readChoice,
  readDateFiles,
  readFlag,
  readHostPatterns,
  readNamesOfScripts,
  readPassedVariables,
  readPatternList,
  readRetryDelay,
  readRuleText,
  readShell,
  readTagWords,
  readText,
  readTimerMs,
  readUrl,
  readWholeNumber,
  readWindowText,
  readZoneName,
} from './readers.ts';
import { type Entry, heldName } from './table.ts';

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
    ofExec: { value: 'duration', about: 'end it after this time (default: never)' },
    alsoCalled: ['time-limit', 'timelimit', 'max-time', 'max-duration'],
  },
  /** How many times a failed job is tried again, 0 to 100. Default 0. */
  retries: {
    read: readWholeNumber(0, 100),
    ofExec: { value: 'count', about: 'how often to try again after a failure (default: 0)' },
    alsoCalled: ['retry', 'tries', 'attempts'],
  },
  /** How long to wait before the next try: `5m`, `exponential 30s 6h`. Default `1m`. */
  retryDelay: {
    read: readRetryDelay,
    ofExec: { value: 'delay', about: 'time before the next try: 5m, "exponential 30s 6h" (default: 1m)' },
    alsoCalled: ['backoff'],
  },
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
  warnRss: { read: readByteSize('1mb'), unit: 'Bytes', ofExec: true },
  /** Resident memory at which a run is ended: `400mb`. Default: no limit. */
  maxRss: {
    read: readByteSize('1mb'),
    unit: 'Bytes',
    ofExec: { value: 'size', about: 'end it if its processes use more memory for 5s: 400mb' },
    alsoCalled: ['rss'],
  },
  /** How long the memory may be above that limit. Default `5s`. */
  rssSustain: { read: readTimerMs, unit: 'Ms', ofExec: true },
  /** How much of one run's output is kept on disk, at least `64kb`. Default: the root's `maxOutput`. */
  maxOutput: { read: readByteSize('64kb'), unit: 'Bytes', ofExec: true },
  /** Added to the process's niceness, 0 to 19. Default 0. */
  nice: { read: readWholeNumber(0, 19), ofExec: { value: 'number', about: 'add this to its niceness, 0 to 19' } },
  /** Names of variables that scripts get from the runner's environment: `['API_KEY']`. */
  env: { read: readPassedVariables, addsUp: true, alsoCalled: ['environment'] },
  /** For handlers in `jobs/queue/`: a fresh process for each job. Default false. */
  isolate: { read: readFlag },
  /** Failures in a row before an alert is sent, 1 to 1000. Default: `alerts.after`. */
  alertAfter: { read: readWholeNumber(1, 1_000), ofExec: true },
  tags: { read: readTagWords, addsUp: true, ofExec: true },
  /** The machines that it runs on, by `RUNNER_HOST` or host name: `web-*`, `['web-1', 'web-2']`. Default: any. */
  host: { read: readHostPatterns, alsoCalled: ['hosts'] },
  /** In a fleet, each machine runs it. Default false: one machine runs it per period. */
  everyHost: { read: readFlag },
  /**
   * A URL that is called when a run starts, succeeds and fails, in the style of healthchecks.io; or the variable that
   * holds it: `$HEALTHCHECK_URL`. For a tier, it is called for its passes. Not allowed in `defaults`.
   */
  ping: { read: readUrl, isSecret: true, ofExec: true, alsoCalled: ['healthcheck'] },
  /** When it runs within its tier: `daily at 02:30`, `0 7 * * 1`, see docs/scripts.md. Default: in each pass. */
  schedule: { read: readRuleText, alsoCalled: ['cron', 'every', 'at', 'interval'] },
  /**
   * Scripts that must have succeeded since this one last ran, before it runs again: `fetch` of the same tier,
   * `daily/dump`, or globs such as `hourly/fetch-*`. Default: none.
   */
  after: {
    read: readNamesOfScripts,
    addsUp: true,
    alsoCalled: ['depends-on', 'depends', 'needs', 'requires', 'run-after'],
  },
  /** The same for a failure: one of them has failed for good, its tries used up. Default: none. */
  afterFailure: { read: readNamesOfScripts, addsUp: true, alsoCalled: ['on-failure', 'if-failed'] },
  /** The same for any end: each of them has succeeded, failed or been stopped. Default: none. */
  always: { read: readNamesOfScripts, addsUp: true, alsoCalled: ['after-any', 'finally'] },
  /** The zone of a schedule that names none: `Europe/Berlin`. Default: the zone of the settings. */
  timezone: { read: readZoneName, alsoCalled: ['tz', 'zone'] },
  /**
   * The time of day at which it may start, `22:00 and 05:00`: if it is due at another time, it waits. Default: any time.
   */
  between: { read: readWindowText, alsoCalled: ['window', 'time-window', 'only-between', 'during'] },
  /** Files with the dates on which it is not due, from the root: `holidays.txt`. Default: none. */
  except: {
    read: readDateFiles,
    addsUp: true,
    alsoCalled: ['not-on', 'except-on', 'exclude', 'skip-dates', 'holidays'],
  },
  /** Run once after each boot of the machine. Default false. */
  reboot: { read: readFlag, alsoCalled: ['boot', 'on-boot', 'startup'] },
  /**
   * A run has failed if it has printed such a line: a text, `/a regular expression/`, or several; `true`: any line by
   * which shells, PHP, Python, mysqldump and others say that something failed; `false`: such a line causes no warning
   * either.
   */
  failOn: {
    read: readPatternList(true),
    addsUp: true,
    isProse: true,
    ofExec: { value: 'text', about: 'it has failed if it prints such a line: a text or /a pattern/' },
    alsoCalled: ['fail-if', 'error-on'],
  },
  /** A run has failed unless it has printed a line with this text, or one that matches `/this regular expression/`. */
  expect: {
    read: readPatternList(false),
    addsUp: true,
    isProse: true,
    ofExec: { value: 'text', about: 'it has failed unless it prints such a line' },
    alsoCalled: ['success-if', 'expect-output'],
  },
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
  /**
   * Present if it means something for a command of `runner exec`. With words for the help, it is an option of the call;
   * otherwise the settings alone can give it, because passes need it after the call.
   */
  readonly ofExec?: true | { readonly value: string; readonly about: string };
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
