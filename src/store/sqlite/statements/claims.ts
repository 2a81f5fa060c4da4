import { inPages } from '../../../system/base/values.ts';
import type {
  ClaimedRow,
  ClaimOfWorker,
  ClaimRequest,
  ClaimStore,
  ExpiredClaim,
  HeldRow,
  JobHead,
  Selection,
  WaitingJob,
} from '../../contract/jobs.ts';
import type { ClaimRef } from '../../contract/runs.ts';
import type { JobRow, WorkerRow } from '../../schema.ts';
import type { Sync } from '../../shared/areas.ts';
import {
  expiredAmong,
  isEndedElsewhere,
  isOfWorker,
  MOST_COUNTED,
  nextWakeAmong,
  tokensOf,
  workerOf,
} from '../../shared/claims.ts';
import { headOfJob } from '../../shared/job-columns.ts';
import { selectWorkers } from '../../statements/workers.ts';
import type { SqliteStatements } from '../session.ts';
import { runningRunOf } from './runs.ts';

/** How many jobs are looked at in the common order before the jobs of each name are. */
const FIRST_LOOK = 20;
const SECOND_LOOK = 500;

/** Most due jobs to move at once: no other process can write meanwhile. */
const PROMOTED_AT_ONCE = 1_000;

/** Most jobs of full groups that one claim sets aside. */
const BLOCKED_AT_ONCE = 5_000;

/** After a look that has put aside as many, one more of the same length may find something. */
const WORTH_ANOTHER = 100;

const columns = 'id, name, priority, run_at, concurrency_key';
const inOrder = 'order by priority desc, run_at, id';

/** Whether no process works any more on an earlier try, or on an ended job of the same unique key. */
const isFree = `id not in (
  select id from jobs where claim_token is not null and ready = 1
  union all select waiting.id from jobs as holder join jobs as waiting on waiting.unique_key = holder.unique_key
    where holder.claim_token is not null and holder.finished_at is not null
      and waiting.unique_key is not null and waiting.finished_at is null)`;

export function sqliteClaims(db: SqliteStatements): Sync<ClaimStore> {
  return {
    next: (selection, at) => {
      // All of them, so that the first one is the first of all: others can write in between.
      while (promote(db, at));
      while (unblock(db, selection.groupLimit));
      return findNext(db, selection);
    },
    hasDue: (at) =>
      db.first(
        `select 1 where exists (select 1 from jobs where ready = 1) or exists (select 1 from jobs where ready = 2)
           or exists (select 1 from jobs where ready = 0 and run_at <= ?)`,
        [at],
      ) !== undefined,
    nextWake: (at, graceMs) => nextWake(db, at, graceMs),
    claim: (request) => {
      const claimed: ClaimedRow[] = [];
      for (;;) {
        const isMore = [promote(db, request.at), unblock(db, request.selection.groupLimit)].includes(true);
        takeNext(db, request, claimed);
        if (claimed.length >= request.count || !isMore) return claimed;
      }
    },
    held: (claims) => held(db, claims),
    release: (claims, at) => {
      for (const claim of claims) release(db, claim, at);
    },
    renew: (workerId, at, defaultLeaseMs) => {
      db.run(
        `update jobs set lease_expires_at = ? + coalesce(lease_ms, ?), lease_extended = 0
         where ${isOfWorker} and lease_expires_at is not null`,
        [at, defaultLeaseMs, ...tokensOf(workerId)],
      );
      const row = db.first<{ shortest: number | null }>(
        `select min(coalesce(lease_ms, ?)) as shortest from jobs
         where ${isOfWorker} and lease_expires_at is not null`,
        [defaultLeaseMs, ...tokensOf(workerId)],
      );
      return row?.shortest ?? null;
    },
    expired: (at, graceMs) => expired(db, at, graceMs),
    extend: (id, leaseExpiresAt) => {
      db.run('update jobs set lease_expires_at = ?, lease_extended = 1 where id = ?', [leaseExpiresAt, id]);
    },
    ofWorkers: () => ofWorkers(db),
    ofEndedWorkers: () => ofWorkers(db).filter(({ worker }) => worker.state !== 'running'),
  };
}

/** Jobs whose time has come stand in the index of those that are due. True: there may be more of them. */
function promote(db: SqliteStatements, at: number): boolean {
  if ((nextDue(db) ?? Number.POSITIVE_INFINITY) > at) return false;
  const promoted = db.run(
    `update jobs set ready = 1 where id in
       (select id from jobs where ready = 0 and run_at <= ? order by run_at, priority desc limit ?)`,
    [at, PROMOTED_AT_ONCE],
  );
  return promoted === PROMOTED_AT_ONCE;
}

function nextDue(db: SqliteStatements): number | null {
  const row = db.first<{ due: number | null }>('select min(run_at) as due from jobs where ready = 0');
  return row?.due ?? null;
}

function nextWake(db: SqliteStatements, at: number, graceMs: number): number | null {
  // The token of a worker has a dot in it; who is no worker has some more time.
  const lease = db.first<{ end: number | null }>(
    `select min(lease_expires_at + case when instr(claim_token, '.') > 0 then 0 else ? end) as end
     from jobs where claim_token is not null and lease_expires_at is not null`,
    [graceMs],
  )?.end;
  const pause = db.first<{ end: number | null }>('select min(until) as end from pauses where until > ?', [at]);
  const delayed = db.first<{ due: number | null }>(
    'select min(run_at) as due from jobs where ready = 0 and run_at > ?',
    [at],
  );
  const moments = { due: delayed?.due ?? null, leaseEnd: lease ?? null, pauseEnd: pause?.end ?? null };
  return nextWakeAmong(moments, at, graceMs);
}

const freedText = `with recursive blocked (key) as (
    select min(coalesce(concurrency_key, '')) from jobs where ready = 2
    union all
    select (select min(coalesce(concurrency_key, '')) from jobs
      where ready = 2 and coalesce(concurrency_key, '') > blocked.key)
    from blocked where key is not null)
  select key, room from (
    select key, ? - (select count(*) from jobs where claim_token is not null and concurrency_key = key) as room
    from blocked where key is not null)
  where room > 0`;

/** Makes jobs due again whose groups have room, as many as fit. True: there may be more of them. */
function unblock(db: SqliteStatements, limit: number | null): boolean {
  let isMore = false;
  for (const { key, room } of db.all<{ key: string; room: number }>(freedText, [limit ?? Number.MAX_SAFE_INTEGER])) {
    const moved = db.run(
      `update jobs set ready = 1 where id in (select id from jobs
         where ready = 2 and coalesce(concurrency_key, '') = ? ${inOrder} limit ?)`,
      [key, Math.min(room, PROMOTED_AT_ONCE)],
    );
    isMore ||= moved === PROMOTED_AT_ONCE;
  }
  return isMore;
}

/** Jobs of full groups are put aside until there is room: no later claim comes by them. */
function block(db: SqliteStatements, jobs: readonly WaitingJob[]): void {
  if (jobs.length === 0) return;
  const list = JSON.stringify(jobs.map(({ id }) => id));
  db.run('update jobs set ready = 2 where ready = 1 and id in (select value from json_each(?))', [list]);
}

/** The wanted and free jobs that a look has found, by priority, then due time, then number. */
interface Look {
  readonly jobs: readonly WaitingJob[];
  /** How many were in the way, and are not any more. */
  readonly blocked: number;
  /** Whether there is no other: no further look would find one. */
  readonly isAll: boolean;
}

/** Mostly the first one finds enough; each is dearer than the one before. */
const looks = [
  (db: SqliteStatements, selection: Selection, count: number) =>
    lookAtFirst(db, selection, count, FIRST_LOOK + count - 1),
  (db: SqliteStatements, selection: Selection, count: number) =>
    lookAtFirst(db, selection, count, SECOND_LOOK + count - 1),
  lookAtNames,
] as const;

function looksFor({ id }: Selection) {
  return id === undefined ? looks : [lookAtOne];
}

function findNext(db: SqliteStatements, selection: Selection): WaitingJob | null {
  for (const look of looksFor(selection)) {
    const { jobs, isAll } = look(db, selection, 1);
    if (jobs.length > 0 || isAll) return jobs[0] ?? null;
  }
  return null;
}

function takeNext(db: SqliteStatements, request: ClaimRequest, claimed: ClaimedRow[]): void {
  const { selection, count } = request;
  let moved = 0;
  for (const look of looksFor(selection)) {
    for (;;) {
      const { jobs, blocked, isAll } = look(db, selection, count - claimed.length);
      claimed.push(...jobs.map(({ id }) => take(db, id, request)));
      if (isAll || claimed.length >= count) return;
      moved += blocked;
      const isWorthAnother = blocked >= WORTH_ANOTHER && moved < BLOCKED_AT_ONCE;
      if (jobs.length === 0 && !isWorthAnother) break;
    }
  }
}

function lookAtFirst(db: SqliteStatements, selection: Selection, count: number, limit: number): Look {
  const page = db.all<WaitingJob>(
    `select ${columns} from jobs where ready = 1 and priority >= ? and ${isFree} ${inOrder} limit ?`,
    [floorOf(selection), limit],
  );
  const { jobs, blocked } = pick(page, selection, createGroupCheck(db, selection.groupLimit), count);
  block(db, blocked);
  return { jobs, blocked: blocked.length, isAll: page.length < limit };
}

function lookAtOne(db: SqliteStatements, selection: Selection, count: number): Look {
  const page = db.all<WaitingJob>(`select ${columns} from jobs where ready >= 1 and id = ? and ${isFree}`, [
    selection.id ?? 0,
  ]);
  const { jobs } = pick(page, selection, createGroupCheck(db, selection.groupLimit), count);
  return { jobs, blocked: 0, isAll: true };
}

function floorOf({ minPriority = Number.MIN_SAFE_INTEGER }: Selection): number {
  return minPriority;
}

function pick(page: readonly WaitingJob[], { isWanted }: Selection, groups: GroupCheck, count: number) {
  const jobs: WaitingJob[] = [];
  const blocked: WaitingJob[] = [];
  for (const job of page) {
    if (jobs.length >= count) break;
    if (isWanted(job.name)) (groups.take(job.concurrency_key) ? jobs : blocked).push(job);
  }
  return { jobs, blocked };
}

/** None of the first is for this worker: the first one of each name. */
function lookAtNames(db: SqliteStatements, selection: Selection): Look {
  const { names, isWanted, groupLimit } = selection;
  const fullKeys = createGroupCheck(db, groupLimit).full();
  const wanted = (names ?? readyNames(db)).filter(isWanted);
  const jobs = db.all<WaitingJob>(
    `select ${columns} from jobs where id in (
       select (select id from jobs where ready = 1 and name = wanted.value and priority >= ? and ${isFree}
         and (concurrency_key is null
           or concurrency_key not in (select value from json_each(?)))
         ${inOrder} limit 1)
       from json_each(?) as wanted)
     ${inOrder} limit 1`,
    [floorOf(selection), JSON.stringify(fullKeys), JSON.stringify(wanted)],
  );
  return { jobs, blocked: 0, isAll: jobs.length === 0 };
}

/** Every name that has a job which is due, by one step into the index for each. */
function readyNames(db: SqliteStatements): string[] {
  const rows = db.all<{ name: string }>(
    `with recursive names (name) as (
       select min(name) from jobs where ready = 1
       union all
       select (select min(name) from jobs where ready = 1 and name > names.name)
       from names where name is not null)
     select name from names where name is not null`,
  );
  return rows.map(({ name }) => name);
}

interface GroupCheck {
  /** Counts one more of that key; false: it is full. */
  take(key: string | null): boolean;
  full(): string[];
}

/** Asked once for all keys: nothing changes within the transaction but by what it takes itself. */
function createGroupCheck(db: SqliteStatements, limit: number | null): GroupCheck {
  let counts: Map<string, number> | null = null;
  const read = (): Map<string, number> => {
    const rows = db.all<{ key: string; jobs: number }>(
      `select concurrency_key as key, count(*) as jobs from jobs
       where claim_token is not null and concurrency_key is not null group by concurrency_key`,
    );
    return new Map(rows.map(({ key, jobs }) => [key, jobs]));
  };
  return {
    take: (key) => {
      if (limit === null || key === null) return true;
      counts ??= read();
      const taken = counts.get(key) ?? 0;
      if (taken >= limit) return false;
      counts.set(key, taken + 1);
      return true;
    },
    full: () => {
      if (limit === null) return [];
      counts ??= read();
      return [...counts].filter(([, jobs]) => jobs >= limit).map(([key]) => key);
    },
  };
}

const taken = `ready = null, claim_token = ?, lease_expires_at = ? + coalesce(?, lease_ms, ?), lease_extended = 0`;
const returned = `returning *, exists (select 1 from jobs child where child.parent_id = jobs.id
  and child.reported_to_parent = 0 and child.finished_at is not null) as has_unreported_children`;

const claimText = `update jobs set state = 'claimed', ${taken} where id = ? ${returned}`;
const countTry = `attempts = min(attempts + 1, ${MOST_COUNTED})`;
const beginText = `update jobs set state = 'running', started_at = ?, ${countTry},
  reason = null, ${taken} where id = ? ${returned}`;

function take(db: SqliteStatements, id: number, request: ClaimRequest): ClaimedRow {
  const { at, leaseMs, defaultLeaseMs, state } = request;
  const lease = [request.newToken(), at, leaseMs, defaultLeaseMs, id];
  const [row] =
    state === 'claimed' ? db.all<ClaimedFromSql>(claimText, lease) : db.all<ClaimedFromSql>(beginText, [at, ...lease]);
  const { has_unreported_children, ...job } = row as ClaimedFromSql;
  return { ...job, has_unreported_children: has_unreported_children === 1 };
}

type ClaimedFromSql = JobRow & { claim_token: string; has_unreported_children: number };

const heldText = `select ${headOfJob}, exists (select 1 from jobs child where child.parent_id = jobs.id) as has_children
  from jobs where id in (select value from json_each(?)) and claim_token is not null and state in ('claimed', 'running')`;

function held(db: SqliteStatements, claims: readonly ClaimRef[]): HeldRow[] {
  const tokens = new Set(claims.map(({ token }) => token));
  const rows = [...inPages(claims.map(({ id }) => id))].flatMap((ids) =>
    db.all<JobHead & { claim_token: string; has_children: number }>(heldText, [JSON.stringify(ids)]),
  );
  return rows
    .filter(({ claim_token }) => tokens.has(claim_token))
    .map((row) => ({ ...row, has_children: row.has_children === 1 }));
}

/** A script's job has no lease, and no place in the index of those that are due. */
function release(db: SqliteStatements, { id, token }: ClaimRef, at: number): void {
  db.run(
    `update jobs set state = case when attempts > 0 then 'retrying' else 'queued' end,
       ready = case when tier is null then run_at <= ? end, claim_token = null,
       lease_expires_at = null, lease_extended = 0
     where id = ? and claim_token = ? and state = 'claimed'`,
    [at, id, token],
  );
  db.run(`update jobs set claim_token = null where id = ? and claim_token = ? and ${isEndedElsewhere}`, [id, token]);
}

function expired(db: SqliteStatements, at: number, graceMs: number): ExpiredClaim[] {
  const rows = db.all<JobHead>(
    `select ${headOfJob} from jobs where claim_token is not null and lease_expires_at < ? and tier is null
       and state in ('claimed', 'running')`,
    [at],
  );
  return expiredAmong(rows, at, graceMs);
}

function ofWorkers(db: SqliteStatements): ClaimOfWorker[] {
  const jobs = db.all<JobHead>(
    `select ${headOfJob} from jobs where claim_token is not null and (tier is null or not ${isEndedElsewhere})`,
  );
  const ids = new Set(jobs.flatMap(({ claim_token }) => workerOf(claim_token as string) ?? []));
  const byId = `${selectWorkers} where workers.id in (select value from json_each(?))`;
  const rows = [...inPages([...ids])].flatMap((page) => db.all<WorkerRow>(byId, [JSON.stringify(page)]));
  const workers = new Map(rows.map((worker) => [worker.id, worker]));
  return jobs.flatMap((job) => {
    const token = job.claim_token as string;
    const worker = workers.get(workerOf(token) ?? 0);
    return worker === undefined ? [] : { job, token, worker, run: runningRunOf(db, job.id) };
  });
}
