import type { JobRow } from '../../store/schema.ts';
import { queryRaw } from '../../store/sqlite/queries.ts';
import type { Database } from '../../store/store.ts';

/** A job of the queue that waits to be taken. */
export interface WaitingJob {
  readonly id: number;
  readonly name: string;
  readonly priority: number;
  readonly run_at: number;
  readonly group_key: string | null;
}

/** Among which waiting jobs is looked. */
interface Sought {
  /** Null: all names. */
  readonly name: string | null;
  /** UTC epoch milliseconds. */
  readonly at: number;
  readonly withoutGroups: readonly string[];
  readonly limit: number;
}

/** As the indexes say it, so that they answer. */
const isWaiting = "tier is null and state in ('queued', 'retrying')";
const columns = 'id, name, priority, run_at, group_key';
const order = 'order by priority desc, run_at, id';

/** The one with the highest priority, due or not: mostly it is the next one. */
export async function selectHead(db: Database): Promise<WaitingJob | null> {
  const text = `select ${columns} from jobs where ${isWaiting} ${order} limit 1`;
  return (await queryRaw<WaitingJob>(db, text))[0] ?? null;
}

/**
 * Those that are due and come first. Each priority is looked at for itself, so that a million jobs
 * that are not due yet cost no more than one.
 */
export async function selectFirstDue(db: Database, sought: Sought): Promise<WaitingJob[]> {
  const found: WaitingJob[] = [];
  let priority = await nextPriority(db, sought.name, null);
  while (priority !== null && found.length < sought.limit) {
    found.push(...(await selectDue(db, sought, priority, sought.limit - found.length)));
    priority = await nextPriority(db, sought.name, priority);
  }
  return found;
}

/** Every name that has a waiting job, by one step into the index for each. */
export async function selectWaitingNames(db: Database): Promise<string[]> {
  const rows = await queryRaw<{ name: string }>(
    db,
    `with recursive names (name) as (
       select min(name) from jobs where ${isWaiting}
       union all
       select (select min(name) from jobs where ${isWaiting} and name > names.name)
       from names where name is not null)
     select name from names where name is not null`,
  );
  return rows.map(({ name }) => name);
}

/** When the next job that is not due yet becomes due; null: there is none. */
export async function selectNextDue(db: Database, at: number): Promise<number | null> {
  let earliest: number | null = null;
  let priority = await nextPriority(db, null, null);
  while (priority !== null) {
    const [row] = await queryRaw<{ run_at: number }>(
      db,
      `select run_at from jobs where ${isWaiting} and priority = ? and run_at > ? order by run_at limit 1`,
      [priority, at],
    );
    if (row !== undefined && (earliest === null || row.run_at < earliest)) earliest = row.run_at;
    priority = await nextPriority(db, null, priority);
  }
  return earliest;
}

/** Whether any job is due, whoever may take it. */
export async function hasDueJob(db: Database, at: number): Promise<boolean> {
  const head = await selectHead(db);
  if (head === null || head.run_at <= at) return head !== null;
  return (await selectFirstDue(db, { name: null, at, withoutGroups: [], limit: 1 })).length > 0;
}

async function nextPriority(
  db: Database,
  name: string | null,
  below: number | null,
): Promise<number | null> {
  const byName = name === null ? '' : 'and name = ?';
  const isBelow = below === null ? '' : 'and priority < ?';
  const [row] = await queryRaw<{ priority: number | null }>(
    db,
    `select max(priority) as priority from jobs where ${isWaiting} ${byName} ${isBelow}`,
    [...(name === null ? [] : [name]), ...(below === null ? [] : [below])],
  );
  const next = row?.priority ?? null;
  // A log without the check of its columns may hold one that no number here is: rounded, it would come again for ever.
  return next !== null && below !== null && next >= below ? null : next;
}

async function selectDue(
  db: Database,
  { name, at, withoutGroups }: Sought,
  priority: number,
  limit: number,
): Promise<WaitingJob[]> {
  const byName = name === null ? '' : 'and name = ?';
  const byGroup =
    withoutGroups.length === 0
      ? ''
      : 'and (group_key is null or group_key not in (select value from json_each(?)))';
  return await queryRaw<WaitingJob>(
    db,
    `select ${columns} from jobs where ${isWaiting} ${byName} and priority = ? and run_at <= ?
     ${byGroup} order by run_at, id limit ?`,
    [
      ...(name === null ? [] : [name]),
      priority,
      at,
      ...(withoutGroups.length === 0 ? [] : [JSON.stringify(withoutGroups)]),
      limit,
    ],
  );
}

/** A claim of who is no worker of the runner is over only this long after its lease. */
export const LEASE_GRACE_MS = 2_000;

/** Whether any claim's lease has run out: one look at an index that is nearly empty. */
export async function hasExpiredLease(db: Database, at: number): Promise<boolean> {
  return (await selectExpired(db, at)).length > 0;
}

export interface Expired extends Pick<JobRow, 'id' | 'claimed_by' | 'lease_ms' | 'leased_until'> {
  /** Of a running job: that its worker was given more time. */
  readonly reason: string | null;
}

export async function selectExpired(db: Database, at: number): Promise<Expired[]> {
  return await queryRaw(
    db,
    `select id, claimed_by, lease_ms, leased_until, reason from jobs
     where leased_until is not null and leased_until < ? and tier is null and state = 'running'
       and (claimed_by is not null or leased_until < ?)`,
    [at, at - LEASE_GRACE_MS],
  );
}

/**
 * When something can be taken that cannot be now, though nobody changes the log: a job becomes due, a
 * lease runs out, a pause ends. Null: never.
 */
export async function selectNextWake(db: Database, at: number): Promise<number | null> {
  const moments = [
    await selectNextDue(db, at),
    await selectNextLeaseEnd(db, at),
    await selectNextPauseEnd(db, at),
  ].filter((moment) => moment !== null);
  return moments.length === 0 ? null : Math.min(...moments);
}

interface Moment {
  readonly next: number | null;
}

/** Who is no worker of the runner has some more time. */
const endOfLease = `min(leased_until + case when claimed_by is null then ${LEASE_GRACE_MS} else 0 end)`;

async function selectNextLeaseEnd(db: Database, at: number): Promise<number | null> {
  const text = `select ${endOfLease} as next from jobs where leased_until is not null`;
  const [{ next }] = (await queryRaw<Moment>(db, text)) as [Moment];
  if (next === null) return null;
  // What is over already was left for another look; on the instant itself it is not over.
  return next >= at ? next + 1 : at + LEASE_GRACE_MS / 2;
}

/** When the first pause ends by itself; null: none does. */
export async function selectNextPauseEnd(db: Database, at: number): Promise<number | null> {
  const text = 'select min(until) as next from pauses where until > ?';
  const [{ next }] = (await queryRaw<Moment>(db, text, [at])) as [Moment];
  return next;
}
