import { recordActivity } from '../store/activity.ts';
import type { Database } from '../store/open-store.ts';
import { queryRaw } from '../store/raw-query.ts';
import type { ChildFailurePolicy, JobState, MissedPolicy } from '../store/schema.ts';
import { stateOfNewChild } from './families.ts';
import {
  checkSize,
  describeFound,
  invalid,
  readDelay,
  readJobName,
  readLeaseMs,
  readPriority,
  readRetries,
  readWhen,
  writeJson,
} from './job-values.ts';
import type { DuplicatePolicy, NewJob } from './queue.ts';
import { QueueError } from './queue-error.ts';
import { initialTime } from './repeat/next-time.ts';
import { parseRepeat } from './repeat/parse-repeat.ts';
import type { RepeatRule } from './repeat/repeat-rule.ts';

export interface Adding {
  /** UTC epoch milliseconds. */
  readonly at: number;
}

/** Its columns, in the order of `insertRows`. */
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
 * Adds jobs to the queue in their order, all or none.
 *
 * @returns their numbers; of one whose unique key is taken, that of the job that has it
 * @throws {QueueError} that names the first wrong one
 */
export async function addJobs(
  db: Database,
  jobs: readonly NewJob<unknown>[],
  { at }: Adding,
): Promise<number[]> {
  const rows: NewRow[] = [];
  for (const [index, job] of jobs.entries()) {
    rows.push(await toRow(job, at).catch((error) => throwNamed(error, job, index, jobs.length)));
  }
  if (rows.length === 0) return [];
  return await db.transaction().execute(async (transaction) => {
    const ids: number[] = [];
    if (rows.every(isPlain)) {
      for (const some of inPortions(rows)) ids.push(...(await insertRows(transaction, some)));
      return ids;
    }
    for (const [index, row] of rows.entries()) {
      ids.push(await addOne(transaction, row, jobs[index] as NewJob<unknown>, at));
    }
    return ids;
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

const duplicatePolicies: readonly DuplicatePolicy[] = ['keep', 'replace', 'merge'];

async function toRow(job: NewJob<unknown>, at: number): Promise<NewRow> {
  const rule = job.repeat === undefined || job.repeat === '' ? null : readRepeat(job);
  const firstAt = rule === null ? at : await initialTime(rule, at);
  const runAt = job.runAt === undefined ? firstAt : readWhen(job.runAt, at);
  const { missed = 'all', onChildFailure = 'resume', priority = 500, onDuplicate = 'keep' } = job;
  readWord('onDuplicate', onDuplicate, duplicatePolicies);
  return {
    name: readJobName(job.name),
    state: 'queued',
    data: job.data === undefined ? '{}' : writeJson("A job's data", job.data),
    priority: readPriority(priority),
    scheduled_for: rule === null ? null : runAt,
    run_at: runAt,
    ...retryColumns(job),
    repeat: rule?.text ?? null,
    missed: readWord('missed', missed, ['all', 'once', 'skip']),
    unique_key: job.uniqueKey === undefined ? null : readText('uniqueKey', job.uniqueKey),
    group_key: job.group === undefined ? null : readText('group', job.group),
    parent_id: job.parent === undefined ? null : readParent(job),
    on_child_failure: readWord('onChildFailure', onChildFailure, ['resume', 'fail']),
    lease_ms: job.lease === undefined ? null : readLeaseMs(job.lease),
    created_at: at,
  };
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
  if (typeof text === 'string' && text !== '' && text.length <= 255) return text;
  throw invalid(`The ${what}`, 'text of 1 to 255 characters', text);
}

function readWord<Word extends string>(what: string, found: unknown, words: readonly Word[]): Word {
  const word = words.find((each) => each === found);
  if (word !== undefined) return word;
  throw invalid(`${what}`, `one of ${words.join(', ')}`, found);
}

/** Nothing in the log can keep it from being added. */
function isPlain({ unique_key, parent_id }: NewRow): boolean {
  return unique_key === null && parent_id === null;
}

const insert = `insert into jobs (name, state, data, priority, scheduled_for, run_at, max_attempts,
  retry_delay_ms, retry_factor, retry_longest_ms, repeat, missed, unique_key, group_key, parent_id,
  on_child_failure, lease_ms, created_at) select ${Array.from({ length: 18 }, (_, index) => `value ->> ${index}`).join(', ')}
  from json_each(?) order by key returning id`;

/** What one statement takes is one text, which is not to be of any length. */
const LARGEST_PORTION = 8 * 1024 * 1024;

function* inPortions(rows: readonly NewRow[]): Generator<readonly NewRow[]> {
  let portion: NewRow[] = [];
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
async function insertRows(db: Database, rows: readonly NewRow[]): Promise<number[]> {
  const values = JSON.stringify(rows.map(toValues));
  const inserted = await queryRaw<{ id: number }>(db, insert, [values]);
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

async function addOne(
  db: Database,
  row: NewRow,
  job: NewJob<unknown>,
  at: number,
): Promise<number> {
  const existing = row.unique_key === null ? null : await selectByKey(db, row.unique_key);
  if (existing !== null) return await keepExisting(db, existing, row, job, at);
  const state = row.parent_id === null ? 'queued' : await stateOfNewChild(db, row.parent_id);
  const [id] = await insertRows(db, [{ ...row, state }]);
  return id as number;
}

interface Existing {
  readonly id: number;
  readonly name: string;
  readonly state: JobState;
  readonly parent_id: number | null;
}

async function selectByKey(db: Database, key: string): Promise<Existing | null> {
  const existing = await db
    .selectFrom('jobs')
    .select(['id', 'name', 'state', 'parent_id'])
    .where('unique_key', '=', key)
    .where('finished_at', 'is', null)
    .executeTakeFirst();
  return existing ?? null;
}

async function keepExisting(
  db: Database,
  existing: Existing,
  row: NewRow,
  job: NewJob<unknown>,
  at: number,
): Promise<number> {
  refuseOtherFamily(existing, row);
  const { onDuplicate: policy = 'keep' } = job;
  if (policy === 'keep' || existing.state === 'running') return existing.id;
  const data = policy === 'merge' ? await mergeData(db, existing.id, row.data) : row.data;
  await db.updateTable('jobs').set({ data }).where('id', '=', existing.id).execute();
  const detail = `${policy}d by another of its unique key`;
  await recordActivity(db, { at, event: 'job-updated', jobId: existing.id, detail });
  return existing.id;
}

/** By RFC 7396. @throws {QueueError} if that is too much */
async function mergeData(db: Database, id: number, patch: string): Promise<string> {
  const text = 'select json_patch(data, ?) as data from jobs where id = ?';
  const [{ data }] = (await queryRaw<{ data: string }>(db, text, [patch, id])) as [
    { data: string },
  ];
  return checkSize("A job's data, merged,", data);
}

function refuseOtherFamily(existing: Existing, row: NewRow): void {
  if (row.parent_id === null || row.parent_id === existing.parent_id) return;
  const whose = existing.parent_id === null ? 'no child' : `a child of job ${existing.parent_id}`;
  throw new QueueError(
    'wrong-state',
    `Job ${existing.id} has the unique key ${JSON.stringify(row.unique_key)} already and is ${whose}.`,
  );
}
