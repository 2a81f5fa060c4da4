import type { RepeatRule } from '../../schedule/repeat/rule.ts';
import { initialTime, leadsNowhere } from '../../schedule/repeat/series.ts';
import type { JobHead } from '../../store/shared/job-columns.ts';
import type { NewJobRow } from '../../store/statements/jobs.ts';
import type { StoreSession } from '../../store/store.ts';
import type { JobState } from '../../store/words.ts';
import { describeFound } from '../../system/base/values.ts';
import type { AddedJob, NewJob } from '../api.ts';
import { QueueError } from '../errors.ts';
import { changeByEvent } from '../settle/change-by-event.ts';
import { stateOfNewChild } from '../settle/families.ts';
import { writeRetry } from '../settle/own-retry.ts';
import { jobOptionNames, jobOptions, takeable, takenBy } from './options.ts';
import {
  checkJson,
  checkOptions,
  readDelay,
  readRetries,
  readRule,
  readRunAt,
  readWord,
  refuseRepeatingChild,
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
      const rule = await readRuleOf(job);
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
      return readNewJob(checkOptions('add', jobOptionNames, job), null, at, at);
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

/** The known columns of a job that has a unique key. */
type TakenJob = Pick<JobHead, 'id' | 'name' | 'state' | 'parent_id' | 'repeat' | 'unique_key'>;

function distinct<Value>(values: readonly (Value | null)[]): Value[] {
  return [...new Set(values)].filter((value) => value !== null);
}

/**
 * Changes an unfinished job when another with its unique key is added, by that one's policy for duplicates.
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
  // A caller that has the data replaced and gives none means an empty object, the data of a new job.
  const isAboutData = policy === 'replace' || policy === 'merge';
  const given = takeable.filter((option) => job[option] !== undefined || (option === 'data' && isAboutData));
  const isBusy = state === 'running' || state === 'claimed';
  const taken = isBusy ? [] : given.filter((option) => takenBy[policy].includes(option));
  const ignored = [
    ...(row.name === existing.name ? [] : ['name']),
    ...given.filter((option) => !taken.includes(option)),
  ];
  if (taken.length === 0) return { id, added: false, changed: false, ignored };
  if (taken.includes('repeat') && existing.parent_id !== null) throw refuseRepeatingChild(existing);
  const columns = taken.flatMap((option) => jobOptions[option].columns);
  const set: { -readonly [Column in keyof NewJobRow]?: NewJobRow[Column] } = Object.fromEntries(
    columns.map((column) => [column, row[column]]),
  );
  // The time of a job that repeats is the time from which its rule counts.
  if (taken.includes('runAt') && !taken.includes('repeat') && existing.repeat !== null) set.scheduled_for = row.run_at;
  if (policy === 'merge') set.data = checkJson('data', await session.jobs.mergeData(id, row.data), ', merged,');
  const detail = `${policy === 'merge' ? 'merged' : 'replaced'} by another of its unique key`;
  await changeByEvent(session, [{ id, set }], { at, event: 'job-updated', detail });
  return { id, added: false, changed: true, ignored };
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
 * @param rule null: none
 * @param firstAt when it is due unless it says so itself
 * @throws {QueueError} that says what is expected
 */
function readNewJob(job: NewJob<unknown>, rule: RepeatRule | null, firstAt: number, at: number): NewJobRow {
  const { runAt, retries, retryDelay, uniqueKey, onDuplicate, repeat, missed } = job;
  const run_at = runAt === undefined ? firstAt : readRunAt(runAt, at);
  if (rule !== null && leadsNowhere(rule, run_at)) {
    const why = `${JSON.stringify(rule.text)} gives no time: it goes beyond the year 9999.`;
    throw new QueueError('invalid', why, { field: 'repeat' });
  }
  if (onDuplicate !== undefined) {
    readWord('onDuplicate', 'The policy for duplicates', onDuplicate, jobOptions.onDuplicate.takes);
  }
  if (retryDelay !== undefined) readDelay(retryDelay);
  const row = {
    state: 'queued' as const,
    run_at,
    scheduled_for: rule === null ? null : run_at,
    repeat: rule?.text ?? null,
    created_at: at,
    retry: writeRetry(retries === undefined ? undefined : readRetries(retries), retryDelay),
    name: jobOptions.name.read(job.name),
    data: columnOf(jobOptions.data, job.data),
    priority: columnOf(jobOptions.priority, job.priority),
    missed_policy: columnOf(jobOptions.missed, missed),
    unique_key: columnOf(jobOptions.uniqueKey, uniqueKey),
    concurrency_key: columnOf(jobOptions.group, job.group),
    parent_id: columnOf(jobOptions.parent, job.parent),
    on_child_failure: columnOf(jobOptions.onChildFailure, job.onChildFailure),
    lease_ms: columnOf(jobOptions.lease, job.lease),
  };
  // An option without the option that it depends on would be ignored without a word.
  if (onDuplicate !== undefined && uniqueKey === undefined) {
    throw new QueueError('invalid', 'A policy for duplicates needs a unique key.', { field: 'onDuplicate' });
  }
  if (missed !== undefined && repeat === undefined) {
    throw new QueueError('invalid', 'A policy for missed times needs a repeat rule.', { field: 'missed' });
  }
  return row;
}

function columnOf<Value, Initial>(
  { read, initial }: { readonly read: (value: unknown) => Value; readonly initial: Initial },
  given: unknown,
): Value | Initial {
  return given === undefined ? initial : read(given);
}

async function readRuleOf(job: NewJob<unknown>): Promise<RepeatRule | null> {
  const { repeat, parent } = checkOptions('add', jobOptionNames, job);
  if (repeat === undefined || repeat === '') return null;
  if (parent === undefined) return await readRule(repeat);
  const why = 'A child cannot repeat: its parent would wait for ever; let the parent repeat.';
  throw new QueueError('invalid', why, { field: 'repeat' });
}
