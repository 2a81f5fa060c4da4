import type { QueueSettings } from '../config/settings.ts';
import type { Database } from '../store/open-store.ts';
import { chooseJob } from './choose-job.ts';
import { claimJobs, type QueueSelection } from './claim-jobs.ts';
import { invalid, readDurationMs, readLeaseMs } from './job-values.ts';
import { endExpiredLeases } from './leases.ts';
import { type Patterns, readPatterns } from './name-patterns.ts';
import { selectNextWake } from './next-wake.ts';
import { selectPausedPatterns } from './pauses.ts';
import type { ClaimedJob, ClaimOptions } from './queue.ts';
import type { QueueLog } from './queue-log.ts';
import { matchAny } from './sqlite-glob.ts';
import { tellClaim } from './tell-claim.ts';

/** What a claim is made with, whoever asks for it. */
export interface Claimer {
  readonly log: QueueLog;
  readonly settings: QueueSettings;
  readonly now: () => number;
}

interface Wanted {
  readonly patterns: readonly string[];
  readonly count: number;
  readonly leaseMs: number | undefined;
}

const MOST_AT_ONCE = 1_000;

/** Takes jobs for somebody who is no worker of the runner; waits for the first one, if asked to. */
export async function claimForCaller(
  claimer: Claimer,
  patterns: Patterns,
  count: number,
  { wait, lease, signal }: ClaimOptions,
): Promise<ClaimedJob[]> {
  const wanted = {
    patterns: readPatterns(patterns),
    count: readCount(count),
    leaseMs: lease === undefined ? undefined : readLeaseMs(lease),
  };
  const { log, now } = claimer;
  const deadline = wait === undefined ? null : now() + readDurationMs('The wait', wait);
  for (;;) {
    const sleep = log.watch();
    const claimed = await log.ask((db) => claimNow(claimer, db, wanted));
    const isOver = deadline === null || now() >= deadline || signal?.aborted === true;
    if (claimed.length > 0 || isOver) return claimed;
    const wake = await log.ask((db) => selectNextWake(db, now()));
    await sleep(Math.min(deadline, wake ?? deadline), signal);
  }
}

function readCount(count: unknown): number {
  const isCount = Number.isInteger(count) && Number(count) >= 1 && Number(count) <= MOST_AT_ONCE;
  if (isCount) return count as number;
  throw invalid('How many are claimed', `a whole number from 1 to ${MOST_AT_ONCE}`, count);
}

async function claimNow(
  { settings, now }: Claimer,
  db: Database,
  { patterns, count, leaseMs }: Wanted,
): Promise<ClaimedJob[]> {
  await endExpiredLeases(db, now, settings.missedCap);
  const at = now();
  const selection = await selectionOf(db, patterns, { at, groupLimit: settings.groupLimit });
  // Who waits looks often, and mostly in vain: that takes no lock.
  if ((await chooseJob(db, selection, at)) === null) return [];
  const claiming = {
    workerId: null,
    at,
    defaultLeaseMs: settings.leaseMs,
    handlerOf: () => null,
    ...(leaseMs !== undefined && { leaseMs }),
  };
  const claimed = await claimJobs(db, selection, claiming, count);
  return await Promise.all(claimed.map((each) => tellClaim(db, each)));
}

async function selectionOf(
  db: Database,
  patterns: readonly string[],
  { at, groupLimit }: { readonly at: number; readonly groupLimit: number | null },
): Promise<QueueSelection> {
  const { paused, fused } = await selectPausedPatterns(db, at);
  return {
    groupLimit,
    isWanted: (name) => matchAny(patterns, name) && !matchAny(paused, name),
    isFused: (name) => matchAny(fused, name),
  };
}
