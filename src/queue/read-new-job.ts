import type { ChildFailurePolicy, JobState, MissedPolicy } from '../store/schema.ts';
import {
  invalid,
  readDelay,
  readJobName,
  readLeaseMs,
  readPriority,
  readRetries,
  readWhen,
  writeJson,
} from './job-values.ts';
import { checkOptions } from './known-options.ts';
import type { DuplicatePolicy, NewJob } from './queue.ts';
import { QueueError } from './queue-error.ts';
import { initialTime, leadsNowhere } from './repeat/next-time.ts';
import { parseRepeat } from './repeat/parse-repeat.ts';
import type { RepeatRule } from './repeat/repeat-rule.ts';

const duplicatePolicies: readonly DuplicatePolicy[] = ['keep', 'replace', 'merge'];

/** A job's columns as it is added. */
export interface NewRow {
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
export async function readNewJob(job: NewJob<unknown>, at: number): Promise<NewRow> {
  checkOptions('add', job);
  const rule = job.repeat === undefined || job.repeat === '' ? null : readRepeat(job);
  const firstAt = rule === null ? at : await initialTime(rule, at);
  const runAt = job.runAt === undefined ? firstAt : readWhen(job.runAt, at);
  if (rule !== null && leadsNowhere(rule, runAt)) throw givesNoTime(rule);
  const { missed = 'all', onChildFailure = 'resume', priority = 500, onDuplicate = 'keep' } = job;
  readWord('The policy for duplicates', onDuplicate, duplicatePolicies);
  const row: NewRow = {
    name: readJobName(job.name),
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
    throw new QueueError('invalid', 'A policy for duplicates expects a unique key beside it.');
  }
  if (missed !== undefined && repeat === undefined) {
    throw new QueueError('invalid', 'A policy for missed times expects a repeat rule beside it.');
  }
}

function givesNoTime({ text }: RepeatRule): QueueError {
  const why = `${JSON.stringify(text)} gives no time: it leads beyond the year 9999.`;
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
