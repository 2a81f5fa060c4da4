import * as z from 'zod/mini';
import { nearestName } from '../system/base/suggest.ts';
import {
  type Reader,
  readBoolean,
  readByteSize,
  readChoice,
  readDurationMs,
  readPositiveNumber,
  readText,
  readTimerMs,
  readWholeNumber,
  readWords,
  type ScriptOptions,
  scriptSettings,
  variableName,
} from './readers.ts';
import { defaultSettings, type Settings, type TierSettings } from './settings.ts';

/** Zod checks the structure; each value is read as in tags. An issue's message is what was expected. */
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

const settingsShape = {
  defaults: z.optional(scriptOptions),
  tiers: z.optional(z.record(z.string(), tierSettings)),
  scripts: z.optional(z.record(z.string(), scriptOptions)),
  concurrency: readWith(readWholeNumber(1, 64)),
  exitZeroOnFailure: readWith(readBoolean),
  env: z.optional(z.record(z.string().check(z.regex(variableName)), readWith(readText))),
  retention: z.optional(z.strictObject(retentionShape)),
  maxOutput: readWith(readByteSize('64kb')),
  limits: z.optional(z.strictObject(limitsShape)),
  queue: z.optional(z.strictObject(queueShape)),
  workers: z.optional(z.strictObject(workersShape)),
  allowUnsafe: readWith(readBoolean),
  secrets: readWith(readWords(variableName, 'names of environment variables such as SHOP_LOGIN')),
};

const settingsSchema = z.pipe(z.strictObject(settingsShape), z.transform(withDefaults));

type FoundSettings = z.output<z.ZodMiniObject<typeof settingsShape>>;

function withDefaults(found: FoundSettings): Settings {
  const { retention, limits, queue, workers } = defaultSettings;
  return {
    defaults: found.defaults ?? {},
    tiers: found.tiers ?? {},
    scripts: found.scripts ?? {},
    concurrency: found.concurrency ?? defaultSettings.concurrency,
    exitZeroOnFailure: found.exitZeroOnFailure ?? defaultSettings.exitZeroOnFailure,
    env: withoutUndefined(found.env ?? {}),
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
    secrets: found.secrets ?? defaultSettings.secrets,
    alerts: defaultSettings.alerts,
  };
}

/** `process.env.X` in a config file may be undefined: that variable is not set. */
function withoutUndefined<Value>(found: Readonly<Record<string, Value | undefined>>) {
  const isSet = (entry: [string, Value | undefined]): entry is [string, Value] => entry[1] !== undefined;
  return Object.fromEntries(Object.entries(found).filter(isSet));
}

/** One wrong value, or a key that there is not. */
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
  if (isOnTop && Object.hasOwn(scriptShape, key)) return 'put it under defaults, tiers.<tier> or scripts';
  const nearest = nearestName(key, known);
  return nearest === null ? `known are ${known.join(', ')}` : `did you mean ${nearest}?`;
}

function keysAt([first]: readonly string[]): readonly string[] {
  if (first === undefined) return Object.keys(settingsShape);
  if (first === 'retention') return Object.keys(retentionShape);
  if (first === 'limits') return Object.keys(limitsShape);
  if (first === 'queue') return Object.keys(queueShape);
  if (first === 'workers') return Object.keys(workersShape);
  return Object.keys(first === 'tiers' ? tierShape : scriptShape);
}
