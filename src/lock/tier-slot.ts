import type { Liveness, ProcessIdentity } from '../process/process-identity.ts';
import { recordActivity } from '../store/activity.ts';
import type { Database } from '../store/open-store.ts';
import type { WorkerKind, WorkerRow } from '../store/schema.ts';

/** Who asks for a tier, and what for. */
export interface WorkerRequest {
  readonly kind: WorkerKind;
  readonly tier: string;
  readonly self: ProcessIdentity;
  readonly scheduledFor: number | null;
  readonly startedAt: number;
  readonly runnerVersion: string;
}

export type TierSlot =
  | { readonly free: true; readonly workerId: number }
  | { readonly free: false; readonly holder: WorkerRow };

/**
 * The second guard of the tier lock: the worker's row, inserted in one immediate transaction and
 * only if no live worker has the tier. Dead ones are marked as crashed on the way.
 */
export function takeTierSlot(
  db: Database,
  request: WorkerRequest,
  checkWorker: (worker: WorkerRow) => Liveness,
): Promise<TierSlot> {
  return db.transaction().execute(async (transaction) => {
    const running = await selectRunningWorkers(transaction, request.tier);
    const holder = running.find((worker) => checkWorker(worker) !== 'dead');
    if (holder !== undefined) {
      await insertSkipped(transaction, request, describeHolder(holder));
      return { free: false, holder };
    }
    for (const dead of running) await markCrashed(transaction, dead, request.startedAt);
    const workerId = await insertRunning(transaction, request);
    for (const dead of running) {
      await recordActivity(transaction, {
        at: request.startedAt,
        event: 'lock-taken-over',
        workerId,
        detail: `took ${request.tier} over from ${describeHolder(dead)}, which is dead`,
      });
    }
    return { free: true, workerId };
  });
}

/** Gives the slot back when the lock file turns out to be held: the pass is recorded as skipped. */
export async function giveUpTierSlot(
  db: Database,
  workerId: number,
  at: number,
  reason: string,
): Promise<void> {
  await db.transaction().execute(async (transaction) => {
    await transaction
      .updateTable('workers')
      .set({ state: 'skipped', finished_at: at, reason })
      .where('id', '=', workerId)
      .execute();
    await recordActivity(transaction, { at, event: 'worker-skipped', workerId, detail: reason });
  });
}

/** "pid 4711 on web3, since 2026-11-01T10:00:00.000Z" */
export function describeHolder(holder: {
  readonly pid: number;
  readonly host: string;
  readonly started_at: number;
}): string {
  return `pid ${holder.pid} on ${holder.host}, since ${new Date(holder.started_at).toISOString()}`;
}

function selectRunningWorkers(db: Database, tier: string): Promise<WorkerRow[]> {
  return db
    .selectFrom('workers')
    .selectAll()
    .where('tier', '=', tier)
    .where('state', '=', 'running')
    .execute();
}

async function markCrashed(db: Database, worker: WorkerRow, at: number): Promise<void> {
  const reason = 'its process is gone without having finished';
  await db
    .updateTable('workers')
    .set({ state: 'crashed', finished_at: at, reason })
    .where('id', '=', worker.id)
    .execute();
  await recordActivity(db, { at, event: 'worker-crashed', workerId: worker.id, detail: reason });
}

async function insertRunning(db: Database, request: WorkerRequest): Promise<number> {
  const { id } = await db
    .insertInto('workers')
    .values({ ...toRow(request), state: 'running', finished_at: null, reason: null })
    .returning('id')
    .executeTakeFirstOrThrow();
  await recordActivity(db, { at: request.startedAt, event: 'worker-started', workerId: id });
  return id;
}

async function insertSkipped(db: Database, request: WorkerRequest, holder: string): Promise<void> {
  const reason = `${request.tier} is held by ${holder}`;
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

function toRow(request: WorkerRequest) {
  return {
    kind: request.kind,
    tier: request.tier,
    host: request.self.host,
    boot_id: request.self.bootId,
    pid: request.self.pid,
    pid_start_ticks: request.self.startTicks,
    scheduled_for: request.scheduledFor,
    started_at: request.startedAt,
    runner_version: request.runnerVersion,
    node_version: process.version,
  };
}
