import type { QueueSettings } from '../config/settings.ts';
import type { Database } from '../store/open-store.ts';
import { chooseJob } from './choose-job.ts';
import { claimJobs, type QueueSelection } from './claim-jobs.ts';
import { invalid, readDelayMs, readLeaseMs } from './job-values.ts';
import { endExpiredLeases } from './leases.ts';
import { type Patterns, readPatterns } from './name-patterns.ts';
import { selectNextWake } from './next-wake.ts';
import { selectPausedPatterns } from './pauses.ts';
import type { ClaimedJob, ClaimOptions } from './queue.ts';
import type { QueueLog } from './queue-log.ts';
import { matchAny } from './sqlite-glob.ts';
import type { JsonReader } from './stored-json.ts';
import { tellClaim } from './tell-claim.ts';

/** What a claim is made with, whoever asks for it. */
export interface Claimer {
  readonly log: QueueLog;
  readonly settings: QueueSettings;
  readonly now: () => number;
  readonly read: JsonReader;
}

interface Wanted {
  readonly patterns: readonly string[];
  readonly count: number;
  readonly leaseMs: number | undefined;
  readonly waits: boolean;
}

const MOST_AT_ONCE = 1_000;

/** Takes jobs for somebody who is no worker of the runner; waits for the first one, if asked to. */
export async function claimForCaller(
  claimer: Claimer,
  patterns: Patterns,
  count: number,
  { wait, lease, signal }: ClaimOptions,
): Promise<ClaimedJob[]> {
  const waitMs = wait === undefined ? 0 : readDelayMs('The wait', wait);
  const wanted = {
    patterns: readPatterns(patterns),
    count: readCount(count),
    leaseMs: lease === undefined ? undefined : readLeaseMs(lease),
    waits: waitMs > 0,
  };
  const { log, now } = claimer;
  const deadline = now() + waitMs;
  for (;;) {
    const sleep = log.watch();
    const { claimed, wakeAt } = await log.ask((db) => claimNow(claimer, db, wanted));
    if (claimed.length > 0) log.found();
    const isOver = waitMs === 0 || now() >= deadline || signal?.aborted === true;
    if (claimed.length > 0 || isOver) return claimed;
    if (!(await sleep(Math.min(deadline, wakeAt ?? deadline), signal))) return [];
  }
}

function readCount(count: unknown): number {
  const isCount = Number.isInteger(count) && Number(count) >= 1 && Number(count) <= MOST_AT_ONCE;
  if (isCount) return count as number;
  throw invalid('How many are claimed', `a whole number from 1 to ${MOST_AT_ONCE}`, count);
}

interface Look {
  readonly claimed: ClaimedJob[];
  /** When it is worth another look, though nobody has changed the log; null: never. */
  readonly wakeAt: number | null;
}

async function claimNow(claimer: Claimer, db: Database, wanted: Wanted): Promise<Look> {
  const { settings, now, read } = claimer;
  await endExpiredLeases(db, now, settings);
  const at = now();
  const { groupLimit } = settings;
  const select = (asked: Database) => selectionOf(asked, wanted.patterns, { at, groupLimit });
  // Who waits looks often, and mostly in vain: that takes no lock.
  if ((await chooseJob(db, await select(db), at)) === null) {
    return { claimed: [], wakeAt: wanted.waits ? await selectNextWake(db, at) : null };
  }
  const claiming = {
    workerId: null,
    at,
    defaultLeaseMs: settings.leaseMs,
    handlerOf: () => null,
    ...(wanted.leaseMs !== undefined && { leaseMs: wanted.leaseMs }),
  };
  const rows = await claimJobs(db, select, claiming, wanted.count);
  // Somebody else was sooner, or all were fused: there may be others.
  if (rows.length === 0) return { claimed: [], wakeAt: at };
  const claimed = await Promise.all(rows.map((row) => tellClaim(db, row, read)));
  return { claimed, wakeAt: null };
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
