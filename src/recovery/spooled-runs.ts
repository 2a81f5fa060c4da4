import type { RetryPolicy } from '../queue/settle/retry-policy.ts';
import { type RunToSettle, settleRuns } from '../queue/settle/settle.ts';
import type { SpooledEnd, SpooledRun, SpoolHeader } from '../spool/format.ts';
import type { RunStart, Store, StoreSession } from '../store/contract.ts';
import type { JobRow, WorkerRow } from '../store/schema.ts';

/** How a worker without the log ended, as far as is known. */
export interface SpoolWorkerEnd {
  readonly state: 'finished' | 'crashed';
  readonly finishedAt: number;
  readonly reason: string | null;
}

interface SpooledRuns {
  readonly worker: SpoolHeader;
  readonly end: SpoolWorkerEnd;
  readonly runs: readonly (SpooledRun | SpooledEnd)[];
}

/** Who replays them; null: no worker. */
export interface SpoolTaker {
  readonly workerId: number | null;
  readonly at: number;
  /** How many missed times of a repeating job are made up for. */
  readonly missedCap: number;
  /** What a job's script says of further tries. */
  readonly policyOf: (job: JobRow) => Promise<RetryPolicy>;
}

/**
 * Settles runs that were recorded without the log, with their worker, in one transaction: each of them once,
 * however often it is told. How many were not in the log.
 */
export function recordSpooledRuns(
  store: Store,
  { worker, end, runs }: SpooledRuns,
  taker: SpoolTaker,
): Promise<number> {
  return store.transaction(async (session) => {
    const row = await session.workers.find(worker);
    const ended = toWorkerEnd(worker, end);
    // Of its tier another one may be at work by now.
    const workerId = row?.id ?? (await session.workers.addEnded(worker, ended));
    const isNews = row === null || mayCorrect(row, end);
    if (row !== null && isNews) await session.workers.correct(workerId, ended);
    const known = new Set(await session.runs.knownSpoolIds(runs.map(({ spoolId }) => spoolId)));
    let count = 0;
    for (const run of runs) {
      if (known.has(run.spoolId)) continue;
      known.add(run.spoolId);
      if (
        await replay(session, run, { ...taker, spoolWorkerId: workerId, isOfThisLog: row !== null })
      )
        count += 1;
    }
    if (count > 0 || isNews) {
      const detail = describe(count, worker.reason);
      const { at } = taker;
      await session.events.record([
        { at, event: 'spool-replayed', workerId: taker.workerId, detail },
      ]);
    }
    return count;
  });
}

function describe(count: number, reason: string): string {
  const what = count === 0 ? 'a pass' : count === 1 ? '1 run' : `${count} runs`;
  return `${what} that ${count > 1 ? 'were' : 'was'} recorded without the log, because ${reason}`;
}

/** What the worker said of itself counts more than that it was found dead. */
function mayCorrect({ state }: WorkerRow, end: SpoolWorkerEnd): boolean {
  return state === 'running' || (state === 'crashed' && end.state === 'finished');
}

function toWorkerEnd(
  { reason: cause }: SpoolHeader,
  { state, finishedAt: at, reason }: SpoolWorkerEnd,
) {
  const without = `it ran without the log, because ${cause}`;
  return { state, at, reason: reason === null ? without : `${reason}; ${without}` };
}

interface Replaying extends SpoolTaker {
  readonly spoolWorkerId: number;
  /** Whether its worker had begun in this log: one that was made anew, or put back, knows nothing of it. */
  readonly isOfThisLog: boolean;
}

/** False: it began in this log, and whoever took its job over meanwhile has the say. */
async function replay(
  session: StoreSession,
  run: SpooledRun | SpooledEnd,
  replaying: Replaying,
): Promise<boolean> {
  if (run.type === 'end') {
    const { claim, policy, isRetryable } = run;
    // Whoever spooled it did not know whether it had lasted long enough to have a row.
    const row = await session.runs.running(claim.id);
    const runId = row?.key === claim.token ? row.id : null;
    const told = toSettle(run, claim, replaying, { policy, isRetryable, runId });
    if (await settle(session, told, replaying)) return true;
    if (replaying.isOfThisLog) return false;
  }
  const { id, waiting } = await findJob(session, run);
  const claim = { id, token: run.spoolId };
  const begun = { ...claim, state: 'running' as const, at: run.startedAt };
  const [claimed] = waiting === null ? [] : await session.scriptJobs.claim([begun]);
  const isRetryable = run.run.outcome !== 'not-started';
  const policy = run.type === 'end' ? run.policy : await policyFor(waiting, replaying);
  const told = toSettle(run, claim, replaying, { policy, isRetryable, runId: null });
  if (claimed !== undefined) await settle(session, told, replaying);
  else await recordAlone(session, told);
  return true;
}

/** Without the log there was nothing that could have tried it again. */
const once: RetryPolicy = {
  maxAttempts: 1,
  delay: { firstMs: 0, factor: 1, longestMs: 0 },
  onCrash: null,
};

/** Of what waited in the log, its script says how it is tried again. */
async function policyFor(waiting: JobRow | null, { policyOf }: Replaying): Promise<RetryPolicy> {
  return waiting === null || waiting.attempts === 0 ? once : await policyOf(waiting);
}

interface FoundJob {
  readonly id: number;
  /** The row that this run settles; null: somebody else has the say by now. */
  readonly waiting: JobRow | null;
}

/** The script's row: what it was queued for when the log was lost, else begun anew unless it is younger. */
async function findJob(
  session: StoreSession,
  { script, tier, jobId, scheduledFor, startedAt: at }: SpooledRun | SpooledEnd,
): Promise<FoundJob> {
  const name = { name: script, tier: tier ?? script.split('/', 1)[0] ?? script };
  const find = async () =>
    (await session.scriptJobs.ofTier(name.tier)).find((job) => job.name === script);
  const row = await find();
  if (row !== undefined && row.finished_at === null) {
    const isForIt = row.run_at <= at || (row.state === 'retrying' && row.id === jobId);
    return { id: row.id, waiting: isForIt && row.created_at <= at ? row : null };
  }
  if (row?.finished_at != null && row.finished_at >= at) return { id: row.id, waiting: null };
  await session.scriptJobs.enqueue([{ ...name, scheduledFor, at }]);
  const made = (await find()) as JobRow;
  return { id: made.id, waiting: made };
}

interface Told extends Pick<RunToSettle, 'policy' | 'isRetryable' | 'runId'> {}

function toSettle(
  run: SpooledRun | SpooledEnd,
  claim: RunToSettle['claim'],
  { spoolWorkerId }: Replaying,
  told: Told,
): RunToSettle {
  const start: RunStart = {
    jobId: claim.id,
    workerId: spoolWorkerId,
    // A claim of another log says nothing in this one.
    key: run.type === 'end' && claim.token === run.claim.token ? claim.token : null,
    script: run.script,
    contentHash: run.contentHash,
    attempt: run.attempt,
    scheduledFor: run.scheduledFor,
    startedAt: run.startedAt,
    timeoutMs: run.timeoutMs,
  };
  const { spoolId, run: end } = run;
  return { ...told, claim, start, end, result: null, decision: null, spoolId };
}

async function settle(
  session: StoreSession,
  run: RunToSettle,
  { at, missedCap }: Replaying,
): Promise<boolean> {
  // Only what is tried again counts from now on.
  const isTriedAgain = run.end.outcome !== 'succeeded' && run.policy !== once;
  const context = { missedCap, ...(isTriedAgain && { observedAt: at }) };
  const [settled] = await settleRuns(session, [run], context);
  return settled !== undefined && settled.decision !== null;
}

/** Of a script that is run by somebody else by now: its job is left alone. */
async function recordAlone(session: StoreSession, run: RunToSettle): Promise<void> {
  const leftJob = run.end.outcome === 'succeeded' ? null : ('failed' as const);
  const { start, end, spoolId = null } = run;
  await session.runs.end([{ ...start, runId: null, end, leftJob, spoolId }]);
}
