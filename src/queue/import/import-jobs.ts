import { isUtf8 } from 'node:buffer';
import { MAX_JSON_BYTES } from '../../child/contract.ts';
import { parseInstant } from '../../schedule/repeat/rule.ts';
import type { NewEvent } from '../../store/statements/events.ts';
import type { NewJobRow } from '../../store/statements/jobs.ts';
import { jobListsOf } from '../../store/statements/list-jobs.ts';
import type { Store, StoreSession } from '../../store/store.ts';
import { isEnded, type JobState, LEAST_MS, type MissedPolicy, type StoredEvent } from '../../store/words.ts';
import { QueueError } from '../errors.ts';

/** How a job of the file is treated. */
type ImportStep = ForeignJob | { readonly known: true };

/** The result of an import, or of its dry run. */
export interface ImportReport {
  readonly system: string;
  readonly table: string;
  readonly isDryRun: boolean;
  /** True: nothing was imported, because of the bad jobs. */
  readonly isRefused: boolean;
  /** How many jobs were imported, by their state in this queue. */
  readonly imported: Readonly<Partial<Record<JobState, number>>>;
  /** The names of the imported jobs that have not ended. */
  readonly names: readonly string[];
  /** How many jobs an earlier import had taken over. */
  readonly known: number;
  /** How many jobs were left out because they have ended, or were made only for a test. */
  readonly leftOut: { readonly ended: number; readonly mocked: number };
  readonly bad: readonly BadJob[];
  readonly notes: readonly ImportNote[];
}

/** A note about some of the jobs. */
export interface ImportNote {
  readonly note: string;
  /** 0: the note is about the file as a whole. */
  readonly count: number;
  /** The numbers of the first jobs, in the foreign queue. */
  readonly ids: readonly string[];
}

const IDS_SHOWN = 10;

type Counted<T> = { -readonly [Key in keyof T]: Counted<T[Key]> };

function startReport({ system, table, notes }: ForeignQueue, isDryRun: boolean): Counted<ImportReport> {
  return {
    ...{ system, table, isDryRun, isRefused: false, imported: {}, names: [], known: 0 },
    ...{ leftOut: { ended: 0, mocked: 0 }, bad: [], notes: notes.map((note) => ({ note, count: 0, ids: [] })) },
  };
}

function count(report: Counted<ImportReport>, step: ImportStep): void {
  if ('key' in step) countJob(report, step);
  else if ('leftOut' in step) report.leftOut[step.leftOut] += 1;
  else if ('problem' in step) report.bad.push(step);
  else report.known += 1;
}

function countJob({ imported, names, notes }: Counted<ImportReport>, { id, row, notes: own }: GoodJob): void {
  const { state, name } = row;
  imported[state] = (imported[state] ?? 0) + 1;
  if (!isEnded(state)) names.push(name);
  for (const note of own) {
    let about = notes.find((each) => each.note === note);
    if (about === undefined) {
      about = { note, count: 0, ids: [] };
      notes.push(about);
    }
    about.count += 1;
    if (about.ids.length < IDS_SHOWN) about.ids.push(id);
  }
}

interface Importing {
  /** UTC epoch milliseconds. */
  readonly at: number;
  /** True: nothing is written. */
  readonly isDryRun: boolean;
  /** True: jobs that cannot be imported are left out. False: one of them prevents the import of all. */
  readonly skipBad: boolean;
}

/** Imports all jobs of a file that were not imported before, or none. */
export async function importJobs(
  store: Store | null,
  queue: ForeignQueue,
  { at, isDryRun, skipBad }: Importing,
): Promise<ImportReport> {
  const report = startReport(queue, isDryRun);
  // Before the transaction: nobody else can write during it.
  const known = store === null ? new Map() : await readImportedJobs(store);
  const bad = findBad(queue, known);
  if (bad.length > 0 && !skipBad) return { ...report, isRefused: true, bad };
  // The second reading knows all bad jobs: the jobs that a parent waits for depend on them.
  const badIds = new Set(bad.map(({ id }) => id));
  function* choose(knownNow: KnownJobs): Iterable<GoodJob> {
    for (const step of planImport(queue, knownNow, badIds)) {
      if ('problem' in step && !badIds.has(step.id)) throw changedMeanwhile(step);
      count(report, step);
      if ('key' in step) yield step;
    }
  }
  if (isDryRun || store === null) Array.from(choose(known), () => null);
  else await store.transaction((session) => addImportedJobs(session, at, choose));
  return { ...report, names: [...new Set(report.names)] };
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

/** The step for each job, in the order of the file. */
function* planImport(queue: ForeignQueue, known: KnownJobs, bad: ReadonlySet<string>): Iterable<ImportStep> {
  for (const job of queue.read(bad)) {
    if (!('key' in job)) yield job;
    else yield known.has(job.key) ? { known: true } : planJob(job, known);
  }
}

/** A job whose parent was imported earlier depends on the parent's present state. */
function planJob(job: GoodJob, known: KnownJobs): GoodJob | BadJob {
  const parent = job.parentKey === null ? undefined : known.get(job.parentKey);
  if (parent === undefined || (parent !== null && isEnded(job.row.state))) return job;
  if (parent === null || isEnded(parent.state)) {
    const problem = `its parent ${job.parent} was imported before, and has ended here since`;
    return { id: job.id, problem };
  }
  return { ...job, row: { ...job.row, state: parent.state === 'paused' ? 'queued' : 'paused' } };
}

function changedMeanwhile({ id, problem }: BadJob): Error {
  return new QueueError(
    'wrong-state',
    `Nothing was imported, because the queue has changed meanwhile (job ${id}: ${problem}); try again.`,
  );
}

/** The present form of a job that was imported before; null: its row is gone. */
type KnownJob = { readonly id: number; readonly state: JobState } | null;

/** By their keys. */
type KnownJobs = ReadonlyMap<string, KnownJob>;

/** Prefix of the unique keys of jobs that were imported. */
const IMPORT_PREFIX = 'import:';

/** Every job that was imported, of any file: by its unique key, or by its event, which stays when the row is removed. */
async function readImportedJobs(session: StoreSession): Promise<KnownJobs> {
  const rows = await jobListsOf(session.statements).imported(IMPORT_PREFIX);
  return new Map(rows.map(({ key, id, state }) => [key, id === null ? null : { id, state }]));
}

/**
 * Adds jobs in their states, all or none. Call it in a transaction.
 *
 * @param choose returns the jobs to add, given the jobs that were added before
 */
async function addImportedJobs(
  session: StoreSession,
  at: number,
  choose: (known: KnownJobs) => Iterable<GoodJob>,
): Promise<void> {
  // Read in the transaction: another import may have been quicker.
  const known = await readImportedJobs(session);
  const parents = new Map<string, number>();
  for (const jobs of inBatches(choose(known))) {
    const rows = jobs.map((job) => toRow(job, findParent(job, known, parents)));
    const ids = await session.jobs.add(rows, at);
    for (const [index, { key, isParent }] of jobs.entries()) {
      if (isParent) parents.set(key, ids[index] as number);
    }
    await session.events.record(jobs.flatMap((job, index) => eventsOf(job, ids[index] as number, at)));
  }
}

const JOBS_AT_ONCE = 500;

/** A parent gets its number before its children are added. */
function* inBatches(jobs: Iterable<GoodJob>): Iterable<readonly GoodJob[]> {
  let batch: GoodJob[] = [];
  let parents = new Set<string>();
  for (const job of jobs) {
    const isParentWaiting = job.parentKey !== null && parents.has(job.parentKey);
    if (isParentWaiting || batch.length === JOBS_AT_ONCE) {
      yield batch;
      batch = [];
      parents = new Set();
    }
    batch.push(job);
    if (job.isParent) parents.add(job.key);
  }
  if (batch.length > 0) yield batch;
}

function findParent({ key, parentKey }: GoodJob, known: KnownJobs, added: ReadonlyMap<string, number>): number | null {
  if (parentKey === null) return null;
  const id = added.get(parentKey) ?? known.get(parentKey)?.id;
  if (id === undefined) throw new Error(`${key} comes before its parent ${parentKey}`);
  return id;
}

function toRow({ key, row }: GoodJob, parent_id: number | null): NewJobRow {
  // The log would take a time before March 1973 for one of seconds; such a job is due as well as one of 1970.
  const run_at = row.run_at < LEAST_MS ? 0 : row.run_at;
  return { ...row, run_at, unique_key: key, concurrency_key: null, parent_id, on_child_failure: null };
}

/** How a job that has ended there ended: it has no run here. */
function eventsOf({ key, row }: GoodJob, jobId: number, at: number): NewEvent[] {
  const imported = { at, event: 'job-imported' as const, jobId, detail: key };
  const event = endEvents[row.state];
  if (event === undefined || row.finished_at == null) return [imported];
  return [{ at: row.finished_at, event, jobId, detail: row.reason ?? null }, imported];
}

const endEvents: Partial<Record<JobState, StoredEvent>> = {
  failed: 'job-failed',
  cancelled: 'job-cancelled',
};

/** The queue of another system; it can be read any number of times. */
export interface ForeignQueue {
  /** `Bedrock`, `LaterJob`. */
  readonly system: string;
  readonly table: string;
  /** Notes about the file as a whole. */
  readonly notes: readonly string[];
  /**
   * Each job, parents before children, otherwise in the order in which they were added.
   *
   * @param bad numbers of the jobs that are known so far to be impossible to import
   */
  read(bad: ReadonlySet<string>): Iterable<ForeignJob>;
}

/** A row of the foreign queue, and its fate. */
export type ForeignJob = GoodJob | BadJob | LeftOutJob;

/** A job that can be imported. */
interface GoodJob {
  /** Its number in the foreign queue. */
  readonly id: string;
  /** Distinguishes it from every other job of any file; the same in a copy, and when it has changed. */
  readonly key: string;
  /** The number of its parent. */
  readonly parent: string | null;
  /** Its parent was imported before, or comes before it. */
  readonly parentKey: string | null;
  /** Whether another job names it as its parent. */
  readonly isParent: boolean;
  /** Notes about the import of this job; jobs of one kind have the same words. */
  readonly notes: readonly string[];
  readonly row: Omit<NewJobRow, 'unique_key' | 'concurrency_key' | 'parent_id' | 'on_child_failure'>;
}

/** A job that cannot be imported. */
export interface BadJob {
  readonly id: string;
  readonly problem: string;
}

/** A job that is left out on purpose. */
interface LeftOutJob {
  readonly leftOut: 'ended' | 'mocked';
}

/** The caller's options. */
export interface ImportOptions {
  /** The table; default: the table that the system makes. */
  readonly table?: string | undefined;
  /** Whether to import ended jobs as well. Ended children that a parent must still learn of are always imported. */
  readonly withEnded: boolean;
  /** The policy of repeating jobs for missed times. */
  readonly missed: MissedPolicy;
  /** The name for LaterJob's jobs, which have none. Default: the table's name. */
  readonly name?: string | undefined;
  /** The time zone of LaterJob's times. Default: UTC. */
  readonly timeZone?: string | undefined;
}

/** Reads a row's job, or says why it cannot be imported. */
export function orBad(id: unknown, read: () => ForeignJob): ForeignJob {
  try {
    return read();
  } catch (error) {
    if (!(error instanceof QueueError)) throw error;
    return { id: textOf(id), problem: error.message.replace(/\.$/, '') };
  }
}

/** Why a job cannot be imported: the rest of a sentence that begins with its number. */
export function invalidJob(problem: string): QueueError {
  return new QueueError('invalid', problem);
}

/** A column's text; '' for null. */
export function textOf(value: unknown): string {
  return value === null || value === undefined ? '' : String(value);
}

/** The characters of a column. @throws {QueueError} if the bytes are not text */
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

/** @throws {QueueError} if the JSON is larger than a job may have */
export function checkSize(json: string): string {
  const bytes = Buffer.byteLength(json);
  if (bytes <= MAX_JSON_BYTES) return json;
  throw invalidJob(`its data has ${bytes} bytes; a job's data is JSON of at most 1 MiB`);
}

/** Epoch milliseconds for the time that a clock shows; `wallMs` is that time read as UTC. */
export type ClockReader = (wallMs: number) => number;

export const readUtcClock: ClockReader = (wallMs) => wallMs;

/** Reads `2026-07-31 13:00:00` or `2026-07-31`; null if the column is empty. @throws {QueueError} */
export function readTime(what: string, value: unknown, readClock: ClockReader): number | null {
  const text = textOf(value).trim();
  if (text === '') return null;
  const wallMs = parseInstant(text);
  if (wallMs !== null && wallMs >= 0) return readClock(wallMs);
  throw invalidJob(`its ${what} is ${JSON.stringify(text)}, expected such as 2026-12-24 18:00:00`);
}

/** @throws {QueueError} also if the column is empty */
export function readNeededTime(what: string, value: unknown, readClock: ClockReader): number {
  const at = readTime(what, value, readClock);
  if (at === null) throw invalidJob(`it has no ${what}`);
  return at;
}
