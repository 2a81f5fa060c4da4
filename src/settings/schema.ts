import * as z from 'zod/mini';
import { nameChannels, readChannel, variablesOf } from './channels.ts';
import { nearestSetting } from './near-miss.ts';
import {
  type Reader,
  readBoolean,
  readByteSize,
  readChoice,
  readDurationMs,
  readPositiveNumber,
  readSiteZone,
  readText,
  readTimerMs,
  readWholeNumber,
  readWords,
  type ScriptOptions,
  scriptSettings,
  variableName,
} from './readers.ts';
import {
  type AlertSettings,
  type ChannelSettings,
  type CheckSetting,
  defaultSettings,
  type Settings,
  type TierSettings,
} from './settings.ts';

/** Zod checks the structure; each value is read as in tags. The message of an issue says what was expected. */
function readWith<T>(read: Reader<T>) {
  return z.optional(
    z.pipe(
      z.unknown(),
      z.transform((found, context): T => {
        const reading = read(found);
        if ('value' in reading) return reading.value;
        context.issues.push({ code: 'custom', message: reading.expected, input: found });
        return z.NEVER;
      }),
    ),
  );
}

const scriptShape = Object.fromEntries(scriptSettings.map((setting) => [setting.key, readWith(setting.read)]));

const scriptOptions = z.pipe(
  z.strictObject(scriptShape),
  z.transform((found): ScriptOptions => Object.assign({}, ...Object.values(found))),
);

/** A single URL for all scripts of a site would say nothing about any of them. */
const { ping: _, ...sharedShape } = scriptShape;

const sharedOptions = z.pipe(
  z.strictObject(sharedShape),
  z.transform((found): ScriptOptions => Object.assign({}, ...Object.values(found))),
);

const tierShape = {
  ...scriptShape,
  concurrency: readWith(named('concurrency', readWholeNumber(1, 64))),
  catchUp: readWith(named('catchUp', readChoice('once', 'skip'))),
};

const tierSettings = z.pipe(
  z.strictObject(tierShape),
  z.transform((found): TierSettings => Object.assign({}, ...Object.values(found))),
);

function named<T>(key: string, read: Reader<T>): Reader<Record<string, T>> {
  return (found) => {
    const reading = read(found);
    return 'value' in reading ? { value: { [key]: reading.value } } : reading;
  };
}

const retentionShape = {
  succeeded: readWith(readDurationMs),
  failed: readWith(readDurationMs),
  maxDatabaseSize: readWith(readByteSize('1mb')),
};

const limitsShape = {
  maxLoad: readWith(readPositiveNumber(10_000)),
  minFreeMemory: readWith(readByteSize('1mb')),
  maxProcesses: readWith(readWholeNumber(1, 1_000_000)),
  maxWait: readWith(readTimerMs),
};

const queueShape = {
  lease: readWith(readTimerMs),
  archive: z.optional(z.record(z.string(), readWith(readChoice('keep', 'keep-failed', 'remove')))),
  groupLimit: readWith(readWholeNumber(1, 10_000)),
  childJobs: readWith(readWholeNumber(1, 1_000_000)),
  childMemory: readWith(readByteSize('16mb')),
  missedCap: readWith(readWholeNumber(1, 10_000)),
};

const workersShape = {
  max: readWith(readWholeNumber(1, 1_000)),
};

const channel = z.pipe(
  z.unknown(),
  z.transform((found, context): ChannelSettings => {
    const checked = readChannel(found);
    if ('channel' in checked) return checked.channel;
    for (const { key, expected, found: input } of checked.issues) {
      context.issues.push({ code: 'custom', message: expected, input, path: key === null ? [] : [key] });
    }
    return z.NEVER;
  }),
);

/** "22:00-07:00", in minutes of the local day. */
const readQuiet: Reader<NonNullable<AlertSettings['quiet']>> = (found) => {
  const form = /^([01]?\d|2[0-3]):([0-5]\d) ?[-–] ?([01]?\d|2[0-3]):([0-5]\d)$/;
  const [from = 0, fromMinute = 0, until = 0, untilMinute = 0] =
    (typeof found === 'string' ? form.exec(found.trim()) : null)?.slice(1).map(Number) ?? [];
  const quiet = { from: from * 60 + fromMinute, until: until * 60 + untilMinute };
  return quiet.from === quiet.until ? { expected: 'two times of the day such as 22:00-07:00' } : { value: quiet };
};

const alertsShape = {
  channels: z.optional(
    z.pipe(
      z.array(channel),
      z.transform((found: ChannelSettings[]) => nameChannels(found)),
    ),
  ),
  after: readWith(readWholeNumber(1, 1_000)),
  remind: readWith(readDurationMs),
  quiet: readWith(readQuiet),
  perHour: readWith(readWholeNumber(1, 1_000)),
};

const readCount = readWholeNumber(1, 1_000_000);

const checksShape = {
  tierOverdue: readCheck(readCount),
  tierSkipped: readCheck(readCount),
  scriptFailing: readCheck(readCount),
  scriptWarning: readCheck(readCount),
  scriptOverdue: readCheck(readCount),
  runUnusual: readCheck(readPositiveNumber(1_000)),
  jobsFailing: readCheck(readCount),
  jobsWaiting: readCheck(readCount),
  jobsLate: readCheck(readDurationMs),
  noWorker: readCheck(readDurationMs),
  workerStuck: readCheck(readDurationMs),
  crashes: readCheck(readCount),
  utilization: readCheck(readPositiveNumber(1)),
  serviceTime: readCheck(readDurationMs),
  logUnusable: readCheck(readDurationMs),
  diskFull: readCheck(readByteSize('1kb')),
  alertsUndelivered: readCheck(readDurationMs),
} satisfies Record<CheckSetting, unknown>;

/** `false` switches a check off: its threshold is null. `true` means its default threshold. */
function readCheck(read: Reader<number>) {
  const readThreshold: Reader<number | null | undefined> = (found) => {
    if (typeof found === 'boolean') return { value: found ? undefined : null };
    const reading = read(found);
    return 'value' in reading ? reading : { expected: `${reading.expected}, or true or false` };
  };
  return readWith(readThreshold);
}

const reportShape = {
  html: readWith(readPath),
  withOutput: readWith(readBoolean),
  protect: readWith(readBoolean),
};

/** A text, because JSON has no octal numbers. A mask that takes rights from the owner would exclude the runner, too. */
function readUmask(found: unknown) {
  const isMask = typeof found === 'string' && /^0{0,2}[0-7]{2}$/.test(found);
  return isMask ? { value: Number.parseInt(found, 8) } : { expected: "a text such as '022' or '077'" };
}

function readPath(found: unknown) {
  const isPath = typeof found === 'string' && found.trim() !== '' && !/\p{Cc}/u.test(found);
  return isPath ? { value: found } : { expected: 'a file such as ../public_html/status/index.html' };
}

const settingsShape = {
  defaults: z.optional(sharedOptions),
  tiers: z.optional(z.record(z.string(), tierSettings)),
  scripts: z.optional(z.record(z.string(), scriptOptions)),
  timezone: readWith(readSiteZone),
  concurrency: readWith(readWholeNumber(1, 64)),
  exitZeroOnFailure: readWith(readBoolean),
  env: z.optional(z.record(z.string().check(z.regex(variableName)), readWith(readText))),
  umask: readWith(readUmask),
  retention: z.optional(z.strictObject(retentionShape)),
  maxOutput: readWith(readByteSize('64kb')),
  limits: z.optional(z.strictObject(limitsShape)),
  queue: z.optional(z.strictObject(queueShape)),
  workers: z.optional(z.strictObject(workersShape)),
  checks: z.optional(z.strictObject(checksShape)),
  allowUnsafe: readWith(readBoolean),
  secrets: readWith(readWords(variableName, 'names of environment variables such as SHOP_LOGIN')),
  alerts: z.optional(z.strictObject(alertsShape)),
  report: z.optional(z.strictObject(reportShape)),
};

const settingsSchema = z.pipe(z.strictObject(settingsShape), z.transform(withDefaults));

type FoundSettings = z.output<z.ZodMiniObject<typeof settingsShape>>;

function withDefaults(found: FoundSettings): Settings {
  const { retention, limits, queue, workers, alerts } = defaultSettings;
  const channels = found.alerts?.channels ?? alerts.channels;
  return {
    defaults: found.defaults ?? {},
    tiers: found.tiers ?? {},
    scripts: found.scripts ?? {},
    timezone: found.timezone ?? defaultSettings.timezone,
    concurrency: found.concurrency ?? defaultSettings.concurrency,
    exitZeroOnFailure: found.exitZeroOnFailure ?? defaultSettings.exitZeroOnFailure,
    env: withoutUndefined(found.env ?? {}),
    umask: found.umask ?? defaultSettings.umask,
    retention: {
      succeededMs: found.retention?.succeeded ?? retention.succeededMs,
      failedMs: found.retention?.failed ?? retention.failedMs,
      maxDatabaseBytes: found.retention?.maxDatabaseSize ?? retention.maxDatabaseBytes,
    },
    maxOutputBytes: found.maxOutput ?? defaultSettings.maxOutputBytes,
    limits: {
      maxLoad: found.limits?.maxLoad ?? limits.maxLoad,
      minFreeMemoryBytes: found.limits?.minFreeMemory ?? limits.minFreeMemoryBytes,
      maxProcesses: found.limits?.maxProcesses ?? limits.maxProcesses,
      maxWaitMs: found.limits?.maxWait ?? limits.maxWaitMs,
    },
    queue: {
      leaseMs: found.queue?.lease ?? queue.leaseMs,
      archive: withoutUndefined(found.queue?.archive ?? {}),
      groupLimit: found.queue?.groupLimit ?? queue.groupLimit,
      childJobs: found.queue?.childJobs ?? queue.childJobs,
      childMemoryBytes: found.queue?.childMemory ?? queue.childMemoryBytes,
      missedCap: found.queue?.missedCap ?? queue.missedCap,
    },
    workers: { max: found.workers?.max ?? workers.max },
    allowUnsafe: found.allowUnsafe ?? defaultSettings.allowUnsafe,
    // Masks the variables that channels are read from, in case a script gets one and prints it.
    secrets: [...new Set([...(found.secrets ?? []), ...variablesOf(channels)])],
    alerts: {
      channels,
      after: found.alerts?.after ?? alerts.after,
      remindMs: found.alerts?.remind ?? alerts.remindMs,
      quiet: found.alerts?.quiet ?? alerts.quiet,
      perHour: found.alerts?.perHour ?? alerts.perHour,
    },
    checks: withoutUndefined(found.checks ?? {}),
    report: { ...defaultSettings.report, ...withoutUndefined(found.report ?? {}) },
  };
}

/** `process.env.X` in a config file may be undefined: then the variable is not set. */
function withoutUndefined<Value>(found: Readonly<Record<string, Value | undefined>>) {
  const isSet = (entry: [string, Value | undefined]): entry is [string, Value] => entry[1] !== undefined;
  return Object.fromEntries(Object.entries(found).filter(isSet));
}

/** One wrong value, or an unknown key. */
export interface SettingIssue {
  readonly path: readonly string[];
  readonly expected: string;
  readonly found: unknown;
  /** As in `Problem`. */
  readonly statement?: string;
}

type CheckedSettings = { readonly settings: Settings } | { readonly issues: readonly SettingIssue[] };

/** Every issue is reported, not only the first. */
export function validateSettings(input: unknown): CheckedSettings {
  const checked = settingsSchema.safeParse(input);
  if (checked.success) return { settings: checked.data };
  return { issues: checked.error.issues.flatMap((issue) => explain(issue, input)) };
}

function explain(issue: z.core.$ZodIssue, input: unknown): readonly SettingIssue[] {
  const path = issue.path.map(String);
  if (issue.code === 'unrecognized_keys') return issue.keys.map((key) => unknownKey(path, key));
  return [{ path, expected: expectation(issue), found: foundIn(issue, input) }];
}

function expectation(issue: z.core.$ZodIssue): string {
  if (issue.code === 'custom') return issue.message;
  if (issue.code === 'invalid_key') return 'a name such as API_KEY';
  if (issue.code === 'invalid_type' && issue.expected === 'array') return 'a list';
  return 'an object';
}

function foundIn(issue: z.core.$ZodIssue, input: unknown): unknown {
  if (issue.code === 'invalid_key') return issue.path.at(-1);
  return issue.path.reduce<unknown>((value, key) => Object(value)[key], input);
}

function unknownKey(path: readonly string[], key: string): SettingIssue {
  const statement = `is not a known setting; ${hintFor(key, keysAt(path), path.length === 0)}`;
  return { path: [...path, key], expected: 'a known setting', found: key, statement };
}

function hintFor(key: string, known: readonly string[], isOnTop: boolean): string {
  if (key === 'ping') return 'put it under tiers.<tier> or scripts, as each needs a URL of its own';
  if (isOnTop && Object.hasOwn(scriptShape, key)) return 'put it under defaults, tiers.<tier> or scripts';
  const nearest = nearestSetting(key, known);
  return nearest === null ? `known are ${known.join(', ')}` : `did you mean ${nearest}?`;
}

function keysAt([first]: readonly string[]): readonly string[] {
  if (first === undefined) return Object.keys(settingsShape);
  if (first === 'retention') return Object.keys(retentionShape);
  if (first === 'limits') return Object.keys(limitsShape);
  if (first === 'queue') return Object.keys(queueShape);
  if (first === 'workers') return Object.keys(workersShape);
  if (first === 'checks') return Object.keys(checksShape);
  if (first === 'alerts') return Object.keys(alertsShape);
  if (first === 'report') return Object.keys(reportShape);
  if (first === 'tiers') return Object.keys(tierShape);
  return Object.keys(first === 'defaults' ? sharedShape : scriptShape);
}
