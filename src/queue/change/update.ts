import { parseRepeat } from '../../repeat/parse.ts';
import { planNext } from '../../repeat/plan.ts';
import type { RepeatRule } from '../../repeat/rule.ts';
import { leadsNowhere } from '../../repeat/series.ts';
import type { JobRow } from '../../store/schema.ts';
import { invalid, readLeaseMs, readPriority, readWhen, writeJson } from '../add/values.ts';
import type { JobRef, UpdateOptions } from '../api.ts';
import { QueueError, wrongState } from '../errors.ts';
import { findJob, type VerbSession } from '../read/jobs.ts';
import { isWaiting } from '../read/list.ts';

interface Updating {
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

/** Changes a job in any state, without changing that. To be called in a transaction. */
export async function updateJob(
  session: VerbSession,
  ref: JobRef,
  options: UpdateOptions,
  updating: Updating,
): Promise<void> {
  const { at } = updating;
  const change = readChange(options, at);
  const changed = Object.keys(change).filter((key) => change[key as keyof Change] !== undefined);
  if (changed.length === 0) throw invalid('An update', 'data, priority, repeat or runAt', options);
  const job = await findJob(session, ref);
  const set = { ...plainColumns(change), ...(await timeColumns(job, change, updating)) };
  await session.jobs.change([{ id: job.id, set }], at);
  const detail = changed.map((key) => words[key as keyof Change]).join(', ');
  await session.events.record([{ at, event: 'job-updated', jobId: job.id, detail }]);
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
  const planned = await planNext(rule, moments, {
    missed: job.missed_policy,
    nowMs: at,
    cap: missedCap,
  });
  if (planned !== null) return { run_at: planned.runAt, scheduled_for: planned.scheduledFor };
  const why = leadsNowhere(rule, at)
    ? 'it goes beyond the year 9999.'
    : 'it has never started. Begin the rule with SCHEDULED or FINISHED, or give a time, too.';
  throw new QueueError(
    'invalid',
    `${JSON.stringify(rule.text)} gives job ${job.id} no time: ${why}`,
  );
}

interface Touching {
  /** UTC epoch milliseconds. */
  readonly at: number;
  /** `30s`, `10m`; undefined: as the job says. */
  readonly lease: string | undefined;
  /** Of a job that does not say. */
  readonly defaultLeaseMs: number;
}

/**
 * Begins the lease of a running job anew. One that has expired, but was not taken back yet, holds again:
 * being late alone loses no claim. To be called in a transaction.
 *
 * @returns until when it holds
 */
export async function touchJob(
  session: VerbSession,
  ref: JobRef,
  { at, lease, defaultLeaseMs }: Touching,
): Promise<Date> {
  const leaseMs = lease === undefined ? null : readLeaseMs(lease);
  const job = await findJob(session, ref);
  if (job.state !== 'running') throw wrongState(job, 'touch');
  const lease_expires_at = at + (leaseMs ?? job.lease_ms ?? defaultLeaseMs);
  await session.jobs.change([{ id: job.id, set: { lease_expires_at, lease_extended: 0 } }], at);
  return new Date(lease_expires_at);
}
