import { isUtf8 } from 'node:buffer';
import { MAX_JSON_BYTES } from '../../child/contract.ts';
import { parseInstant } from '../../schedule/repeat/time.ts';
import type { Store } from '../../store/contract/store.ts';
import type { JobState, MissedPolicy } from '../../store/words.ts';
import { addImportedJobs, type ImportedJob, type KnownJobs, readImportedJobs } from '../add/add.ts';
import { QueueError } from '../errors.ts';
import { isEnded } from '../read/list.ts';

/** The queue of another system, to be read as often as one likes. */
export interface ForeignQueue {
  /** `Bedrock`, `LaterJob`. */
  readonly system: string;
  readonly table: string;
  /** What is to be known of the file as a whole. */
  readonly notes: readonly string[];
  /**
   * Each job, parents before children, else in the order in which they were added.
   *
   * @param bad numbers of jobs that cannot be taken over, as far as that is known
   */
  read(bad: ReadonlySet<string>): Iterable<ForeignJob>;
}

/** A row of the queue, and what becomes of it. */
export type ForeignJob = GoodJob | BadJob | LeftOutJob;

export interface GoodJob extends ImportedJob {
  /** Its number there. */
  readonly id: string;
  /** That of its parent. */
  readonly parent: string | null;
  /** What somebody should know of how it was taken over; the same words for each job alike. */
  readonly notes: readonly string[];
}

/** It cannot be taken over. */
export interface BadJob {
  readonly id: string;
  readonly problem: string;
}

/** It is not taken over on purpose. */
interface LeftOutJob {
  readonly leftOut: 'ended' | 'mocked';
}

/** What the caller wants. */
export interface ImportOptions {
  /** The table; default: the one that the system makes. */
  readonly table?: string;
  /** Ended jobs as well. Those that a parent is still to be told of are always taken over. */
  readonly withEnded: boolean;
  /** Of repeating jobs. */
  readonly missed: MissedPolicy;
  /** Of LaterJob's jobs, which have none. Default: the table's. */
  readonly name?: string;
  /** In which LaterJob's times are told. Default: UTC. */
  readonly timeZone?: string;
}

/** What a row gives, or why it gives nothing. */
export function orBad(id: unknown, read: () => ForeignJob): ForeignJob {
  try {
    return read();
  } catch (error) {
    if (!(error instanceof QueueError)) throw error;
    return { id: textOf(id), problem: error.message.replace(/\.$/, '') };
  }
}

/** Why a job cannot be taken over: the rest of a sentence that begins with its number. */
export function invalidJob(problem: string): QueueError {
  return new QueueError('invalid', problem);
}

/** A column's text; '' for null. */
export function textOf(value: unknown): string {
  return value === null || value === undefined ? '' : String(value);
}

/** The characters of a column. @throws {QueueError} when these bytes are no text */
export function readUtf8(what: string, bytes: unknown): string {
  if (bytes === null || bytes === undefined) return '';
  const content = Buffer.from(bytes as Uint8Array);
  if (isUtf8(content)) return content.toString('utf8');
  throw invalidJob(`${what} is not UTF-8 text`);
}

/** @throws {QueueError} */
export function readForeignNumber(what: string, value: unknown): number {
  const text = textOf(value);
  const number = /^-?\d+$/.test(text) ? Number(text) : Number.NaN;
  if (Number.isSafeInteger(number)) return number;
  throw invalidJob(`${what} is ${JSON.stringify(text)}, not a whole number`);
}

/** @throws {QueueError} when it is more than a job may have */
export function checkSize(json: string): string {
  const bytes = Buffer.byteLength(json);
  if (bytes <= MAX_JSON_BYTES) return json;
  throw invalidJob(`its data has ${bytes} bytes; a job's data is JSON of at most 1 MiB`);
}

/** Epoch milliseconds of what a clock shows, which is given as if it were one of UTC. */
export type ClockReader = (wallMs: number) => number;

export const readUtcClock: ClockReader = (wallMs) => wallMs;

/** Of `2026-07-31 13:00:00`, `2026-07-31`; null where there is none. @throws {QueueError} */
export function readTime(what: string, value: unknown, readClock: ClockReader): number | null {
  const text = textOf(value).trim();
  if (text === '') return null;
  const wallMs = parseInstant(text);
  if (wallMs !== null && wallMs >= 0) return readClock(wallMs);
  throw invalidJob(`its ${what} is ${JSON.stringify(text)}, expected such as 2026-12-24 18:00:00`);
}

/** @throws {QueueError} also where there is none */
export function readNeededTime(what: string, value: unknown, readClock: ClockReader): number {
  const at = readTime(what, value, readClock);
  if (at === null) throw invalidJob(`it has no ${what}`);
  return at;
}

/** What is done with a job of the file. */
type ImportStep = ForeignJob | { readonly known: true };

/** What an import has done, or would do. */
export interface ImportReport {
  readonly system: string;
  readonly table: string;
  readonly isDryRun: boolean;
  /** Nothing was taken over, because of the bad ones. */
  readonly isRefused: boolean;
  /** How many jobs were taken over, by their states here. */
  readonly imported: Readonly<Partial<Record<JobState, number>>>;
  /** What those of them are called that have not ended. */
  readonly names: readonly string[];
  /** How many an earlier import had taken over. */
  readonly known: number;
  /** How many were left out because they have ended, or were made for a test only. */
  readonly leftOut: { readonly ended: number; readonly mocked: number };
  readonly bad: readonly BadJob[];
  readonly notes: readonly ImportNote[];
}

/** What somebody should know of some of the jobs. */
export interface ImportNote {
  readonly note: string;
  /** 0: it is about the file as a whole. */
  readonly count: number;
  /** Numbers there of the first of them. */
  readonly ids: readonly string[];
}

/** Gathers what an import does, job by job. */
interface ReportWriter {
  add(step: ImportStep): void;
  done(): ImportReport;
  /** Nothing is taken over. */
  refused(bad: readonly BadJob[]): ImportReport;
}

const IDS_SHOWN = 10;

interface Note {
  count: number;
  readonly ids: string[];
}

function startReport(queue: ForeignQueue, isDryRun: boolean): ReportWriter {
  const imported: Partial<Record<JobState, number>> = {};
  const leftOut = { ended: 0, mocked: 0 };
  const bad: BadJob[] = [];
  const notes = new Map<string, Note>(queue.notes.map((note) => [note, { count: 0, ids: [] }]));
  const names = new Set<string>();
  let known = 0;
  return { add, done, refused: (all) => ({ ...done(), isRefused: true, bad: all }) };

  function add(step: ImportStep): void {
    if ('key' in step) addJob(step);
    else if ('leftOut' in step) leftOut[step.leftOut] += 1;
    else if ('problem' in step) bad.push(step);
    else known += 1;
  }

  function addJob(job: GoodJob): void {
    imported[job.state] = (imported[job.state] ?? 0) + 1;
    if (!isEnded(job.state)) names.add(job.name);
    for (const text of job.notes) {
      const about = notes.get(text) ?? { count: 0, ids: [] };
      notes.set(text, about);
      about.count += 1;
      if (about.ids.length < IDS_SHOWN) about.ids.push(job.id);
    }
  }

  function done(): ImportReport {
    const { system, table } = queue;
    const taken = { imported, names: [...names], known, leftOut, bad };
    const noted = [...notes].map(([text, about]) => ({ note: text, ...about }));
    return { system, table, isDryRun, isRefused: false, ...taken, notes: noted };
  }
}

interface Importing {
  /** UTC epoch milliseconds. */
  readonly at: number;
  /** Nothing is written. */
  readonly isDryRun: boolean;
  /** Jobs that cannot be taken over are left out; otherwise one of them keeps all others back. */
  readonly skipBad: boolean;
}

/** Takes over the jobs of a file that have not been taken over before, all or none. */
export async function importJobs(
  store: Store | null,
  queue: ForeignQueue,
  { at, isDryRun, skipBad }: Importing,
): Promise<ImportReport> {
  const report = startReport(queue, isDryRun);
  // Before the transaction: as long as that lasts, nobody else can write.
  const known = store === null ? new Map() : await readImportedJobs(store);
  const bad = findBad(queue, known);
  if (bad.length > 0 && !skipBad) return report.refused(bad);
  // Read again with all that is bad known, as whom a parent waits for depends on it.
  const badIds = new Set(bad.map(({ id }) => id));
  function* choose(knownNow: KnownJobs): Iterable<ImportedJob> {
    for (const step of planImport(queue, knownNow, badIds)) {
      if ('problem' in step && !badIds.has(step.id)) throw changedMeanwhile(step);
      report.add(step);
      if ('key' in step) yield step;
    }
  }
  if (isDryRun || store === null) Array.from(choose(known), () => null);
  else await store.transaction((session) => addImportedJobs(session, at, choose));
  return report.done();
}

function findBad(queue: ForeignQueue, known: KnownJobs): BadJob[] {
  const ids = new Set<string>();
  const bad: BadJob[] = [];
  for (const step of planImport(queue, known, ids)) {
    if (!('problem' in step)) continue;
    ids.add(step.id);
    bad.push(step);
  }
  return bad;
}

/** Each job's turn, in the order of the file. */
function* planImport(queue: ForeignQueue, known: KnownJobs, bad: ReadonlySet<string>): Iterable<ImportStep> {
  for (const job of queue.read(bad)) {
    if (!('key' in job)) yield job;
    else yield known.has(job.key) ? { known: true } : planJob(job, known);
  }
}

/** A job whose parent was taken over before depends on what has become of that since. */
function planJob(job: GoodJob, known: KnownJobs): GoodJob | BadJob {
  const parent = job.parentKey === null ? undefined : known.get(job.parentKey);
  if (parent === undefined || (parent !== null && isEnded(job.state))) return job;
  if (parent === null || isEnded(parent.state)) {
    const problem = `its parent ${job.parent} was imported before, and has ended here since`;
    return { id: job.id, problem };
  }
  return { ...job, state: parent.state === 'paused' ? 'queued' : 'paused' };
}

function changedMeanwhile({ id, problem }: BadJob): Error {
  return new QueueError(
    'wrong-state',
    `Nothing was imported, because the queue has changed meanwhile (job ${id}: ${problem}); try again.`,
  );
}
