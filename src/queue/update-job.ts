import { recordActivity } from '../store/activity.ts';
import type { Database } from '../store/open-store.ts';
import type { JobRow } from '../store/schema.ts';
import { findJob } from './find-job.ts';
import { isWaiting } from './job-states.ts';
import { invalid, readPriority, readWhen, writeJson } from './job-values.ts';
import type { JobRef, UpdateOptions } from './queue.ts';
import { QueueError } from './queue-error.ts';
import { leadsNowhere } from './repeat/next-time.ts';
import { parseRepeat } from './repeat/parse-repeat.ts';
import { planNext } from './repeat/plan-next.ts';
import type { RepeatRule } from './repeat/repeat-rule.ts';

export interface Updating {
  /** UTC epoch milliseconds. */
  readonly at: number;
  /** How many missed times of a repeating job are made up for. */
  readonly missedCap: number;
}

/** What was asked for, understood; what is undefined stays as it is. */
interface Change {
  readonly data: string | undefined;
  readonly priority: number | undefined;
  readonly runAt: number | undefined;
  /** Null: it repeats no more. */
  readonly rule: RepeatRule | null | undefined;
}

/** Changes a job in any state, without changing that. */
export async function updateJob(
  db: Database,
  ref: JobRef,
  options: UpdateOptions,
  updating: Updating,
): Promise<void> {
  const change = readChange(options, updating.at);
  const changed = Object.keys(change).filter((key) => change[key as keyof Change] !== undefined);
  if (changed.length === 0) throw invalid('An update', 'data, priority, repeat or runAt', options);
  await db.transaction().execute(async (transaction) => {
    const job = await findJob(transaction, ref);
    const columns = { ...plainColumns(change), ...(await timeColumns(job, change, updating)) };
    await transaction.updateTable('jobs').set(columns).where('id', '=', job.id).execute();
    const detail = changed.map((key) => words[key as keyof Change]).join(', ');
    await recordActivity(transaction, {
      at: updating.at,
      event: 'job-updated',
      jobId: job.id,
      detail,
    });
  });
}

const words: Readonly<Record<keyof Change, string>> = {
  data: 'data',
  priority: 'priority',
  runAt: 'time',
  rule: 'rule',
};

function readChange({ data, priority, repeat, runAt }: UpdateOptions, at: number): Change {
  return {
    data: data === undefined ? undefined : writeJson("A job's data", data),
    priority: priority === undefined ? undefined : readPriority(priority),
    rule: repeat === undefined || repeat === null ? repeat : readRule(repeat),
    runAt: runAt === undefined ? undefined : readWhen(runAt, at),
  };
}

function readRule(text: unknown): RepeatRule {
  if (typeof text !== 'string' || text === '') {
    throw invalid('A repeat rule', 'text such as SCHEDULED, +1 HOUR, or null for none', text);
  }
  const parsed = parseRepeat(text);
  if ('problem' in parsed) throw new QueueError('invalid', parsed.problem);
  return parsed.rule;
}

function plainColumns({ data, priority, rule }: Change): Partial<JobRow> {
  return {
    ...(data !== undefined && { data }),
    ...(priority !== undefined && { priority }),
    ...(rule !== undefined && { repeat: rule?.text ?? null }),
  };
}

/** A time that is said wins over one that a new rule gives. */
async function timeColumns(
  job: JobRow,
  { runAt, rule }: Change,
  updating: Updating,
): Promise<Partial<JobRow>> {
  if (rule && job.parent_id !== null) throw refuseRepeatingChild(job);
  const repeats = rule === undefined ? job.repeat !== null : rule !== null;
  if (runAt !== undefined) return { run_at: runAt, ...(repeats && { scheduled_for: runAt }) };
  return rule && isWaiting(job.state) ? await timeOf(rule, job, updating) : {};
}

function refuseRepeatingChild({ id, parent_id }: JobRow): QueueError {
  const why = `Job ${id} is a child of job ${parent_id} and cannot repeat: that would wait for ever.`;
  return new QueueError('invalid', `${why} Let the parent repeat.`);
}

/** Of a job that waits; a running one gets its next time once it has finished. */
async function timeOf(
  rule: RepeatRule,
  job: JobRow,
  { at, missedCap }: Updating,
): Promise<Partial<JobRow>> {
  const moments = {
    scheduled: job.scheduled_for ?? job.run_at,
    started: job.started_at,
    finished: at,
  };
  const planned = await planNext(rule, moments, { missed: job.missed, nowMs: at, cap: missedCap });
  if (planned !== null) return { run_at: planned.runAt, scheduled_for: planned.scheduledFor };
  const why = leadsNowhere(rule, at)
    ? 'it leads beyond the year 9999.'
    : 'it has never started. Begin the rule with SCHEDULED or FINISHED, or give a time, too.';
  throw new QueueError(
    'invalid',
    `${JSON.stringify(rule.text)} gives job ${job.id} no time: ${why}`,
  );
}
