import type { RepeatRule } from '../../schedule/repeat/rule.ts';
import { initialTime, leadsNowhere } from '../../schedule/repeat/series.ts';
import type { JobHead } from '../../store/shared/job-columns.ts';
import type { NewEvent } from '../../store/statements/events.ts';
import type { JobChange, NewJobRow } from '../../store/statements/jobs.ts';
import type { StoreSession } from '../../store/store.ts';
import {
  type ChildFailurePolicy,
  isKey,
  type JobState,
  KEY,
  LEAST_MS,
  type MissedPolicy,
  type StoredEvent,
} from '../../store/words.ts';
import { describeFound } from '../../system/base/values.ts';
import type { AddedJob, DuplicatePolicy, NewJob } from '../api.ts';
import { QueueError } from '../errors.ts';
import { stateOfNewChild } from '../settle/families.ts';
import { writeRetry } from '../settle/own-retry.ts';
import {
  checkJson,
  checkOptions,
  invalid,
  readDelay,
  readLeaseMs,
  readPriority,
  readRetries,
  readRunAt,
  requireJobName,
  writeJson,
} from './values.ts';

/**
 * Adds jobs to the queue in their order, all or none. To be called in a transaction.
 *
 * @throws {QueueError} that names the first wrong one
 */
export async function addJobs(
  session: StoreSession,
  jobs: readonly NewJob<unknown>[],
  at: number,
): Promise<AddedJob[]> {
  const rows: NewJobRow[] = [];
  for (const [index, job] of jobs.entries()) {
    try {
      const rule = await readRule(job);
      const firstAt = rule === null ? at : await initialTime(rule, at);
      rows.push(readNewJob(job, rule, firstAt, at));
    } catch (error) {
      throwNamed(error, job, index, jobs.length);
    }
  }
  if (rows.every(isPlain)) return (await session.jobs.add(rows, at)).map(asAdded);
  return await addKeyed(session, rows, jobs, at);
}

export const asAdded = (id: number): AddedJob => ({ id, added: true, changed: false, ignored: [] });

/**
 * The rows of jobs that nothing in the log can keep from being added; null: one has a rule, a key or a parent.
 *
 * @throws {QueueError} that names the first wrong one
 */
export function readPlainJobs(jobs: readonly NewJob<unknown>[], at: number): NewJobRow[] | null {
  const isPlainJob = ({ repeat, uniqueKey, parent }: NewJob<unknown>): boolean =>
    repeat === undefined && uniqueKey === undefined && parent === undefined;
  if (!jobs.every(isPlainJob)) return null;
  return jobs.map((job, index) => {
    try {
      return readNewJob(checkOptions('add', job), null, at, at);
    } catch (error) {
      return throwNamed(error, job, index, jobs.length);
    }
  });
}

/** In a list, the message says which one is wrong. */
function throwNamed(error: unknown, { name }: NewJob<unknown>, index: number, count: number): never {
  if (!(error instanceof QueueError) || count === 1) throw error;
  const { code, field } = error;
  const which = `Job ${index + 1} of ${count} (${describeFound(name)})`;
  throw new QueueError(code, `${which}: ${error.message}`, { cause: error, field, index });
}

/** Nothing in the log can keep it from being added. */
function isPlain({ unique_key, parent_id }: NewJobRow): boolean {
  return unique_key === null && parent_id === null;
}

/**
 * Adds children and jobs with unique keys: all parents are locked, then all keys looked up, and what is new is added at
 * once. Locks are taken in an order of their own, whatever that of the list.
 */
async function addKeyed(
  session: StoreSession,
  rows: readonly NewJobRow[],
  jobs: readonly NewJob<unknown>[],
  at: number,
): Promise<AddedJob[]> {
  await session.jobs.lock(distinct(rows.map(({ parent_id }) => parent_id)));
  const open = await session.jobs.byUniqueKeys(distinct(rows.map(({ unique_key }) => unique_key)));
  const taken = new Map<string | null, TakenJob>(open.map((job) => [job.unique_key, job]));
  const states = new Map<number | null, JobState>([[null, 'queued']]);
  const fresh: NewJobRow[] = [];
  const places = new Map<number, number>();
  const keys = new Set(taken.keys());
  for (const [index, row] of rows.entries()) {
    if (row.unique_key !== null && keys.has(row.unique_key)) continue;
    if (row.unique_key !== null) keys.add(row.unique_key);
    const { parent_id: parent } = row;
    const state = states.get(parent) ?? (await stateOfNewChild(session, parent as number));
    states.set(parent, state);
    places.set(index, fresh.length);
    fresh.push({ ...row, state });
  }
  const ids = await session.jobs.add(fresh, at);
  for (const [place, row] of fresh.entries()) taken.set(row.unique_key, { ...row, id: ids[place] as number });
  const added: AddedJob[] = [];
  for (const [index, row] of rows.entries()) {
    const [place, job] = [places.get(index), jobs[index] as NewJob<unknown>];
    const existing = taken.get(row.unique_key) as TakenJob;
    added.push(
      place === undefined ? await keepExistingJob(session, existing, row, job, at) : asAdded(ids[place] as number),
    );
  }
  return added;
}

/** What is known of a job that has a unique key. */
type TakenJob = Pick<JobHead, 'id' | 'name' | 'state' | 'parent_id' | 'repeat' | 'unique_key'>;

function distinct<Value>(values: readonly (Value | null)[]): Value[] {
  return [...new Set(values)].filter((value) => value !== null);
}

/**
 * What becomes of a job that is there already when it is added once more.
 *
 * @throws {QueueError} if it belongs to another family, or is a child that would repeat
 */
async function keepExistingJob(
  session: StoreSession,
  known: TakenJob,
  row: NewJobRow,
  job: NewJob<unknown>,
  at: number,
): Promise<AddedJob> {
  const { onDuplicate: policy = 'keep' } = job;
  const { id, state } = known;
  // Another of the same list may have changed it.
  const existing = policy === 'keep' ? known : ((await session.jobs.byId([id]))[0] ?? known);
  refuseOtherFamily(existing, row);
  // Who asks for its data to be replaced and gives none means an empty object, as a new job has.
  const isAboutData = policy === 'replace' || policy === 'merge';
  const given = allOptions.filter((option) => job[option] !== undefined || (option === 'data' && isAboutData));
  const isBusy = state === 'running' || state === 'claimed';
  const taken = isBusy ? [] : given.filter((option) => takenBy[policy].includes(option));
  const ignored = [
    ...(row.name === existing.name ? [] : ['name']),
    ...given.filter((option) => !taken.includes(option)),
  ];
  if (taken.length === 0) return { id, added: false, changed: false, ignored };
  if (taken.includes('repeat') && existing.parent_id !== null) throw refuseRepeatingChild(existing);
  const set = Object.assign({}, ...taken.map((option) => columnsOf[option](row, existing)));
  if (policy === 'merge') set.data = checkJson('data', await session.jobs.mergeData(id, row.data), ', merged,');
  await session.jobs.change([{ id, set }], at);
  const detail = `${policy === 'merge' ? 'merged' : 'replaced'} by another of its unique key`;
  await session.events.record([{ at, event: 'job-updated', jobId: id, detail }]);
  return { id, added: false, changed: true, ignored };
}

/** What a job with the same key may take. */
type Option = Exclude<keyof NewJob<unknown>, 'name' | 'uniqueKey' | 'onDuplicate' | 'parent'>;

const columnsOf: Readonly<Record<Option, (row: NewJobRow, existing: TakenJob) => JobChange['set']>> = {
  data: ({ data }) => ({ data }),
  // Of one that repeats it is the time that its rule goes by.
  runAt: ({ run_at }, { repeat }) => ({ run_at, ...(repeat !== null && { scheduled_for: run_at }) }),
  repeat: ({ repeat, run_at, scheduled_for }) => ({ repeat, run_at, scheduled_for }),
  priority: ({ priority }) => ({ priority }),
  retries: ({ retry }) => ({ retry }),
  retryDelay: ({ retry }) => ({ retry }),
  missed: ({ missed_policy }) => ({ missed_policy }),
  onChildFailure: ({ on_child_failure }) => ({ on_child_failure }),
  group: ({ concurrency_key }) => ({ concurrency_key }),
  lease: ({ lease_ms }) => ({ lease_ms }),
};

const allOptions = Object.keys(columnsOf) as Option[];

const takenBy: Readonly<Record<DuplicatePolicy, readonly Option[]>> = {
  keep: [],
  replace: ['data'],
  merge: ['data'],
  'replace-all': allOptions,
};

/** It would wait for ever. */
export function refuseRepeatingChild({ id, parent_id }: Pick<JobHead, 'id' | 'parent_id'>): QueueError {
  const why = `Job ${id} is a child of job ${parent_id} and cannot repeat: that would wait for ever.`;
  return new QueueError('invalid', `${why} Let the parent repeat.`, { field: 'repeat' });
}

function refuseOtherFamily(existing: TakenJob, row: NewJobRow): void {
  if (row.parent_id === null || row.parent_id === existing.parent_id) return;
  const whose = existing.parent_id === null ? 'not a child' : `a child of job ${existing.parent_id}`;
  throw new QueueError(
    'wrong-state',
    `Job ${existing.id} already has the unique key ${JSON.stringify(row.unique_key)} and is ${whose}; choose ` +
      'another key.',
  );
}

/**
 * A job as its row begins, with all defaults filled in.
 *
 * @param firstAt when it is due unless it says so itself
 * @throws {QueueError} that says what is expected
 */
function readNewJob(job: NewJob<unknown>, rule: RepeatRule | null, firstAt: number, at: number): NewJobRow {
  const runAt = job.runAt === undefined ? firstAt : readRunAt(job.runAt, at);
  if (rule !== null && leadsNowhere(rule, runAt)) throw givesNoTime(rule);
  const { missed = 'all', onChildFailure, priority = 500, onDuplicate = 'keep' } = job;
  readWord('onDuplicate', 'The policy for duplicates', onDuplicate, Object.keys(takenBy) as DuplicatePolicy[]);
  const row: NewJobRow = {
    name: requireJobName(job.name),
    state: 'queued',
    data: job.data === undefined ? '{}' : writeJson('data', job.data),
    priority: readPriority(priority),
    scheduled_for: rule === null ? null : runAt,
    run_at: runAt,
    retry: readRetryOptions(job),
    repeat: rule?.text ?? null,
    missed_policy: readWord('missed', 'The policy for missed times', missed, ['all', 'once', 'skip']),
    unique_key: job.uniqueKey === undefined ? null : readKey('uniqueKey', 'A unique key', job.uniqueKey),
    concurrency_key: job.group === undefined ? null : readKey('group', 'A group', job.group),
    parent_id: job.parent === undefined ? null : readParent(job),
    on_child_failure:
      onChildFailure === undefined
        ? null
        : readWord<ChildFailurePolicy>('onChildFailure', 'The policy for failed children', onChildFailure, [
            'resume',
            'fail',
          ]),
    lease_ms: job.lease === undefined ? null : readLeaseMs(job.lease),
    created_at: at,
  };
  assertNotIgnored(job);
  return row;
}

/** What counts only beside something else would be forgotten without a word. */
function assertNotIgnored({ uniqueKey, onDuplicate, repeat, missed }: NewJob<unknown>): void {
  if (onDuplicate !== undefined && uniqueKey === undefined) {
    throw new QueueError('invalid', 'A policy for duplicates needs a unique key.', { field: 'onDuplicate' });
  }
  if (missed !== undefined && repeat === undefined) {
    throw new QueueError('invalid', 'A policy for missed times needs a repeat rule.', { field: 'missed' });
  }
}

function givesNoTime({ text }: RepeatRule): QueueError {
  const why = `${JSON.stringify(text)} gives no time: it goes beyond the year 9999.`;
  return new QueueError('invalid', why, { field: 'repeat' });
}

function readRetryOptions({ retries, retryDelay }: NewJob<unknown>): string | null {
  if (retryDelay !== undefined) readDelay(retryDelay);
  return writeRetry(retries === undefined ? undefined : readRetries(retries), retryDelay);
}

async function readRule(job: NewJob<unknown>): Promise<RepeatRule | null> {
  const { repeat, parent } = checkOptions('add', job);
  if (repeat === undefined || repeat === '') return null;
  if (parent !== undefined) {
    const why = 'A child cannot repeat: its parent would wait for ever; let the parent repeat.';
    throw new QueueError('invalid', why, { field: 'repeat' });
  }
  if (typeof repeat !== 'string') throw invalid('A repeat rule', 'text such as SCHEDULED, +1 HOUR', repeat, 'repeat');
  // Only for those who have a rule: what reads them is large.
  const { parseRepeat } = await import('../../schedule/repeat/parse.ts');
  const parsed = parseRepeat(repeat);
  if ('problem' in parsed) throw new QueueError('invalid', parsed.problem, { field: 'repeat' });
  return parsed.rule;
}

function readParent({ parent }: NewJob<unknown>): number {
  if (Number.isSafeInteger(parent) && Number(parent) > 0) return parent as number;
  throw invalid('The parent', "a job's number", parent, 'parent');
}

function readKey(field: string, what: string, text: unknown): string {
  if (isKey(text)) return text;
  throw invalid(what, KEY, text, field);
}

function readWord<Word extends string>(field: string, what: string, found: unknown, words: readonly Word[]): Word {
  const word = words.find((each) => each === found);
  if (word !== undefined) return word;
  throw invalid(what, `one of ${words.join(', ')}`, found, field);
}

/** A job of another system's queue, as it is to be here. Instants are UTC epoch milliseconds. */
export interface ImportedJob {
  /** Tells it from every other job of whatever file; the same in a copy, and when it has changed. */
  readonly key: string;
  /** Its parent was imported before, or comes before it. */
  readonly parentKey: string | null;
  /** Whether another job names it as its parent. */
  readonly isParent: boolean;
  readonly name: string;
  readonly state: JobState;
  /** JSON. */
  readonly data: string;
  readonly priority: number;
  readonly runAt: number;
  readonly scheduledFor: number | null;
  readonly createdAt: number;
  readonly startedAt: number | null;
  readonly finishedAt: number | null;
  readonly attempts: number;
  /** Null: as its handler says. */
  readonly maxAttempts: number | null;
  readonly repeat: string | null;
  readonly missed: MissedPolicy;
  readonly leaseMs: number | null;
  readonly reason: string | null;
}

/** What has become of a job that was imported before; null: its row is gone. */
type KnownJob = { readonly id: number; readonly state: JobState } | null;

/** By their keys. */
export type KnownJobs = ReadonlyMap<string, KnownJob>;

/** Prefix of the unique keys of jobs that were imported. */
const IMPORT_PREFIX = 'import:';

/**
 * Every job that was imported, of whatever file: by its unique key, for as long as its row is there,
 * and by its event, which stays when the row is removed.
 */
export async function readImportedJobs(session: StoreSession): Promise<KnownJobs> {
  const { jobListsOf } = await import('../../store/statements/list-jobs.ts');
  const rows = await jobListsOf(session.statements).imported(IMPORT_PREFIX);
  return new Map(rows.map(({ key, id, state }) => [key, id === null ? null : { id, state }]));
}

/**
 * Adds jobs in whatever states they are, all or none. To be called in a transaction.
 *
 * @param choose those that are to be added, given the ones that nobody needs to add again
 */
export async function addImportedJobs(
  session: StoreSession,
  at: number,
  choose: (known: KnownJobs) => Iterable<ImportedJob>,
): Promise<void> {
  // Asked in the transaction: another import may have been quicker.
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

/** So that a parent has its number before its children are added. */
function* inBatches(jobs: Iterable<ImportedJob>): Iterable<readonly ImportedJob[]> {
  let batch: ImportedJob[] = [];
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

function findParent(
  { key, parentKey }: ImportedJob,
  known: KnownJobs,
  added: ReadonlyMap<string, number>,
): number | null {
  if (parentKey === null) return null;
  const id = added.get(parentKey) ?? known.get(parentKey)?.id;
  if (id === undefined) throw new Error(`${key} comes before its parent ${parentKey}`);
  return id;
}

function toRow(job: ImportedJob, parentId: number | null): NewJobRow {
  return {
    name: job.name,
    state: job.state,
    data: job.data,
    priority: job.priority,
    scheduled_for: job.scheduledFor,
    // The log would take a time before March 1973 for one of seconds; such a job is due as well as one of 1970.
    run_at: job.runAt < LEAST_MS ? 0 : job.runAt,
    retry: writeRetry(job.maxAttempts === null ? undefined : job.maxAttempts - 1, undefined),
    repeat: job.repeat,
    missed_policy: job.missed,
    unique_key: job.key,
    concurrency_key: null,
    parent_id: parentId,
    on_child_failure: null,
    lease_ms: job.leaseMs,
    created_at: job.createdAt,
    started_at: job.startedAt,
    finished_at: job.finishedAt,
    attempts: job.attempts,
    reason: job.reason,
  };
}

/** How one that has ended there ended: no run here tells of it. */
function eventsOf(job: ImportedJob, jobId: number, at: number): NewEvent[] {
  const imported = { at, event: 'job-imported' as const, jobId, detail: job.key };
  const event = endEvents[job.state];
  if (event === undefined || job.finishedAt === null) return [imported];
  return [{ at: job.finishedAt, event, jobId, detail: job.reason }, imported];
}

const endEvents: Partial<Record<JobState, StoredEvent>> = {
  failed: 'job-failed',
  cancelled: 'job-cancelled',
};
