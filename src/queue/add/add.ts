import { describeFound } from '../../base/values.ts';
import { parseRepeat } from '../../repeat/parse.ts';
import type { RepeatRule } from '../../repeat/rule.ts';
import { initialTime, leadsNowhere } from '../../repeat/series.ts';
import { recordActivity } from '../../store/events.ts';
import type { ChildFailurePolicy, JobState, MissedPolicy } from '../../store/schema.ts';
import { queryRaw } from '../../store/sqlite/queries.ts';
import type { Database } from '../../store/store.ts';
import type { AddedJob, DuplicatePolicy, NewJob } from '../api.ts';
import { QueueError } from '../errors.ts';
import { stateOfNewChild } from '../settle/families.ts';
import {
  checkJson,
  checkOptions,
  invalid,
  readDelay,
  readLeaseMs,
  readPriority,
  readRetries,
  readWhen,
  requireJobName,
  writeJson,
} from './values.ts';

interface Adding {
  /** UTC epoch milliseconds. */
  readonly at: number;
}

/**
 * Adds jobs to the queue in their order, all or none.
 *
 * @returns their numbers; of one whose unique key is taken, and which is not added, that of the job that has it
 * @throws {QueueError} that names the first wrong one
 */
export async function addJobs(
  db: Database,
  jobs: readonly NewJob<unknown>[],
  { at }: Adding,
): Promise<AddedJob[]> {
  const rows: NewRow[] = [];
  for (const [index, job] of jobs.entries()) {
    rows.push(
      await readNewJob(job, at).catch((error) => throwNamed(error, job, index, jobs.length)),
    );
  }
  if (rows.length === 0) return [];
  return await db.transaction().execute(async (transaction) => {
    if (rows.every(isPlain)) return await insertAll(transaction, rows);
    const added: AddedJob[] = [];
    for (const [index, row] of rows.entries()) {
      added.push(await addOne(transaction, row, jobs[index] as NewJob<unknown>, at));
    }
    return added;
  });
}

/** In a list, the message says which one is wrong. */
function throwNamed(
  error: unknown,
  { name }: NewJob<unknown>,
  index: number,
  count: number,
): never {
  if (!(error instanceof QueueError) || count === 1) throw error;
  const which = `Job ${index + 1} of ${count} (${describeFound(name)})`;
  throw new QueueError(error.code, `${which}: ${error.message}`);
}

/** Nothing in the log can keep it from being added. */
function isPlain({ unique_key, parent_id }: NewRow): boolean {
  return unique_key === null && parent_id === null;
}

async function insertAll(db: Database, rows: readonly NewRow[]): Promise<AddedJob[]> {
  const inserted: AddedJob[] = [];
  for (const some of inPortions(rows)) {
    for (const id of await insertJobs(db, some)) inserted.push({ id, added: true });
  }
  return inserted;
}

async function addOne(
  db: Database,
  row: NewRow,
  job: NewJob<unknown>,
  at: number,
): Promise<AddedJob> {
  const existing = row.unique_key === null ? null : await selectByKey(db, row.unique_key);
  if (existing !== null) {
    await keepExistingJob(db, existing, row, job, at);
    return { id: existing.id, added: false };
  }
  const state = row.parent_id === null ? 'queued' : await stateOfNewChild(db, row.parent_id);
  const [added] = await insertAll(db, [{ ...row, state }]);
  return added as AddedJob;
}

const duplicatePolicies: readonly DuplicatePolicy[] = ['keep', 'replace', 'merge'];

/** A job's columns as it is added. */
interface NewRow {
  readonly name: string;
  readonly state: JobState;
  readonly data: string;
  readonly priority: number;
  readonly scheduled_for: number | null;
  readonly run_at: number;
  readonly max_attempts: number | null;
  readonly retry_delay_ms: number | null;
  readonly retry_factor: number;
  readonly retry_longest_ms: number;
  readonly repeat: string | null;
  readonly missed: MissedPolicy;
  readonly unique_key: string | null;
  readonly group_key: string | null;
  readonly parent_id: number | null;
  readonly on_child_failure: ChildFailurePolicy;
  readonly lease_ms: number | null;
  readonly created_at: number;
}

/**
 * A job as its row begins, with all defaults filled in.
 *
 * @throws {QueueError} that says what is expected
 */
async function readNewJob(job: NewJob<unknown>, at: number): Promise<NewRow> {
  checkOptions('add', job);
  const rule = job.repeat === undefined || job.repeat === '' ? null : readRepeat(job);
  const firstAt = rule === null ? at : await initialTime(rule, at);
  const runAt = job.runAt === undefined ? firstAt : readWhen(job.runAt, at);
  if (rule !== null && leadsNowhere(rule, runAt)) throw givesNoTime(rule);
  const { missed = 'all', onChildFailure = 'resume', priority = 500, onDuplicate = 'keep' } = job;
  readWord('The policy for duplicates', onDuplicate, duplicatePolicies);
  const row: NewRow = {
    name: requireJobName(job.name),
    state: 'queued',
    data: job.data === undefined ? '{}' : writeJson("A job's data", job.data),
    priority: readPriority(priority),
    scheduled_for: rule === null ? null : runAt,
    run_at: runAt,
    ...retryColumns(job),
    repeat: rule?.text ?? null,
    missed: readWord('The policy for missed times', missed, ['all', 'once', 'skip']),
    unique_key: job.uniqueKey === undefined ? null : readText('A unique key', job.uniqueKey),
    group_key: job.group === undefined ? null : readText('A group', job.group),
    parent_id: job.parent === undefined ? null : readParent(job),
    on_child_failure: readWord('The policy for failed children', onChildFailure, [
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
    throw new QueueError('invalid', 'A policy for duplicates needs a unique key.');
  }
  if (missed !== undefined && repeat === undefined) {
    throw new QueueError('invalid', 'A policy for missed times needs a repeat rule.');
  }
}

function givesNoTime({ text }: RepeatRule): QueueError {
  const why = `${JSON.stringify(text)} gives no time: it goes beyond the year 9999.`;
  return new QueueError('invalid', why);
}

function retryColumns({ retries, retryDelay }: NewJob<unknown>) {
  const delay = retryDelay === undefined ? null : readDelay(retryDelay);
  return {
    max_attempts: retries === undefined ? null : readRetries(retries) + 1,
    retry_delay_ms: delay?.firstMs ?? null,
    retry_factor: delay?.factor ?? 1,
    retry_longest_ms: delay?.longestMs ?? 60_000,
  };
}

function readRepeat({ repeat, parent }: NewJob<unknown>): RepeatRule {
  if (parent !== undefined) {
    const why = 'A child cannot repeat: its parent would wait for ever; let the parent repeat.';
    throw new QueueError('invalid', why);
  }
  const parsed = typeof repeat === 'string' ? parseRepeat(repeat) : null;
  if (parsed === null) throw invalid('A repeat rule', 'text such as SCHEDULED, +1 HOUR', repeat);
  if ('problem' in parsed) throw new QueueError('invalid', parsed.problem);
  return parsed.rule;
}

function readParent({ parent }: NewJob<unknown>): number {
  if (Number.isSafeInteger(parent) && Number(parent) > 0) return parent as number;
  throw invalid('The parent', "a job's number", parent);
}

function readText(what: string, text: unknown): string {
  const isRight = typeof text === 'string' && text !== '' && text.length <= 255;
  // Half a character is kept as another one: nobody would find it again.
  if (isRight && !/\p{Cs}/u.test(text)) return text;
  throw invalid(what, 'text of 1 to 255 whole characters', text);
}

function readWord<Word extends string>(what: string, found: unknown, words: readonly Word[]): Word {
  const word = words.find((each) => each === found);
  if (word !== undefined) return word;
  throw invalid(what, `one of ${words.join(', ')}`, found);
}

/** The columns of a job that has begun elsewhere: in another queue, from which it is imported. */
export interface BegunRow extends NewRow {
  readonly started_at: number | null;
  readonly finished_at: number | null;
  readonly attempts: number;
  readonly reserves: number;
  readonly reason: string | null;
}

const newColumns = [
  ...['name', 'state', 'data', 'priority', 'scheduled_for', 'run_at', 'max_attempts'],
  ...['retry_delay_ms', 'retry_factor', 'retry_longest_ms', 'repeat', 'missed', 'unique_key'],
  ...['group_key', 'parent_id', 'on_child_failure', 'lease_ms', 'created_at'],
];

const begunColumns = ['started_at', 'finished_at', 'attempts', 'reserves', 'reason'];

const insertNew = insertInto(newColumns);
const insertBegun = insertInto([...newColumns, ...begunColumns]);

function insertInto(columns: readonly string[]): string {
  const values = columns.map((_, index) => `value ->> ${index}`).join(', ');
  return `insert into jobs (${columns.join(', ')}) select ${values} from json_each(?) order by key returning id`;
}

/** What one statement takes is one text, which is not to be of any length. */
const LARGEST_PORTION = 8 * 1024 * 1024;

export function* inPortions<Row extends NewRow>(rows: readonly Row[]): Generator<readonly Row[]> {
  let portion: Row[] = [];
  let length = 0;
  for (const row of rows) {
    if (length + row.data.length > LARGEST_PORTION) {
      yield portion;
      portion = [];
      length = 0;
    }
    portion.push(row);
    length += row.data.length;
  }
  yield portion;
}

/** One statement for as many as there are: what it costs to build and compile one is a row's price. */
async function insertJobs(db: Database, rows: readonly NewRow[]): Promise<number[]> {
  return await insertValues(db, insertNew, rows.map(toValues));
}

/** The same of jobs that have begun elsewhere. */
export async function insertBegunJobs(db: Database, rows: readonly BegunRow[]): Promise<number[]> {
  const values = rows.map((row) => {
    const { started_at, finished_at, attempts, reserves, reason } = row;
    return [...toValues(row), started_at, finished_at, attempts, reserves, reason];
  });
  return await insertValues(db, insertBegun, values);
}

async function insertValues(
  db: Database,
  statement: string,
  values: readonly (readonly unknown[])[],
): Promise<number[]> {
  const inserted = await queryRaw<{ id: number }>(db, statement, [JSON.stringify(values)]);
  // SQLite hands out ids in the order of the rows, but promises no order of RETURNING's.
  return inserted.map(({ id }) => id).sort((one, other) => one - other);
}

function toValues(row: NewRow): readonly unknown[] {
  const { name, state, data, priority, scheduled_for, run_at, max_attempts } = row;
  const { retry_delay_ms, retry_factor, retry_longest_ms, repeat, missed, unique_key } = row;
  const { group_key, parent_id, on_child_failure, lease_ms, created_at } = row;
  return [
    ...[name, state, data, priority, scheduled_for, run_at, max_attempts],
    ...[retry_delay_ms, retry_factor, retry_longest_ms, repeat, missed, unique_key],
    ...[group_key, parent_id, on_child_failure, lease_ms, created_at],
  ];
}

/** A job that has not ended and has the unique key of another one. */
interface Existing {
  readonly id: number;
  readonly name: string;
  readonly state: JobState;
  readonly parent_id: number | null;
}

/** Null: nobody has that key. */
async function selectByKey(db: Database, key: string): Promise<Existing | null> {
  const existing = await db
    .selectFrom('jobs')
    .select(['id', 'name', 'state', 'parent_id'])
    .where('unique_key', '=', key)
    .where('finished_at', 'is', null)
    .executeTakeFirst();
  return existing ?? null;
}

/**
 * What becomes of a job that is there already when it is added once more.
 *
 * @throws {QueueError} if it belongs to another family
 */
async function keepExistingJob(
  db: Database,
  existing: Existing,
  row: NewRow,
  job: NewJob<unknown>,
  at: number,
): Promise<void> {
  refuseOtherFamily(existing, row);
  const { onDuplicate: policy = 'keep' } = job;
  if (policy === 'keep' || existing.state === 'running') return;
  const data = policy === 'merge' ? await mergeData(db, existing.id, row.data) : row.data;
  await db.updateTable('jobs').set({ data }).where('id', '=', existing.id).execute();
  const detail = `${policy}d by another of its unique key`;
  await recordActivity(db, { at, event: 'job-updated', jobId: existing.id, detail });
}

/** By RFC 7396. @throws {QueueError} if that is too much */
async function mergeData(db: Database, id: number, patch: string): Promise<string> {
  const text = 'select json_patch(data, ?) as data from jobs where id = ?';
  const [{ data }] = (await queryRaw<{ data: string }>(db, text, [patch, id])) as [
    { data: string },
  ];
  return checkJson("A job's data, merged,", data);
}

function refuseOtherFamily(existing: Existing, row: NewRow): void {
  if (row.parent_id === null || row.parent_id === existing.parent_id) return;
  const whose = existing.parent_id === null ? 'no child' : `a child of job ${existing.parent_id}`;
  throw new QueueError(
    'wrong-state',
    `Job ${existing.id} already has the unique key ${JSON.stringify(row.unique_key)} and is ${whose}.`,
  );
}
