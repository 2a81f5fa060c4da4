import {
  beginRun,
  claimJobs,
  type QueueClaim,
  type QueueSelection,
  releaseClaims,
} from '../../../src/queue/claim/claim.ts';
import type { Archive } from '../../../src/queue/settle/archive.ts';
import { policyOf } from '../../../src/queue/settle/retry-policy.ts';
import { type RunToSettle, type Settled, settleRuns } from '../../../src/queue/settle/settle.ts';
import type { ScriptOptions } from '../../../src/settings/settings.ts';
import type { FinishedRun } from '../../../src/store/schema.ts';
import type { RunStart } from '../../../src/store/shared/run-rows.ts';
import type { ClaimedRow } from '../../../src/store/statements/claims.ts';
import type { Store } from '../../../src/store/store.ts';
import { identifyProcess } from '../../../src/system/process/identity.ts';
import { makeFinishedRun } from '../../support/log.ts';
import type { TestQueue } from '../../support/queue.ts';

export const LEASE_MS = 60_000;

export const everything: QueueSelection = {
  groupLimit: null,
  isWanted: () => true,
  failsFast: () => false,
};

/** Begins a worker of the queue: this process, unless it is said to be another. */
export function startWorker(store: Store, at: number, pid = process.pid): Promise<number> {
  const worker = {
    ...({ kind: 'queue', tier: null, ...identifyProcess(pid), trigger: 'manual' } as const),
    ...{ scheduledFor: null, startedAt: at, runnerVersion: '0.1.0', nodeVersion: '24' },
  };
  return store.transaction((session) => session.workers.start(worker));
}

type Claiming = Partial<Omit<QueueClaim, 'count'>>;

/** What a worker of the queue asks of the log, step by step: it claims first, and begins later. */
export interface WorkerClaims {
  readonly workerId: number;
  claim(count?: number, claiming?: Claiming): Promise<ClaimedRow[]>;
  /** The one job that is there. */
  claimOne(claiming?: Claiming): Promise<ClaimedRow>;
  /** Records that it goes on: from then on it has a row in `runs`, whose number this is. */
  begin(job: ClaimedRow): Promise<number>;
  settle(job: ClaimedRow, end?: Partial<FinishedRun>, more?: Settling): Promise<Settled>;
  /** All of them have succeeded; in one commit. */
  settleTogether(jobs: readonly ClaimedRow[]): Promise<Settled[]>;
  release(job: ClaimedRow): Promise<void>;
  renew(): Promise<void>;
}

interface Settling extends Partial<Omit<RunToSettle, 'claim' | 'start' | 'end' | 'policy'>> {
  readonly archive?: Archive;
}

interface Working {
  /** What the handler says of itself. */
  readonly options?: ScriptOptions;
  readonly missedCap?: number;
}

export async function openWorker(
  { store, clock }: Pick<TestQueue, 'store' | 'clock'>,
  { options = {}, missedCap = 10 }: Working = {},
): Promise<WorkerClaims> {
  const workerId = await startWorker(store, clock.at);
  let claims = 0;
  const begun = new Map<string, number>();
  const claim: WorkerClaims['claim'] = (count = 1, claiming = {}) =>
    store.transaction((session) =>
      claimJobs(session, {
        ...{ selection: everything, count, at: clock.at, leaseMs: null, defaultLeaseMs: LEASE_MS },
        ...{ state: 'claimed', missedCap, newToken: () => `${workerId}.${++claims}` },
        ...claiming,
      }),
    );
  const startOf = ({ id, name, claim_token, attempts, scheduled_for }: ClaimedRow): RunStart => ({
    ...{ jobId: id, workerId, key: claim_token, script: `queue/${name}`, contentHash: null },
    ...{ attempt: attempts + 1, scheduledFor: scheduled_for, startedAt: clock.at, timeoutMs: 7_000 },
  });
  const endOf = (job: ClaimedRow, end: Partial<FinishedRun> = {}): RunToSettle => ({
    ...{ claim: { id: job.id, token: job.claim_token }, start: startOf(job) },
    ...{ runId: begun.get(job.claim_token) ?? null, result: null, decision: null },
    ...{ isRetryable: true, policy: policyOf(options) },
    // As the recorder of a worker does.
    ...(store.fleet !== null && { claimed: job }),
    end: makeFinishedRun({ finished_at: clock.at, ...end }),
  });
  return {
    workerId,
    claim,
    claimOne: async (claiming) => {
      const [job] = await claim(1, claiming);
      if (job === undefined) throw new Error('There is none.');
      return job;
    },
    begin: async (job) => {
      const ref = { id: job.id, token: job.claim_token };
      const run = { ...startOf(job), pid: null, startTicks: null, maxRssBytes: null };
      const runId = await store.transaction((session) => beginRun(session, ref, run));
      if (runId === null) throw new Error('Its claim was lost.');
      begun.set(job.claim_token, runId);
      return runId;
    },
    settle: async (job, end = {}, { archive, ...more } = {}) => {
      const run = { ...endOf(job, end), ...more };
      const context = { missedCap, ...(archive !== undefined && { archive }) };
      const [settled] = await store.transaction((session) => settleRuns(session, [run], context));
      return settled as Settled;
    },
    settleTogether: (jobs) =>
      store.transaction((session) =>
        settleRuns(
          session,
          jobs.map((job) => endOf(job)),
          { missedCap },
        ),
      ),
    release: (job) =>
      store.transaction((session) => releaseClaims(session, [{ id: job.id, token: job.claim_token }], clock.at)),
    renew: () =>
      store.transaction(async (session) => {
        await session.claims.renew(workerId, clock.at, LEASE_MS);
      }),
  };
}
