import type { HandlerAsk } from '../../child/contract.ts';
import { isStoreFailure } from '../../store/failures.ts';
import type { FinishedRun, JobRow, Outcome } from '../../store/schema.ts';
import { queryRaw } from '../../store/sqlite/queries.ts';
import type { Database } from '../../store/store.ts';
import type { Claim } from '../claim/script-claim.ts';
import { noSuchJob, QueueError } from '../errors.ts';
import type { Archive } from './archive.ts';
import { judgeTry, toPolicy, type Verdict } from './retry-policy.ts';
import { type Ending, type EndingFacts, endJob } from './transition.ts';

/** @throws {QueueError} if there is none of this number in the queue */
export async function selectJob(db: Database, id: number): Promise<JobRow> {
  const [job] = await queryRaw<JobRow>(db, 'select * from jobs where id = ? and tier is null', [
    id,
  ]);
  if (job === undefined) throw noSuchJob(id);
  return job;
}

/** Ends a claim of somebody who is no worker of the runner: with it, its run. To be called in a transaction. */
export async function endClaim(
  db: Database,
  job: JobRow,
  ending: Ending,
  facts: EndingFacts,
): Promise<void> {
  const runId = await endOpenRun(db, job, ending, facts);
  await endJob(db, job, ending, { ...facts, ...(runId !== null && { runId }) });
}

/** Nothing of it was measured; what its worker may tell later is refused. */
async function endOpenRun(
  db: Database,
  { id, started_at }: JobRow,
  ending: Ending,
  { at, reason, counts }: EndingFacts,
): Promise<number | null> {
  const outcome = counts !== undefined ? 'crashed' : outcomeOf(ending);
  const run: Partial<FinishedRun> = {
    outcome,
    finished_at: at,
    duration_ms: outcome === 'crashed' ? null : durationOf(started_at, at),
    reason: outcome === 'succeeded' ? null : (reason ?? 'it was given back'),
  };
  const ended = await db
    .updateTable('runs')
    .set(run)
    .where('job_id', '=', id)
    .where('outcome', '=', 'running')
    .returning('id')
    .executeTakeFirst();
  return ended?.id ?? null;
}

function outcomeOf(ending: Ending): Outcome {
  if (ending.kind === 'finish') return 'succeeded';
  return ending.kind === 'retry' && !ending.isTry ? 'released' : 'failed';
}

/** Null: unknown, as when the clock was set back meanwhile. */
function durationOf(startedAt: number | null, endedAt: number): number | null {
  return startedAt === null || endedAt < startedAt ? null : endedAt - startedAt;
}

/** A run of a handler that has ended. */
export interface QueuedRunEnd {
  readonly claim: Claim;
  readonly run: FinishedRun;
  /** JSON; null: it gave none. */
  readonly result: string | null;
  readonly ask: HandlerAsk | null;
  /** False: another try would end alike. */
  readonly isRetryable: boolean;
}

interface QueueTeller {
  readonly workerId: number | null;
  /** When it became known, if later than it happened; epoch milliseconds. */
  readonly toldAt?: number;
  readonly missedCap: number;
  readonly archive?: Archive;
  /** Told, in one sentence, of an end that the log has refused. */
  readonly onRefused?: (sentence: string) => void;
}

/**
 * Records how a run of the queue ended and what becomes of its job; to be called in a transaction.
 *
 * @returns null when the claim was lost meanwhile: then only what the run has printed is still written down
 */
export async function endQueuedRun(
  db: Database,
  ended: QueuedRunEnd,
  teller: QueueTeller,
): Promise<Verdict | null> {
  const at = teller.toldAt ?? ended.run.finished_at ?? ended.claim.startedAt;
  if (isPlain(ended, teller) && (await finishPlainly(db, ended, at))) {
    await recordRun(db, ended);
    await tellFinished(db, ended, teller, at);
    return { state: 'finished' };
  }
  const job = await selectHeld(db, ended.claim);
  if (job === null) {
    await recordOutput(db, ended);
    return null;
  }
  await recordRun(db, ended);
  const { ending, verdict } = decide(job, ended, at);
  const { outcome, reason } = ended.run;
  const counts = outcome === 'crashed' ? 'crashes' : outcome === 'timed-out' ? 'timeouts' : null;
  await endJob(db, job, ending, {
    at,
    workerId: teller.workerId,
    runId: ended.claim.runId,
    reason: ended.ask?.kind === 'fail' ? ended.ask.reason : reason,
    missedCap: teller.missedCap,
    ...(teller.archive !== undefined && { archive: teller.archive }),
    ...(counts !== null && { counts }),
  });
  return verdict;
}

/** What a handler's process may have said of itself. */
const unsaid = {
  ...{ user_cpu_ms: null, system_cpu_ms: null, max_rss_bytes: null, rss_change_bytes: null },
  ...{ measured_by: null, error_name: null, error_message: null, error_stack: null },
} as const;

/** Does the work in a transaction of its own. */
type InTransaction = <T>(work: (db: Database) => Promise<T>) => Promise<T>;

/**
 * Records it in a transaction of its own. An end that the log refuses, because of what its handler said of
 * it or of what somebody wrote into its job, has failed: one job must not stand in the way of all others.
 */
export async function recordRunEnd(
  inTransaction: InTransaction,
  ended: QueuedRunEnd,
  teller: QueueTeller,
): Promise<Verdict | null> {
  try {
    return await inTransaction((db) => endQueuedRun(db, ended, teller));
  } catch (error) {
    if (isStoreFailure(error)) throw error;
    const refused = toRefused(ended, error as Error);
    teller.onRefused?.(`job ${ended.claim.id} has failed, as ${refused.run.reason}`);
    return await inTransaction((db) => endQueuedRun(db, refused, teller));
  }
}

function toRefused({ claim, run }: QueuedRunEnd, { message }: Error): QueuedRunEnd {
  const reason = `its end could not be recorded: ${message}`;
  const failed = { ...run, ...unsaid, outcome: 'failed' as const, reason };
  return { claim, run: failed, result: null, ask: null, isRetryable: false };
}

function isPlain({ run }: QueuedRunEnd, { archive }: QueueTeller): boolean {
  return run.outcome === 'succeeded' && (archive === undefined || archive.keepsAll);
}

/** Most jobs neither repeat nor belong to a family: they are ended by one statement. */
async function finishPlainly(db: Database, { claim, result }: QueuedRunEnd, at: number) {
  const done = await queryRaw(
    db,
    `update jobs set state = 'finished', finished_at = ?, result = ?, claim_token = null,
       leased_until = null, reason = null
     where id = ? and claim_token = ? and repeat is null and parent_id is null
       and not exists (select 1 from jobs child where child.parent_id = jobs.id)
     returning id`,
    [at, result, claim.id, claim.token],
  );
  return done.length > 0;
}

async function tellFinished(
  db: Database,
  { claim }: QueuedRunEnd,
  { workerId }: QueueTeller,
  at: number,
): Promise<void> {
  await queryRaw(
    db,
    `insert into activity (at, worker_id, job_id, run_id, event) values (?, ?, ?, ?, 'job-finished')`,
    [at, workerId, claim.id, claim.runId],
  );
}

async function selectHeld(db: Database, { id, token }: Claim): Promise<JobRow | null> {
  try {
    const job = await selectJob(db, id);
    return job.claim_token === token ? job : null;
  } catch (error) {
    // It was deleted, by whoever has the say.
    if (error instanceof QueueError) return null;
    throw error;
  }
}

interface Decision {
  readonly ending: Ending;
  readonly verdict: Verdict;
}

function decide(
  job: JobRow,
  { run, result, ask, isRetryable }: QueuedRunEnd,
  at: number,
): Decision {
  if (run.outcome === 'succeeded') {
    return { ending: { kind: 'finish', result }, verdict: { state: 'finished' } };
  }
  if (ask?.kind === 'fail') return { ending: { kind: 'fail' }, verdict: { state: 'failed' } };
  const policy = toPolicy(job);
  if (ask?.kind === 'retry') {
    const { kind, delayMs = policy.retryDelayMs, ...changes } = ask;
    const runAt = at + delayMs;
    return {
      ending: { kind, runAt, isTry: false, ...changes },
      verdict: { state: 'retrying', runAt },
    };
  }
  const { outcome } = run;
  const verdict = judgeTry(policy, { outcome, attempt: job.attempts, isRetryable, at });
  return { ending: toEnding(verdict), verdict };
}

/** What a verdict makes of a job. */
export function toEnding(verdict: Verdict): Ending {
  if (verdict.state === 'retrying') return { kind: 'retry', runAt: verdict.runAt, isTry: true };
  return verdict.state === 'cancelled' ? { kind: 'cancel' } : { kind: 'fail', isSpent: true };
}

const outputColumns = [
  'output',
  'output_bytes',
  'output_dropped_bytes',
  'output_file',
  'output_file_bytes',
] as const satisfies readonly (keyof FinishedRun)[];

const runColumns = [
  'outcome',
  'finished_at',
  'duration_ms',
  'user_cpu_ms',
  'system_cpu_ms',
  'max_rss_bytes',
  'rss_change_bytes',
  'measured_by',
  'exit_code',
  'signal',
  'reason',
  'warning',
  'error_name',
  'error_message',
  'error_stack',
  ...outputColumns,
] as const satisfies readonly (keyof FinishedRun)[];

const recordRunText = updateText(runColumns);
const recordOutputText = `${updateText(outputColumns)} and output is null`;

function updateText(columns: readonly string[]): string {
  return `update runs set ${columns.map((column) => `${column} = ?`).join(', ')} where id = ?`;
}

async function recordRun(db: Database, { claim, run }: QueuedRunEnd): Promise<void> {
  await queryRaw(db, recordRunText, [...valuesOf(run, runColumns), claim.runId]);
}

async function recordOutput(db: Database, { claim, run }: QueuedRunEnd): Promise<void> {
  await queryRaw(db, recordOutputText, [...valuesOf(run, outputColumns), claim.runId]);
}

function valuesOf(run: FinishedRun, columns: readonly (keyof FinishedRun)[]): unknown[] {
  return columns.map((column) => run[column] ?? null);
}
