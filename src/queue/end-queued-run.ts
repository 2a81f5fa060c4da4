import type { HandlerAsk } from '../child/handler-contract.ts';
import type { Database } from '../store/open-store.ts';
import { queryRaw } from '../store/raw-query.ts';
import type { FinishedRun, JobRow } from '../store/schema.ts';
import type { Archive } from './archive.ts';
import type { Claim } from './claim-job.ts';
import { selectJob } from './end-claim.ts';
import { type Ending, endJob } from './end-job.ts';
import { checkJson, readJobName } from './job-values.ts';
import { QueueError } from './queue-error.ts';
import { judgeTry, toPolicy, type Verdict } from './retry-policy.ts';

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

export interface QueueTeller {
  readonly workerId: number | null;
  /** When it became known, if later than it happened; epoch milliseconds. */
  readonly toldAt?: number;
  readonly missedCap: number;
  readonly archive?: Archive;
}

/**
 * Records how a run of the queue ended and what becomes of its job; to be called in a transaction.
 *
 * @returns null when the claim was lost meanwhile: then nothing is changed
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
  if (job === null) return null;
  await recordRun(db, ended);
  const problem = findProblem(ended.ask);
  const { ending, verdict } = decide(job, problem === null ? ended : { ...ended, ask: null }, at);
  const { outcome, reason } = ended.run;
  const counts = outcome === 'crashed' ? 'crashes' : outcome === 'timed-out' ? 'timeouts' : null;
  await endJob(db, job, ending, {
    at,
    workerId: teller.workerId,
    runId: ended.claim.runId,
    reason: problem ?? (ended.ask?.kind === 'fail' ? ended.ask.reason : reason),
    missedCap: teller.missedCap,
    ...(teller.archive !== undefined && { archive: teller.archive }),
    ...(counts !== null && { counts }),
  });
  return verdict;
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

/** What the log would refuse must not end its worker: then it has failed like others. */
function findProblem(ask: HandlerAsk | null): string | null {
  if (ask?.kind !== 'retry') return null;
  try {
    if (ask.name !== undefined) readJobName(ask.name);
    if (ask.data !== undefined) checkJson("A job's data", ask.data);
    return null;
  } catch (error) {
    if (error instanceof QueueError) return `it asked for another try, but: ${error.message}`;
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
  return { kind: verdict.state === 'cancelled' ? 'cancel' : 'fail' };
}

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
  'output',
  'output_bytes',
  'output_dropped_bytes',
  'output_file',
  'output_file_bytes',
] as const satisfies readonly (keyof FinishedRun)[];

const recordRunText = `update runs set ${runColumns.map((column) => `${column} = ?`).join(', ')} where id = ?`;

async function recordRun(db: Database, { claim, run }: QueuedRunEnd): Promise<void> {
  const values = runColumns.map((column) => run[column] ?? null);
  await queryRaw(db, recordRunText, [...values, claim.runId]);
}
