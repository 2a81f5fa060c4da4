import { readUsedEnds } from '../../queue/links.ts';
import type { RetryPolicy } from '../../queue/settle/retry-policy.ts';
import { noteEnd, type RunToSettle, settleRuns } from '../../queue/settle/settle.ts';
import type { WorkerRow } from '../../store/schema.ts';
import type { JobHead } from '../../store/shared/job-columns.ts';
import type { SpooledEnd, SpooledRun, SpoolHeader } from '../../store/spool/read.ts';
import { workerOf } from '../../store/statements/job-rows.ts';
import type { ClaimRef } from '../../store/statements/runs.ts';
import type { Store, StoreSession } from '../../store/store.ts';

/** The known end of a worker without the log. */
export interface SpoolWorkerEnd {
  readonly state: 'finished' | 'crashed';
  readonly finishedAt: number;
  readonly reason: string | null;
}

export interface SpooledRuns {
  readonly worker: SpoolHeader;
  readonly end: SpoolWorkerEnd;
  readonly runs: readonly SpooledEnd[];
}

/** The process that replays the runs; a null `workerId`: it is no worker. */
export interface SpoolTaker {
  readonly workerId: number | null;
  readonly at: number;
  /** How many missed times of a repeating job are made up for. */
  readonly missedCap: number;
}

/**
 * Settles runs that were recorded without the log, together with their worker, in one transaction. Repeated calls
 * record each run once. Returns how many were missing in the log.
 */
export function recordSpooledRuns(
  store: Store,
  { worker, end, runs }: SpooledRuns,
  taker: SpoolTaker,
): Promise<number> {
  return store.transaction(async (session) => {
    const row = await session.workers.find(worker);
    const ended = toWorkerEnd(worker, end);
    // Another worker may have its tier by now.
    const workerId = row?.id ?? (await session.workers.addEnded(worker, ended));
    const isNews = row === null || mayCorrect(row, end);
    if (row !== null && isNews) await session.workers.correct(workerId, ended);
    const known = new Set(await session.runs.knownSpoolIds(runs.map(({ spoolId }) => spoolId)));
    let count = 0;
    for (const run of runs) {
      if (known.has(run.spoolId)) continue;
      known.add(run.spoolId);
      if (await replay(session, run, { ...taker, spoolWorkerId: workerId, isOfThisLog: row !== null })) count += 1;
    }
    if (count > 0 || isNews) {
      const detail = describe(count, worker.reason);
      const { at } = taker;
      await session.events.record([{ at, event: 'spool-replayed', workerId: taker.workerId, detail }]);
    }
    return count;
  });
}

function describe(count: number, reason: string): string {
  const what = count === 0 ? 'a pass' : count === 1 ? '1 run' : `${count} runs`;
  return `${what} that ${count > 1 ? 'were' : 'was'} recorded without the log, because ${reason}`;
}

/** A worker's own report counts more than the discovery that it is dead. */
function mayCorrect({ state }: WorkerRow, end: SpoolWorkerEnd): boolean {
  return state === 'running' || (state === 'crashed' && end.state === 'finished');
}

function toWorkerEnd({ reason: cause }: SpoolHeader, { state, finishedAt: at, reason }: SpoolWorkerEnd) {
  const without = `it ran without the log, because ${cause}`;
  return { state, at, reason: reason === null ? without : `${reason}; ${without}` };
}

interface Replaying extends SpoolTaker {
  readonly spoolWorkerId: number;
  /** Whether its worker began in this log: a log that was made anew, or restored, does not know it. */
  readonly isOfThisLog: boolean;
}

/** False: nothing was added, because the log has the run already, or no longer has its job. */
async function replay(session: StoreSession, run: SpooledEnd, replaying: Replaying): Promise<boolean> {
  if (run.claim !== null) {
    // Its spooler did not know whether the run had lasted long enough to have a row, nor whether its end was committed
    // when the database was lost.
    const runId = await session.runs.ofClaim(run.claim);
    const told = toSettle(run, run.claim, replaying, { runId, policy: run.policy });
    if (await settle(session, told, replaying)) return true;
    // A queued job that this log does not know belongs to another log.
    if (replaying.isOfThisLog || run.start.script.startsWith('queue/'))
      return runId === null && (await recordOvertaken(session, told, run.tier));
  }
  const { start } = run;
  const { id, waiting } = await findJob(session, run);
  await releaseOwn(session, waiting, run, replaying);
  const claim = { id, token: run.spoolId };
  const begun = { ...claim, state: 'running' as const, at: start.startedAt };
  const [claimed] = waiting === null ? [] : await session.scriptJobs.claim([begun]);
  const mayRetry = run.claim !== null || (waiting !== null && waiting.attempts > 0);
  const told = toSettle(run, claim, replaying, { runId: null, policy: mayRetry ? run.policy : once });
  if (waiting !== null && run.usedEnds !== undefined) {
    const ends_used = JSON.stringify({ ...readUsedEnds(waiting), ...run.usedEnds });
    await session.jobs.change([{ id, set: { ends_used } }], start.startedAt);
  }
  if (claimed !== undefined) await settle(session, told, replaying);
  else await recordAlone(session, told);
  return true;
}

/**
 * Releases the job that the run's own worker had claimed when it lost the log, and could not give back. Otherwise the
 * claim would count as somebody else's: the run would be recorded beside the job, and the job would run once more.
 */
async function releaseOwn(
  { claims }: StoreSession,
  waiting: JobHead | null,
  { start: { startedAt } }: SpooledRun,
  { spoolWorkerId, isOfThisLog }: Replaying,
): Promise<void> {
  if (!isOfThisLog || waiting?.state !== 'claimed' || waiting.claim_token === null) return;
  const { id, claim_token: token } = waiting;
  if (workerOf(token) === spoolWorkerId) await claims.release([{ id, token }], startedAt);
}

/** Without the log nothing could have tried it again. */
const once: RetryPolicy = {
  maxAttempts: 1,
  delay: { firstMs: 0, factor: 1, longestMs: 0 },
  onCrash: null,
};

interface FoundJob {
  readonly id: number;
  /** The row that this run settles; null: another worker decides about it by now. */
  readonly waiting: JobHead | null;
}

/**
 * The script's row: its open one at the time the log was lost, otherwise one that begins anew unless the row is
 * younger.
 */
async function findJob(session: StoreSession, run: SpooledRun): Promise<FoundJob> {
  const { tier, onlyHost, jobId, slot: scheduledFor } = run;
  const { script, startedAt: at } = run.start;
  const host = onlyHost ?? null;
  const name = { name: script, tier: tier ?? script.split('/', 1)[0] ?? script, host };
  const find = async () =>
    (await session.scriptJobs.ofTier(name.tier)).find((job) => job.name === script && job.host === host);
  const row = await find();
  if (row !== undefined && row.finished_at === null) {
    const isForIt = row.run_at <= at || (row.state === 'retrying' && row.id === jobId);
    return { id: row.id, waiting: isForIt && row.created_at <= at ? row : null };
  }
  if (row?.finished_at != null && row.finished_at >= at) return { id: row.id, waiting: null };
  await session.scriptJobs.enqueue([{ ...name, scheduledFor, at }]);
  const made = (await find()) as JobHead;
  return { id: made.id, waiting: made };
}

function toSettle(
  { spoolId, claim: own, start, end, isRetryable, result, decision }: SpooledEnd,
  claim: ClaimRef,
  { spoolWorkerId: workerId }: Replaying,
  known: Pick<RunToSettle, 'runId' | 'policy'>,
): RunToSettle {
  // A claim from another log means nothing in this one.
  const key = claim === own ? claim.token : null;
  const run = { spoolId, claim, end, isRetryable, result, decision };
  return { ...run, ...known, start: { ...start, jobId: claim.id, workerId, key } };
}

async function settle(session: StoreSession, run: RunToSettle, { at, missedCap }: Replaying): Promise<boolean> {
  // Only a run that is tried again counts from now on.
  const isTriedAgain = run.end.outcome !== 'succeeded' && run.policy !== once;
  const context = { missedCap, ...(isTriedAgain && { observedAt: at }) };
  const [settled] = await settleRuns(session, [run], context);
  return settled !== undefined && settled.decision !== null;
}

/**
 * Records a run that somebody considered unbegun: its job has run again since, but this run took place nevertheless.
 */
async function recordOvertaken(session: StoreSession, run: RunToSettle, tier: string | null): Promise<boolean> {
  const { id } = run.claim;
  const rows = tier === null ? await session.jobs.byId([id]) : await session.scriptJobs.ofTier(tier);
  if (!rows.some((row) => row.id === id)) return false;
  await recordAlone(session, run);
  return true;
}

/** Records a run without its job: by now somebody else runs the script. */
async function recordAlone(session: StoreSession, run: RunToSettle): Promise<void> {
  const leftJob = run.end.outcome === 'succeeded' ? null : ('failed' as const);
  const { start, end, spoolId = null } = run;
  const [runId] = await session.runs.end([{ ...start, runId: null, end, leftJob, spoolId }]);
  const at = end.finished_at ?? start.startedAt;
  await noteEnd(session, { ...start, runId, end, leftJob, at, isLate: true });
}
