import { readdirSync } from 'node:fs';
import type { Kysely } from 'kysely';
import type { StateFolder } from '../config/state-folder.ts';
import { compareBytes } from '../discovery/byte-order.ts';
import { selectPauses } from '../queue/pauses.ts';
import { readUsualDuration } from '../queue/usual-duration.ts';
import type { ActivityLog } from '../store/schema.ts';
import { hasSpool } from '../store/spool/spool-files.ts';
import { readQueueStatus } from './read-queue-status.ts';
import { selectRunning } from './select-running.ts';
import { selectWaiting } from './select-waiting.ts';
import type { Status, StatusRun } from './status.ts';
import { findHolders, readTierState, type TierState } from './tier-state.ts';

export interface StatusQuery {
  readonly db: Kysely<ActivityLog>;
  /** Where the runner writes, and where it does if it cannot there. */
  readonly states: readonly StateFolder[];
  /** The tiers of `jobs/`. */
  readonly tiers: readonly string[];
  /** The names of the handlers in `jobs/queue/`. */
  readonly handlers: readonly string[];
  readonly nowMs: number;
  /** There is a log, and it could not be read. */
  readonly isLogUnread: boolean;
}

/** Reads everything that `runner status` shows. */
export async function readStatus(query: StatusQuery): Promise<Status> {
  const { db, states, tiers, handlers, nowMs, isLogUnread } = query;
  const holders = await findHolders(db, states, tiers);
  const pauses = await selectPauses(db, nowMs);
  const facts = { holders, pauses, nowMs };
  const tierStates: TierState[] = [];
  for (const tier of tiers) tierStates.push(await readTierState(db, tier, facts));
  return {
    atMs: nowMs,
    running: await readRunning(db),
    holders,
    waiting: await selectWaiting(db, holders),
    pauses,
    queue: await readQueueStatus(db, { handlers, nowMs }),
    tiers: tierStates.toSorted(byPeriod),
    isLogUnread,
    hasSpool: states.some(hasSpool),
    setAside: states.flatMap(({ path }) => findSetAside(path)),
  };
}

function byPeriod(one: TierState, other: TierState): number {
  return (one.periodMs ?? Infinity) - (other.periodMs ?? Infinity);
}

async function readRunning(db: Kysely<ActivityLog>): Promise<StatusRun[]> {
  const runs: StatusRun[] = [];
  for (const run of await selectRunning(db)) {
    runs.push({ ...run, usualDurationMs: await readUsualDuration(db, run.script) });
  }
  return runs;
}

/** `activity.db.broken-<time>`, without what belongs to it. */
function findSetAside(folder: string): string[] {
  try {
    return readdirSync(folder).filter(isSetAside).toSorted(compareBytes);
  } catch {
    // Nothing has ever run here.
    return [];
  }
}

function isSetAside(name: string): boolean {
  return name.startsWith('activity.db.broken-') && !/-(?:wal|shm|journal)$/.test(name);
}
