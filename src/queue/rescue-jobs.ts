import { sql } from 'kysely';
import type { HandlerAsk } from '../child/handler-contract.ts';
import { defaultSettings } from '../config/settings.ts';
import type { Database } from '../store/open-store.ts';
import type { FinishedRun, WorkerState } from '../store/schema.ts';
import { isStoreFailure } from '../store/store-failure.ts';
import type { Claim } from './claim-job.ts';
import { recordEnd } from './end-queued-run.ts';
import { finishJob } from './finish-job.ts';
import type { RetryPolicy } from './retry-policy.ts';

export interface Rescue {
  readonly at: number;
  /** Whether what lives may be ended at its time limit: not by who only looks. */
  readonly mayTerminate: boolean;
  /** How many missed times of a repeating job are made up for. Default: that of the settings. */
  readonly missedCap?: number;
  /** Told of what could not be recorded as it was, one sentence each. */
  readonly onRefused?: (sentence: string) => void;
}

/** A run that has not ended as far as the log knows, and by what its process and its runner can be told. */
export interface OpenRun {
  readonly id: number;
  readonly jobId: number;
  readonly workerId: number;
  readonly script: string;
  readonly startedAt: number;
  readonly timeoutMs: number | null;
  readonly pid: number | null;
  readonly startTicks: number | null;
  /** The most memory it was seen with. */
  readonly maxRssBytes: number | null;
  readonly host: string;
  readonly bootId: string | null;
  readonly runnerPid: number;
  /** Whether the log believes its runner to be at work. */
  readonly runnerState: WorkerState;
  readonly claim: Claim;
  readonly policy: RetryPolicy;
  /** Whether its job is one of the queue. */
  readonly isQueued: boolean;
}

/** What is known of the end of a lost run; of a handler's also what it gave back or asked for. */
export interface LostEnd {
  readonly run: FinishedRun;
  readonly result: string | null;
  readonly ask: HandlerAsk | null;
}

/** How a lost run ended; null: its process outlived its runner and still runs. */
export type EndLostRun = (run: OpenRun) => Promise<LostEnd | null>;

export interface Rescued {
  readonly ended: readonly OpenRun[];
  /** They outlived their runner: their scripts are not to be started a second time. */
  readonly alive: readonly OpenRun[];
}

/** Ends runs whose runner is gone, each by what is known of it. */
export async function rescueJobs(
  db: Database,
  lost: readonly OpenRun[],
  { at, missedCap = defaultSettings.queue.missedCap, onRefused = () => {} }: Rescue,
  endLostRun: EndLostRun,
): Promise<Rescued> {
  const ended: OpenRun[] = [];
  const alive: OpenRun[] = [];
  for (const lostRun of lost) {
    const end = await endLostRun(lostRun);
    if (end === null) alive.push(lostRun);
    else if (await tellEndIfPossible(lostRun, end)) ended.push(lostRun);
  }
  return { ended, alive };

  /** What is wrong with one of them must not keep the others, nor all commands, from going on. */
  async function tellEndIfPossible(lostRun: OpenRun, end: LostEnd): Promise<boolean> {
    try {
      return await tellEnd(lostRun, end);
    } catch (error) {
      if (isStoreFailure(error)) throw error;
      onRefused(`the end of run ${lostRun.id} cannot be recorded: ${(error as Error).message}`);
      return false;
    }
  }

  async function tellEnd({ claim, policy, isQueued }: OpenRun, end: LostEnd): Promise<boolean> {
    const teller = { workerId: null, toldAt: at, missedCap, onRefused };
    const told = { claim, isRetryable: true, ...end };
    const verdict = isQueued
      ? await recordEnd((work) => db.transaction().execute(work), told, teller)
      : await finishJob(db, { ...told, policy }, teller);
    return verdict !== null;
  }
}

/** Every run that the log believes to go on. */
export async function selectOpenRuns(db: Database): Promise<OpenRun[]> {
  const rows = await db
    .selectFrom('runs')
    .innerJoin('workers', 'workers.id', 'runs.worker_id')
    .innerJoin('jobs', 'jobs.id', 'runs.job_id')
    .select(['runs.id', 'runs.job_id as jobId', 'runs.worker_id as workerId', 'runs.script'])
    .select(['runs.started_at as startedAt', 'runs.timeout_ms as timeoutMs', 'runs.attempt'])
    .select(['runs.pid', 'runs.pid_start_ticks as startTicks', 'runs.max_rss_bytes as maxRssBytes'])
    .select(['workers.host', 'workers.boot_id as bootId', 'workers.pid as runnerPid'])
    .select(['workers.state as runnerState', 'jobs.claim_token as token'])
    .select(['jobs.max_attempts as maxAttempts', 'jobs.retry_delay_ms as retryDelayMs'])
    .select(['jobs.retry_factor as retryFactor', 'jobs.retry_longest_ms as retryLongestMs'])
    .select(['jobs.on_crash as onCrash', 'jobs.tier as jobTier'])
    // Written out, not bound: only so the partial index `runs_running` answers it.
    .where('runs.outcome', '=', sql.lit('running'))
    .$narrowType<{ token: string; workerId: number; maxAttempts: number; retryDelayMs: number }>()
    .execute();
  return rows.map(({ attempt, token, jobTier, ...row }) => ({
    ...row,
    isQueued: jobTier === null,
    claim: { id: row.jobId, token, runId: row.id, startedAt: row.startedAt, attempt },
    policy: row,
  }));
}
