import { isSameProcess, type Liveness, type ProcessIdentity } from '../process/identity.ts';
import { recordActivity } from '../store/events.ts';
import type { CalledBy, WorkerKind, WorkerRow } from '../store/schema.ts';
import type { Database } from '../store/store.ts';
import { type DeadHolder, describeDead, describeHolder, type LockHolder } from './holder.ts';

/** Who asks for a tier, and what for. */
export interface WorkerRequest extends NewWorker {
  readonly tier: string;
}

/** A worker as it begins. */
export interface NewWorker {
  readonly kind: WorkerKind;
  /** Null: it works jobs of the queue off. */
  readonly tier: string | null;
  readonly self: ProcessIdentity;
  readonly scheduledFor: number | null;
  readonly startedAt: number;
  readonly calledBy: CalledBy;
  readonly runnerVersion: string;
}

export type TierSlot =
  | { readonly free: true; readonly workerId: number; readonly takenOverFrom: string | null }
  | { readonly free: false; readonly reason: string };

/**
 * The second guard of the tier lock: the worker's row, inserted in one immediate transaction and
 * only if no live worker has the tier. A dead one is marked as crashed on the way.
 *
 * @param deadHolders whom the lock file was taken over from
 */
export function takeTierSlot(
  db: Database,
  request: WorkerRequest,
  deadHolders: readonly DeadHolder[],
  checkWorker: (worker: WorkerRow) => Liveness,
): Promise<TierSlot> {
  const { tier, startedAt: at } = request;
  return db.transaction().execute(async (transaction) => {
    const worker = await selectRunningWorker(transaction, tier);
    if (worker !== undefined && checkWorker(worker) !== 'dead') {
      const reason = `another pass of ${tier} is running: ${describeHolder(holderOf(worker))}`;
      await insertSkipped(transaction, request, reason);
      return { free: false, reason };
    }
    if (worker !== undefined) await markCrashed(transaction, worker, at);
    const workerId = await insertRunning(transaction, request);
    const dead = addWorker(deadHolders, worker).map((each) => describeDead(each, at));
    for (const each of dead) {
      const detail = `took ${tier} over from ${each}`;
      await recordActivity(transaction, { at, event: 'lock-taken-over', workerId, detail });
    }
    return { free: true, workerId, takenOverFrom: dead.join(' and ') || null };
  });
}

/** The process of a worker, as the holder of its tier. */
export function holderOf(worker: WorkerRow): LockHolder {
  return {
    host: worker.host,
    bootId: worker.boot_id,
    pid: worker.pid,
    startTicks: worker.pid_start_ticks,
    since: worker.started_at,
  };
}

/** A dead worker is one of those that left the lock file, or its lock file is gone already. */
function addWorker(dead: readonly DeadHolder[], worker?: WorkerRow): readonly DeadHolder[] {
  if (worker === undefined) return dead;
  const holder = holderOf(worker);
  if (dead.some((each) => isSameProcess(each.holder, holder))) return dead;
  return [...dead, { holder, lastSeenAt: holder.since }];
}

/** At most one: a unique index sees to it. */
function selectRunningWorker(db: Database, tier: string): Promise<WorkerRow | undefined> {
  return db
    .selectFrom('workers')
    .selectAll()
    .where('tier', '=', tier)
    .where('state', '=', 'running')
    .executeTakeFirst();
}

/** Ends the row of a worker whose process is gone. */
export async function markCrashed(db: Database, worker: WorkerRow, at: number): Promise<void> {
  const reason = 'its process has gone without finishing';
  const { numUpdatedRows } = await db
    .updateTable('workers')
    .set({ state: 'crashed', finished_at: at, reason })
    .where('id', '=', worker.id)
    // Somebody else may have found it dead at the same time: it is told once.
    .where('state', '=', 'running')
    .executeTakeFirst();
  if (numUpdatedRows === 0n) return;
  await recordActivity(db, { at, event: 'worker-crashed', workerId: worker.id, detail: reason });
}

export async function insertRunning(db: Database, request: NewWorker): Promise<number> {
  const { id } = await db
    .insertInto('workers')
    .values({ ...toRow(request), state: 'running', finished_at: null, reason: null })
    .returning('id')
    .executeTakeFirstOrThrow();
  await recordActivity(db, { at: request.startedAt, event: 'worker-started', workerId: id });
  return id;
}

/** Records a call that did not get to run the tier. */
export async function skipTier(
  db: Database,
  request: WorkerRequest,
  reason: string,
): Promise<void> {
  await db.transaction().execute((transaction) => insertSkipped(transaction, request, reason));
}

export async function insertSkipped(
  db: Database,
  request: NewWorker,
  reason: string,
): Promise<void> {
  const { id } = await db
    .insertInto('workers')
    .values({ ...toRow(request), state: 'skipped', finished_at: request.startedAt, reason })
    .returning('id')
    .executeTakeFirstOrThrow();
  await recordActivity(db, {
    at: request.startedAt,
    event: 'worker-skipped',
    workerId: id,
    detail: reason,
  });
}

function toRow(request: NewWorker) {
  return {
    kind: request.kind,
    tier: request.tier,
    host: request.self.host,
    boot_id: request.self.bootId,
    pid: request.self.pid,
    pid_start_ticks: request.self.startTicks,
    scheduled_for: request.scheduledFor,
    started_at: request.startedAt,
    called_by: request.calledBy,
    runner_version: request.runnerVersion,
    node_version: process.version,
  };
}
