import { closeSync, constants, fstatSync, openSync, readSync, statSync } from 'node:fs';
import type { HandlerDecision } from '../../child/contract.ts';
import { isKeptOutputName } from '../../system/place/state-folder.ts';
import { checkLiveness } from '../../system/process/identity.ts';
import type { ColumnDefinition, Kind } from '../columns.ts';
import type { FinishedRun } from '../schema.ts';
import { endColumns } from '../shared/run-rows.ts';
import { tables } from '../tables.ts';
import { endings, triggers, workerKinds } from '../words.ts';
import { SPOOL_VERSION, type SpoolFile } from './files.ts';

/** A line that is no record; the rest of the file can be read. */
interface NotUnderstood {
  readonly type: 'not-understood';
  readonly problem: string;
}

/** A last line that breaks off: its writer has not reported it as written. */
interface Torn {
  readonly type: 'torn';
}

export type SpoolLine = SpoolRecord | NotUnderstood | Torn;

/** The largest record, an output of 64 KB and a long stack with every character escaped, has 1 MB. */
const MAX_LINE_BYTES = 4 * 1024 * 1024;

/**
 * Reads a spool file line by line.
 *
 * @throws if the file cannot be opened, or belongs to another user
 */
export function* readSpool(path: string): Generator<SpoolLine> {
  const fd = openOwnFile(path);
  try {
    let number = 0;
    for (const line of readLines(fd, MAX_LINE_BYTES)) {
      number += 1;
      yield readLine(line, number);
    }
  } finally {
    closeSync(fd);
  }
}

function readLine({ text, isWhole }: Line, number: number): SpoolLine {
  if (!isWhole) return { type: 'torn' };
  try {
    if (text === null) throw new NoRecord(`it is longer than ${MAX_LINE_BYTES} bytes`);
    const record = parseRecord(text);
    // The first line tells whose the others are.
    if ((record.type === 'worker') !== (number === 1)) throw new NoRecord(`it is a ${record.type}`);
    return record;
  } catch (error) {
    if (!(error instanceof NoRecord)) throw error;
    return { type: 'not-understood', problem: `line ${number} is not a record: ${error.message}` };
  }
}

/** A file of another user could contain any records; a named pipe would block the reader for ever. */
function openOwnFile(path: string): number {
  const fd = openSync(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  const stats = fstatSync(fd);
  const uid = process.getuid?.();
  const isOwn = stats.isFile() && (stats.uid === uid || uid === 0) && (stats.mode & 0o022) === 0;
  if (isOwn) return fd;
  closeSync(fd);
  throw new Error(`${path} is not this user's own file`);
}

/** Another host's worker cannot be seen from here; so long after its last word it has no more to say. */
const SILENT_MS = 7 * 24 * 60 * 60 * 1_000;

/**
 * Without a whole first line after this long, in milliseconds, its worker has died before it wrote one. A younger file
 * may just have been made.
 */
const SPEECHLESS_MS = 60_000;

/** Whether nobody adds to the file any more. `at` is now, in epoch milliseconds. */
export function isReady({ path, isClosed }: SpoolFile, at: number): boolean {
  if (isClosed) return true;
  const first = readFirst(path);
  if (first === null || first.type === 'torn') return isSilent(path, at, SPEECHLESS_MS);
  const liveness = first.type === 'worker' ? checkLiveness(first) : 'on-another-host';
  return liveness === 'dead' || (liveness === 'on-another-host' && isSilent(path, at, SILENT_MS));
}

function readFirst(path: string): SpoolLine | null {
  for (const line of readSpool(path)) return line;
  return null;
}

/** Either way: the clock may have been set back since. */
function isSilent(path: string, at: number, silentMs: number): boolean {
  return Math.abs(at - statSync(path).mtimeMs) > silentMs;
}

/** One line of a file. */
interface Line {
  /** Null: it is longer than any line may be. */
  readonly text: string | null;
  /** False: the file ends in the middle of it. */
  readonly isWhole: boolean;
}

const CHUNK_BYTES = 64 * 1024;
const LINE_FEED = 0x0a;

/** A file's lines, each read when it is asked for; of what is too long, nothing is kept in memory. */
function* readLines(fd: number, maxLineBytes: number): Generator<Line> {
  let begun: Buffer[] = [];
  let bytes = 0;
  const keep = (piece: Buffer): void => {
    bytes += piece.length;
    if (bytes <= maxLineBytes) begun.push(piece);
    else begun = [];
  };
  const end = (isWhole: boolean): Line => {
    const text = bytes <= maxLineBytes ? Buffer.concat(begun).toString('utf8') : null;
    begun = [];
    bytes = 0;
    return { text, isWhole };
  };
  for (const chunk of readChunks(fd)) {
    let start = 0;
    for (let at = chunk.indexOf(LINE_FEED); at !== -1; at = chunk.indexOf(LINE_FEED, start)) {
      keep(chunk.subarray(start, at));
      yield end(true);
      start = at + 1;
    }
    if (start < chunk.length) keep(chunk.subarray(start));
  }
  if (bytes > 0) yield end(false);
}

function* readChunks(fd: number): Generator<Buffer> {
  for (;;) {
    const chunk = Buffer.alloc(CHUNK_BYTES);
    const length = readSync(fd, chunk);
    if (length === 0) return;
    yield chunk.subarray(0, length);
  }
}

/** Why a line is not a record; the message follows "line 3 is not a record: ". */
class NoRecord extends Error {}

/**
 * Reads a line as the record that it is; what is in it besides is left out. By hand, not by a schema
 * library: that would cost more to load than a spool takes to read.
 *
 * @throws {NoRecord}
 */
function parseRecord(line: string): SpoolRecord {
  const value = parseJson(line);
  if (!isObject(value)) throw new NoRecord('it is not an object');
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
    throw new NoRecord('it is not JSON');
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

const orLeftOut =
  <T>(read: Read<T>): Read<T | undefined> =>
  (value, path) =>
    value === undefined ? undefined : read(value, path);

const oneOf = <T extends string | number>(...values: readonly T[]): Read<T> =>
  readIf(`one of ${values.join(', ')}`, (value) => (values as readonly unknown[]).includes(value));

/** The result of a reader of a record's fields: fields that may be left out are optional. */
type ReadOf<R> = R extends Read<infer T> ? T : never;
type Fields = Readonly<Record<string, Read<unknown>>>;
type Of<F> = {
  readonly [Key in keyof F as undefined extends ReadOf<F[Key]> ? never : Key]: ReadOf<F[Key]>;
} & {
  readonly [Key in keyof F as undefined extends ReadOf<F[Key]> ? Key : never]?: Exclude<ReadOf<F[Key]>, undefined>;
};

function object<F extends Fields>(fields: F): Read<Of<F>> {
  const entries = Object.entries(fields);
  return (value, path) => {
    if (!isObject(value)) throw new NoRecord(`${path} is ${tell(value)}, not an object`);
    const prefix = path === '' ? '' : `${path}.`;
    return Object.fromEntries(entries.map(([key, read]) => [key, read(value[key], prefix + key)])) as Of<F>;
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
const outputFile = readIf<string>('an output file', (value) => typeof value === 'string' && isKeptOutputName(value));

function isCount(value: unknown): boolean {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}

function isName(value: unknown): boolean {
  return fits(value, /^\P{Cc}+$/u) && (value as string).length <= NAME_LENGTH;
}

function fits(value: unknown, pattern: RegExp): boolean {
  return typeof value === 'string' && pattern.test(value);
}

const header = object({
  type: oneOf('worker'),
  version: readIf<typeof SPOOL_VERSION>(
    `${SPOOL_VERSION}, the one that this runner knows`,
    (value) => value === SPOOL_VERSION,
  ),
  spoolId: id,
  kind: oneOf(...workerKinds),
  tier: orNull(name),
  host: name,
  bootId: orNull(name),
  pid: count,
  startTicks: orNull(count),
  scheduledFor: orNull(integer),
  /** With its process, that by which its row is found again if it had begun in the log. */
  startedAt: integer,
  trigger: oneOf(...triggers),
  actor: orLeftOut(orNull(text)),
  runnerVersion: name,
  nodeVersion: name,
  /** Why there is no log: what follows "because". */
  reason: text,
});

/** The first line of a spool file. */
export type SpoolHeader = ReadOf<typeof header>;

/** A worker that has no log to write to, and why. */
export type SpoolingWorker = Omit<SpoolHeader, 'type' | 'version' | 'spoolId'>;

/** The figures that a script has counted. */
const counts: Read<Record<string, number>> = readIf('an object of numbers', (value) => {
  return isObject(value) && Object.entries(value).every((each) => isName(each[0]) && Number.isFinite(each[1]));
});

/** A column of a run, by its type. */
function readColumn({ facts }: ColumnDefinition): Read<unknown> {
  return facts.isNullable ? orNull(readerOf(facts)) : readerOf(facts);
}

function readerOf({ values, isCount, isFlag, kind }: ColumnDefinition['facts']): Read<unknown> {
  if (values !== undefined) return oneOf(...values);
  if (isFlag) return oneOf(0, 1);
  return isCount ? count : readers[kind];
}

const readers: Readonly<Record<Kind, Read<unknown>>> = {
  ...{ id: count, integer, real: figure, text, json: text, name, word: name, blob: text },
};

const finishedRun = {
  ...Object.fromEntries(endColumns.map((column) => [column, readColumn(tables.runs.columns[column])])),
  outcome: oneOf(...endings),
  finished_at: integer,
  output_file: orNull(outputFile),
  output: orNull(text),
  pid: orLeftOut(count),
  counts: orLeftOut(counts),
};

const policy = object({
  maxAttempts: count,
  delay: object({ firstMs: count, factor: count, longestMs: count }),
  onCrash: orNull(oneOf('retry', 'skip', 'fail')),
});

/** The rules of a job for further tries. */
export type SpooledPolicy = ReadOf<typeof policy>;

const run = {
  /** Distinguishes it from every other run, for ever: it is replayed once. */
  spoolId: id,
  /** The claim by which the log knows it; null: it began without the log. */
  claim: orNull(object({ id: count, token: name })),
  /** Its job, if that was in the log, waiting to be run, before the log was lost. */
  jobId: orNull(count),
  tier: orNull(name),
  /** The only machine that its job is for; left out: any. */
  onlyHost: orLeftOut(name),
  /** The time that its job stands for: the start of a period, or the time of a script's own schedule. */
  slot: orNull(integer),
  /** For a script: the ends of others that it has used, which only its pass knew. */
  usedEnds: orLeftOut(counts),
  /** The beginning of the run, for its row. */
  start: object({
    script: name,
    contentHash: orNull(name),
    attempt: count,
    scheduledFor: orNull(integer),
    startedAt: integer,
    timeoutMs: orNull(count),
  }),
  policy,
};

/** A run as far as it is known before its end. */
export type SpooledRun = Of<typeof run>;

const decision: Read<HandlerDecision> = (value, path) => {
  const { kind } = object({ kind: oneOf('retry', 'fail') })(value, path);
  if (kind === 'fail') return object({ kind: oneOf('fail'), reason: text })(value, path);
  const retry = object({
    kind: oneOf('retry'),
    delayMs: orLeftOut(count),
    runAt: orLeftOut(integer),
    failure: orLeftOut(text),
    priority: orLeftOut(integer),
    name: orLeftOut(name),
    data: orLeftOut(text),
  } satisfies Record<keyof Extract<HandlerDecision, { kind: 'retry' }>, Read<unknown>>)(value, path);
  return Object.fromEntries(Object.entries(retry).filter(([, each]) => each !== undefined)) as HandlerDecision;
};

/** A run begins that the log knows nothing of: should its runner die, this is all there is of it. */
const begun = object({ type: oneOf('begun'), ...run });

/** A run has ended: what settles it once there is a log. Should the log of its claim be gone, its claim is ignored. */
const ended = object({
  type: oneOf('ended'),
  ...run,
  end: object(finishedRun) as Read<FinishedRun>,
  /** False: another try would end alike. */
  isRetryable: yesOrNo,
  /** The handler's result as JSON; null: none. */
  result: orNull(text),
  /** A handler's decision about its job. */
  decision: orNull(decision),
});

export type SpooledEnd = ReadOf<typeof ended>;

/** The worker's own end: the last line. The reason is why it did not start everything; null: it did. */
const finished = object({ type: oneOf('finished'), finishedAt: integer, reason: orNull(text) });

export type SpoolFinish = ReadOf<typeof finished>;

/** The entries that are added to a spool file one at a time. */
export type SpoolEntry = ReadOf<typeof begun> | SpooledEnd;

export type SpoolRecord = SpoolHeader | SpoolEntry | SpoolFinish;

const recordTypes: ReadonlyMap<unknown, Read<SpoolRecord>> = new Map<unknown, Read<SpoolRecord>>([
  ['worker', header],
  ['begun', begun],
  ['ended', ended],
  ['finished', finished],
]);
