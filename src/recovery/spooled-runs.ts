import { judgeTry } from '../queue/settle/retry-policy.ts';
import { toJobColumns } from '../queue/settle/script-run.ts';
import type { SpoolHeader, SpoolRun } from '../spool/format.ts';
import { recordActivity } from '../store/events.ts';
import type { FinishedRun, WorkerRow } from '../store/schema.ts';
import type { Database } from '../store/store.ts';

/** A run that ended without the log. */
export interface EndedSpoolRun extends SpoolRun {
  readonly run: FinishedRun;
}

/** How a worker without the log ended, as far as is known. */
export interface SpoolWorkerEnd {
  readonly state: 'finished' | 'crashed';
  readonly finishedAt: number;
  readonly reason: string | null;
}

interface SpooledRuns {
  readonly worker: SpoolHeader;
  readonly end: SpoolWorkerEnd;
  readonly runs: readonly EndedSpoolRun[];
  /** Runs of the same worker that had begun in the log, and have been ended there. */
  readonly endedInLog: number;
}

/** Who takes them in; null: no worker, but somebody who only looks. */
export interface SpoolTaker {
  readonly workerId: number | null;
  readonly at: number;
}

/** Who takes them in, and whose they are. */
interface Taker extends SpoolTaker {
  readonly spoolWorkerId: number;
}

/** Records runs with their worker, in one transaction: each of them once, however often it is told. */
export function recordSpooledRuns(
  db: Database,
  { worker, end, runs, endedInLog }: SpooledRuns,
  { workerId, at }: SpoolTaker,
): Promise<number> {
  return db.transaction().execute(async (transaction) => {
    const row = await findWorker(transaction, worker);
    const id = row?.id ?? (await insertWorker(transaction, worker, end));
    const isNews = row === null || (await endWorker(transaction, row, worker, end));
    const unknown = await selectUnknown(transaction, runs);
    const taker = { spoolWorkerId: id, workerId, at };
    for (const run of unknown) await insertRun(transaction, taker, run);
    const count = unknown.length + endedInLog;
    if (count > 0 || isNews) {
      const detail = describe(count, worker.reason);
      await recordActivity(transaction, { at, event: 'spool-taken-in', workerId, detail });
    }
    return unknown.length;
  });
}

function describe(count: number, reason: string): string {
  const what = count === 0 ? 'a pass' : count === 1 ? '1 run' : `${count} runs`;
  return `${what} that ${count > 1 ? 'were' : 'was'} recorded without the log, because ${reason}`;
}

/** The worker's row: it had begun in the log, or some of its runs have been taken in before. */
async function findWorker(
  db: Database,
  { kind, tier, identity, startedAt }: SpoolHeader,
): Promise<WorkerRow | null> {
  const row = await db
    .selectFrom('workers')
    .selectAll()
    .where('tier', 'is', tier)
    .where('started_at', '=', startedAt)
    .where('kind', '=', kind)
    .where('host', '=', identity.host)
    .where('boot_id', 'is', identity.bootId)
    .where('pid', '=', identity.pid)
    .where('pid_start_ticks', 'is', identity.startTicks)
    .executeTakeFirst();
  return row ?? null;
}

async function insertWorker(
  db: Database,
  worker: SpoolHeader,
  end: SpoolWorkerEnd,
): Promise<number> {
  const { id } = await db
    .insertInto('workers')
    .values({
      kind: worker.kind,
      tier: worker.tier,
      host: worker.identity.host,
      boot_id: worker.identity.bootId,
      pid: worker.identity.pid,
      pid_start_ticks: worker.identity.startTicks,
      scheduled_for: worker.scheduledFor,
      started_at: worker.startedAt,
      called_by: worker.calledBy,
      runner_version: worker.runnerVersion,
      node_version: worker.nodeVersion,
      ...endColumns(worker, end),
    })
    .returning('id')
    .executeTakeFirstOrThrow();
  return id;
}

/** What the worker said of itself counts more than that it was found dead. */
async function endWorker(
  db: Database,
  { id, state }: WorkerRow,
  worker: SpoolHeader,
  end: SpoolWorkerEnd,
): Promise<boolean> {
  if (state !== 'running' && !(state === 'crashed' && end.state === 'finished')) return false;
  await db.updateTable('workers').set(endColumns(worker, end)).where('id', '=', id).execute();
  return true;
}

function endColumns({ reason: cause }: SpoolHeader, end: SpoolWorkerEnd) {
  const without = `it ran without the log, because ${cause}`;
  const reason = end.reason === null ? without : `${end.reason}; ${without}`;
  return { state: end.state, finished_at: end.finishedAt, reason };
}

async function selectUnknown(
  db: Database,
  runs: readonly EndedSpoolRun[],
): Promise<EndedSpoolRun[]> {
  if (runs.length === 0) return [];
  const known = await selectKnown(db, runs);
  return runs.filter(({ spoolId }) => !known.has(spoolId) && known.add(spoolId));
}

/** Those of the runs that the log has, by their spool ids. */
export async function selectKnown(
  db: Database,
  runs: readonly SpoolRun[],
): Promise<Set<string | null>> {
  const ids = runs.map(({ spoolId }) => spoolId);
  const rows = await db
    .selectFrom('runs')
    .select('spool_id')
    .where('spool_id', 'in', ids)
    .execute();
  return new Set(rows.map((row) => row.spool_id));
}

async function insertRun(db: Database, taker: Taker, ended: EndedSpoolRun): Promise<void> {
  const { run, script, tier, scheduledFor, startedAt } = ended;
  const job = (await endOpenJob(db, taker, ended)) ?? (await insertJob(db, taker, ended));
  await db
    .insertInto('runs')
    .values({
      ...run,
      job_id: job.id,
      worker_id: taker.spoolWorkerId,
      script,
      tier,
      attempt: job.attempts,
      scheduled_for: scheduledFor,
      started_at: startedAt,
      timeout_ms: ended.timeoutMs,
      content_hash: ended.contentHash,
      spool_id: ended.spoolId,
    })
    .execute();
}

interface Job {
  readonly id: number;
  readonly attempts: number;
}

/** Null: it has no job in this log, or that has been run by another worker meanwhile. */
async function endOpenJob(
  db: Database,
  { spoolWorkerId, workerId, at }: Taker,
  { jobId, run, script, startedAt }: EndedSpoolRun,
): Promise<Job | null> {
  const open = await selectOpenJob(db, { id: jobId, name: script, startedAt });
  if (open === null) return null;
  const { outcome, reason } = run;
  const attempts = open.attempts + 1;
  const isRetryable = outcome !== 'not-started';
  const verdict = judgeTry(open, { outcome, attempt: attempts, isRetryable, at });
  const columns = {
    attempts,
    claimed_by: spoolWorkerId,
    reason,
    ...toJobColumns(verdict, { endedAt: endOf(run, startedAt), attempt: attempts }),
  };
  await db.updateTable('jobs').set(columns).where('id', '=', open.id).execute();
  const event = `job-${verdict.state}` as const;
  await recordActivity(db, { at, event, workerId, jobId: open.id, detail: reason });
  return { id: open.id, attempts };
}

interface SoughtJob {
  readonly id: number | null;
  readonly name: string;
  /** When it was run. In a log made anew, another job of that number is younger. */
  readonly startedAt: number;
}

async function selectOpenJob(db: Database, { id, name, startedAt }: SoughtJob) {
  if (id === null) return null;
  const row = await db
    .selectFrom('jobs')
    .select(['id', 'attempts', 'max_attempts as maxAttempts', 'retry_delay_ms as retryDelayMs'])
    .select(['retry_factor as retryFactor', 'retry_longest_ms as retryLongestMs'])
    .select('on_crash as onCrash')
    .where('id', '=', id)
    .where('name', '=', name)
    .where('created_at', '<=', startedAt)
    .where('state', 'in', ['queued', 'retrying'])
    .where('tier', 'is not', null)
    .$narrowType<{ maxAttempts: number; retryDelayMs: number }>()
    .executeTakeFirst();
  return row ?? null;
}

/** Without the log there was nothing that could have tried it again. */
async function insertJob(
  db: Database,
  { spoolWorkerId }: Taker,
  { run, script, tier, attempt, scheduledFor, startedAt }: EndedSpoolRun,
): Promise<Job> {
  return await db
    .insertInto('jobs')
    .values({
      name: script,
      tier,
      state: run.outcome === 'succeeded' ? 'finished' : 'failed',
      scheduled_for: scheduledFor,
      run_at: startedAt,
      attempts: attempt,
      max_attempts: attempt,
      claimed_by: spoolWorkerId,
      created_at: startedAt,
      finished_at: endOf(run, startedAt),
      reason: run.reason,
    })
    .returning(['id', 'attempts'])
    .executeTakeFirstOrThrow();
}

/** A job without an end is open, and would be run again. */
function endOf(run: FinishedRun, startedAt: number): number {
  return run.finished_at ?? startedAt;
}
