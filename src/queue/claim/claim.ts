import type { JobRow } from '../../store/schema.ts';
import { queryRaw } from '../../store/sqlite/queries.ts';
import type { Database } from '../../store/store.ts';
import type { RetryPolicy } from '../settle/retry-policy.ts';
import { selectJob } from '../settle/settle-run.ts';
import { endJob } from '../settle/transition.ts';
import { chooseJob, type JobSelection } from './choose.ts';
import type { Claim } from './script-claim.ts';

export interface QueueSelection extends JobSelection {
  /** Whether a fuse is set on jobs of this name: then they fail instead of being taken. */
  isFused(name: string): boolean;
}

/** How jobs of a name are run by who claims them. */
export interface ClaimHandlerFacts {
  readonly policy: RetryPolicy;
  readonly timeoutMs: number | null;
  readonly contentHash: string | null;
  /** Whether the child that waits is going to serve it. */
  readonly isWarm: boolean;
}

export interface QueueClaiming {
  /** Null: somebody who is no worker of the runner. */
  readonly workerId: number | null;
  /** UTC epoch milliseconds. */
  readonly at: number;
  /** Overrides the job's own. */
  readonly leaseMs?: number;
  readonly defaultLeaseMs: number;
  /** Null: whoever claims knows nothing of a handler. */
  handlerOf(name: string): ClaimHandlerFacts | null;
  /** The child that is going to serve it, where there is one already. */
  readonly child?: WaitingChild;
}

/** A child that waits for its next job. */
export interface WaitingChild {
  readonly pid: number;
  readonly startTicks: number | null;
}

/** A claimed job of the queue, as its row is now. */
export interface ClaimedRow {
  readonly job: JobRow;
  readonly claim: Claim;
  /** As its run has it; null: whoever claimed it set none. */
  readonly timeoutMs: number | null;
  /** Whether it has children that it is to be told of. */
  readonly hasEndedChildren: boolean;
}

/**
 * Takes the jobs that are next, up to so many, in one transaction with their runs.
 *
 * @param select asked in that transaction: what was paused while it waited for the log's lock counts
 */
export async function claimJobs(
  db: Database,
  select: (db: Database) => Promise<QueueSelection>,
  claiming: QueueClaiming,
  count: number,
): Promise<ClaimedRow[]> {
  return await db.transaction().execute(async (transaction) => {
    const selection = await select(transaction);
    const claimed: ClaimedRow[] = [];
    const fuses = { left: MOST_FUSED };
    while (claimed.length < count) {
      const next = await claimNext(transaction, selection, claiming, fuses);
      if (next === null) break;
      claimed.push(next);
    }
    return claimed;
  });
}

/** So many fused jobs fail in one transaction: nobody else can write meanwhile. */
const MOST_FUSED = 500;

/**
 * To be called in a transaction. Null: none is due, or so much was fused that it is worth another look.
 *
 * @param fuses how many fused jobs may still fail in this transaction
 */
export async function claimNext(
  db: Database,
  selection: QueueSelection,
  claiming: QueueClaiming,
  fuses = { left: MOST_FUSED },
): Promise<ClaimedRow | null> {
  for (;;) {
    const among = fuses.left > 0 ? selection : withoutFused(selection);
    const next = await chooseJob(db, among, claiming.at);
    if (next === null) return null;
    if (!selection.isFused(next.name)) return await take(db, next, claiming);
    await failFused(db, next.id, claiming);
    fuses.left -= 1;
  }
}

function withoutFused({ groupLimit, isWanted, isFused }: QueueSelection): JobSelection {
  return { groupLimit, isWanted: (name) => isWanted(name) && !isFused(name) };
}

/** What the job does not say itself, its handler says, each time as it says then. */
const isDelayOfHandler = '(retry_delay_ms is null or delay_by_handler)';
const areRetriesOfHandler = '(max_attempts is null or retries_by_handler)';

const claimText = `update jobs set state = 'running', started_at = ?, attempts = attempts + 1,
  reserves = reserves + 1, claimed_by = ?, claim_token = ? || ':' || (reserves + 1),
  leased_until = ? + coalesce(?, lease_ms, ?), reason = null,
  scheduled_for = coalesce(scheduled_for, run_at),
  retry_factor = case when ${isDelayOfHandler} then ? else retry_factor end,
  retry_longest_ms = case when ${isDelayOfHandler} then ? else retry_longest_ms end,
  retry_delay_ms = case when ${isDelayOfHandler} then ? else retry_delay_ms end,
  delay_by_handler = ${isDelayOfHandler},
  max_attempts = case when ${areRetriesOfHandler} then ? else max_attempts end,
  retries_by_handler = ${areRetriesOfHandler}, on_crash = ?
  where id = ? returning *, exists (select 1 from jobs child where child.parent_id = jobs.id
    and child.is_told = 0 and child.finished_at is not null) as has_ended_children`;

const addRunText = `insert into runs (job_id, worker_id, script, tier, attempt, outcome, scheduled_for,
  started_at, timeout_ms, content_hash, pid, pid_start_ticks)
  values (?, ?, ?, 'queue', ?, 'running', ?, ?, ?, ?, ?, ?) returning id`;

const tellText = `insert into activity (at, worker_id, job_id, run_id, event)
  values (?, ?, ?, ?, 'job-running')`;

async function take(
  db: Database,
  { id, name }: { readonly id: number; readonly name: string },
  claiming: QueueClaiming,
): Promise<ClaimedRow> {
  const { workerId, at, leaseMs = null, defaultLeaseMs } = claiming;
  const handler = claiming.handlerOf(name);
  const policy = handler?.policy;
  const [row] = (await queryRaw<JobRow & { has_ended_children: number }>(db, claimText, [
    ...[at, workerId, tokenStart(workerId), at, leaseMs, defaultLeaseMs],
    ...[policy?.retryFactor ?? 1, policy?.retryLongestMs ?? 60_000],
    ...[policy?.retryDelayMs ?? null, policy?.maxAttempts ?? null, policy?.onCrash ?? null, id],
  ])) as [JobRow & { has_ended_children: number }];
  const { has_ended_children, ...job } = row;
  const runId = await addRun(db, job, claiming, handler);
  await queryRaw(db, tellText, [at, workerId, id, runId]);
  const claim = {
    id,
    token: job.claim_token as string,
    runId,
    startedAt: at,
    attempt: job.attempts,
  };
  const timeoutMs = handler?.timeoutMs ?? null;
  return { job, claim, timeoutMs, hasEndedChildren: has_ended_children === 1 };
}

/**
 * No other claim of this job can have the token: a worker's number is its own, and `reserves` only
 * grows. Who is no worker gets one that cannot be guessed from the log's other rows.
 */
function tokenStart(workerId: number | null): string {
  return workerId === null ? crypto.randomUUID() : String(workerId);
}

async function addRun(
  db: Database,
  job: JobRow,
  { workerId, at, child: waiting }: QueueClaiming,
  handler: ClaimHandlerFacts | null,
): Promise<number> {
  const child = handler?.isWarm ? waiting : undefined;
  const [run] = (await queryRaw<{ id: number }>(db, addRunText, [
    ...[job.id, workerId, `queue/${job.name}`, job.attempts, job.scheduled_for, at],
    ...[handler?.timeoutMs ?? null, handler?.contentHash ?? null],
    ...[child?.pid ?? null, child?.startTicks ?? null],
  ])) as [{ id: number }];
  return run.id;
}

async function failFused(db: Database, id: number, claiming: QueueClaiming): Promise<void> {
  const { at, workerId } = claiming;
  const reason = 'a fuse is set on jobs of its name';
  const facts = { at, workerId, reason, missedCap: 1 };
  await endJob(db, await selectJob(db, id), { kind: 'fail' }, facts);
}
