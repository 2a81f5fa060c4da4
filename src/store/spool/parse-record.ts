import type { ProcessIdentity } from '../../process/process-identity.ts';
import type { FinishedRun } from '../schema.ts';
import {
  SPOOL_VERSION,
  type SpoolEntry,
  type SpooledClaim,
  type SpooledPolicy,
  type SpoolFinish,
  type SpoolHeader,
  type SpoolRecord,
  type SpoolRun,
} from './spool-record.ts';

/** What a line says that is not a record; its message follows "line 3 is no record: ". */
export class NoRecord extends Error {}

/**
 * Reads a line as the record that it is; what is in it besides is left out. By hand, not by a schema
 * library: that would cost more to load than a spool takes to read.
 *
 * @throws {NoRecord}
 */
export function parseRecord(line: string): SpoolRecord {
  const value = parseJson(line);
  if (!isObject(value)) throw new NoRecord('it is no object');
  const read = recordTypes.get(value.type);
  if (read === undefined) throw new NoRecord(`its type is ${tell(value.type)}`);
  return read(value, '');
}

/** A value of the type wanted, or {@link NoRecord}; the path tells where in the record it stands. */
type Read<T> = (value: unknown, path: string) => T;

function parseJson(line: string): unknown {
  try {
    return JSON.parse(line);
  } catch {
    throw new NoRecord('it is no JSON');
  }
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function tell(value: unknown): string {
  const text = JSON.stringify(value) ?? 'missing';
  return text.length > 40 ? `${text.slice(0, 40)}…` : text;
}

function readIf<T>(expected: string, fits: (value: unknown) => boolean): Read<T> {
  return (value, path) => {
    if (fits(value)) return value as T;
    throw new NoRecord(`${path} is ${tell(value)}, not ${expected}`);
  };
}

const orNull =
  <T>(read: Read<T>): Read<T | null> =>
  (value, path) =>
    value === null ? null : read(value, path);

const oneOf = <T extends string | number>(...values: readonly T[]): Read<T> =>
  readIf(`one of ${values.join(', ')}`, (value) => (values as readonly unknown[]).includes(value));

type Fields<T> = { readonly [Key in keyof T]-?: Read<T[Key]> };

function object<T>(fields: Fields<T>): Read<T> {
  const entries = Object.entries(fields) as [string, Read<unknown>][];
  return (value, path) => {
    if (!isObject(value)) throw new NoRecord(`${path} is ${tell(value)}, not an object`);
    const prefix = path === '' ? '' : `${path}.`;
    return Object.fromEntries(
      entries.map(([key, read]) => [key, read(value[key], prefix + key)]),
    ) as T;
  };
}

const integer = readIf<number>('a whole number', Number.isSafeInteger);
const count = readIf<number>('a whole number from 0 on', (value) => isCount(value));
const figure = readIf<number>('a number', Number.isFinite);
const yesOrNo = readIf<boolean>('true or false', (value) => typeof value === 'boolean');
const text = readIf<string>('a text', (value) => typeof value === 'string');
const NAME_LENGTH = 1_000;
const name = readIf<string>('a name', (value) => isName(value));
const id = readIf<string>('an id', (value) => fits(value, /^[\w-]{8,64}$/));
/** It is opened in `output/` by this name: it must not lead elsewhere. */
const outputFile = readIf<string>('an output file', (value) => fits(value, /^[\w-]+\.log\.gz$/));

function isCount(value: unknown): boolean {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}

function isName(value: unknown): boolean {
  return fits(value, /^\P{Cc}+$/u) && (value as string).length <= NAME_LENGTH;
}

function fits(value: unknown, pattern: RegExp): boolean {
  return typeof value === 'string' && pattern.test(value);
}

const identity = object<ProcessIdentity>({
  host: name,
  bootId: orNull(name),
  pid: count,
  startTicks: orNull(count),
});

const header = object<SpoolHeader>({
  type: oneOf('worker'),
  version: readIf(
    `${SPOOL_VERSION}, the one that this runner knows`,
    (value) => value === SPOOL_VERSION,
  ),
  spoolId: id,
  kind: oneOf('tier', 'script', 'leftover'),
  tier: orNull(name),
  identity,
  scheduledFor: orNull(integer),
  startedAt: integer,
  calledBy: oneOf('schedule', 'due', 'hand'),
  runnerVersion: name,
  nodeVersion: name,
  reason: text,
});

const finishedRun: Fields<Omit<FinishedRun, 'rss_change_bytes'>> = {
  outcome: oneOf('succeeded', 'failed', 'timed-out', 'killed', 'crashed', 'not-started'),
  finished_at: integer,
  duration_ms: orNull(figure),
  user_cpu_ms: orNull(figure),
  system_cpu_ms: orNull(figure),
  max_rss_bytes: orNull(count),
  measured_by: orNull(oneOf('self', 'sampled')),
  exit_code: orNull(integer),
  signal: orNull(name),
  reason: orNull(text),
  warning: orNull(text),
  error_name: orNull(text),
  error_message: orNull(text),
  error_stack: orNull(text),
  output_bytes: orNull(count),
  output_dropped_bytes: orNull(count),
  output_file: orNull(outputFile),
  output_file_bytes: orNull(count),
  output: orNull(text),
};

const run: Fields<SpoolRun> = {
  spoolId: id,
  jobId: orNull(count),
  script: name,
  tier: orNull(name),
  attempt: count,
  scheduledFor: orNull(integer),
  startedAt: integer,
  timeoutMs: orNull(count),
  contentHash: orNull(name),
};

const claim = object<SpooledClaim>({
  id: count,
  token: name,
  runId: count,
  startedAt: integer,
  attempt: count,
});

const policy = object<SpooledPolicy>({
  maxAttempts: count,
  retryDelayMs: count,
  retryFactor: count,
  retryLongestMs: count,
  onCrash: orNull(oneOf('retry', 'skip', 'fail')),
});

type Entry<Type extends SpoolEntry['type']> = Extract<SpoolEntry, { readonly type: Type }>;

const recordTypes: ReadonlyMap<unknown, Read<SpoolRecord>> = new Map<unknown, Read<SpoolRecord>>([
  ['worker', header],
  ['begun', object<Entry<'begun'>>({ type: oneOf('begun'), ...run })],
  ['run', object<Entry<'run'>>({ type: oneOf('run'), ...run, run: object(finishedRun) })],
  [
    'end',
    object<Entry<'end'>>({
      type: oneOf('end'),
      ...run,
      claim,
      policy,
      isRetryable: yesOrNo,
      run: object(finishedRun),
    }),
  ],
  [
    'finished',
    object<SpoolFinish>({ type: oneOf('finished'), finishedAt: integer, reason: orNull(text) }),
  ],
]);
