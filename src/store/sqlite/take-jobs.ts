import type { JobRow } from '../schema.ts';
import type { Statements } from '../shared/sql/statements.ts';
import {
  addedAhead,
  type ClaimedRow,
  type ClaimRequest,
  Groups,
  type JobTaking,
  readyNames,
  type Selection,
} from '../statements/claims.ts';
import { MOST_COUNTED, type WaitingJob } from '../statements/job-rows.ts';

/** How many jobs are looked at in the common order before the jobs of each name are. */
const FIRST_LOOK = 20;
const SECOND_LOOK = 500;

/** Most due jobs to move at once: no other process can write meanwhile, for 50 ms or so. */
const PROMOTED_AT_ONCE = 10_000;

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

/** Takes the jobs that are next. */
export function sqliteTaking(db: Statements): JobTaking {
  return {
    next: async (selection, at) => {
      // All of them, so that the first one is the first of all: others can write in between.
      while (await promote(db, at));
      while (await unblock(db, selection.groupLimit));
      return await findNext(db, selection);
    },
    claim: async (request) => {
      const claimed: ClaimedRow[] = [];
      for (;;) {
        const areMoreDue = await promote(db, request.at);
        const areMoreFree = await unblock(db, request.selection.groupLimit);
        await takeNext(db, request, claimed);
        if (claimed.length >= request.count || !(areMoreDue || areMoreFree)) return claimed;
      }
    },
  };
}

/** Jobs whose time has come move to the index of those that are due. True: there may be more of them. */
async function promote(db: Statements, at: number): Promise<boolean> {
  const { isDue = 0, isAhead = 0 } =
    (await db.first<Record<'isDue' | 'isAhead', number>>(promotableText, [at, at])) ?? {};
  const move = (ids: string): Promise<number> =>
    db.run(`update jobs set ready = 1 where id in (${ids} limit ?)`, [at, PROMOTED_AT_ONCE]);
  const due =
    isDue === 1 ? await move('select id from jobs where ready = 0 and run_at <= ? order by run_at, priority desc') : 0;
  const ahead = isAhead === 1 ? await move(`select id from ${addedAhead}`) : 0;
  return Math.max(due, ahead) === PROMOTED_AT_ONCE;
}

const promotableText = `select exists (select 1 from jobs where ready = 0 and run_at <= ?) as "isDue",
  exists (select 1 from ${addedAhead}) as "isAhead"`;

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
async function unblock(db: Statements, limit: number | null): Promise<boolean> {
  let isMore = false;
  const freed = await db.all<{ key: string; room: number }>(freedText, [limit ?? Number.MAX_SAFE_INTEGER]);
  for (const { key, room } of freed) {
    const moved = await db.run(
      `update jobs set ready = 1 where id in (select id from jobs
         where ready = 2 and coalesce(concurrency_key, '') = ? ${inOrder} limit ?)`,
      [key, Math.min(room, PROMOTED_AT_ONCE)],
    );
    isMore ||= moved === PROMOTED_AT_ONCE;
  }
  return isMore;
}

/** Jobs of full groups are put aside until there is room: no later claim comes by them. */
async function block(db: Statements, jobs: readonly WaitingJob[]): Promise<void> {
  if (jobs.length === 0) return;
  const ids = jobs.map(({ id }) => id);
  await db.run(`update jobs set ready = 2 where ready = 1 and ${db.dialect.isIn('id')}`, [ids]);
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
  (db: Statements, selection: Selection, count: number) => lookAtFirst(db, selection, count, FIRST_LOOK + count - 1),
  (db: Statements, selection: Selection, count: number) => lookAtFirst(db, selection, count, SECOND_LOOK + count - 1),
  lookAtNames,
] as const;

function looksFor({ id }: Selection) {
  return id === undefined ? looks : [lookAtOne];
}

async function findNext(db: Statements, selection: Selection): Promise<WaitingJob | null> {
  for (const look of looksFor(selection)) {
    const { jobs, isAll } = await look(db, selection, 1);
    if (jobs.length > 0 || isAll) return jobs[0] ?? null;
  }
  return null;
}

async function takeNext(db: Statements, request: ClaimRequest, claimed: ClaimedRow[]): Promise<void> {
  const { selection, count } = request;
  let moved = 0;
  for (const look of looksFor(selection)) {
    for (;;) {
      const { jobs, blocked, isAll } = await look(db, selection, count - claimed.length);
      for (const { id } of jobs) claimed.push(await take(db, id, request));
      if (isAll || claimed.length >= count) return;
      moved += blocked;
      const isWorthAnother = blocked >= WORTH_ANOTHER && moved < BLOCKED_AT_ONCE;
      if (jobs.length === 0 && !isWorthAnother) break;
    }
  }
}

async function lookAtFirst(db: Statements, selection: Selection, count: number, limit: number): Promise<Look> {
  const page = await db.all<WaitingJob>(
    `select ${columns} from jobs where ready = 1 and priority >= ? and ${isFree} ${inOrder} limit ?`,
    [floorOf(selection), limit],
  );
  const { jobs, blocked } = await pick(page, selection, new Groups(db, selection.groupLimit), count);
  await block(db, blocked);
  return { jobs, blocked: blocked.length, isAll: page.length < limit };
}

async function lookAtOne(db: Statements, selection: Selection, count: number): Promise<Look> {
  const page = await db.all<WaitingJob>(`select ${columns} from jobs where ready >= 1 and id = ? and ${isFree}`, [
    selection.id ?? 0,
  ]);
  const { jobs } = await pick(page, selection, new Groups(db, selection.groupLimit), count);
  return { jobs, blocked: 0, isAll: true };
}

function floorOf({ minPriority = Number.MIN_SAFE_INTEGER }: Selection): number {
  return minPriority;
}

async function pick(page: readonly WaitingJob[], { isWanted }: Selection, groups: Groups, count: number) {
  const jobs: WaitingJob[] = [];
  const blocked: WaitingJob[] = [];
  for (const job of page) {
    if (jobs.length >= count) break;
    if (isWanted(job.name)) ((await groups.take(job.concurrency_key)) ? jobs : blocked).push(job);
  }
  return { jobs, blocked };
}

/** None of the first is for this worker: the first one of each name. */
async function lookAtNames(db: Statements, selection: Selection): Promise<Look> {
  const { isWanted, groupLimit } = selection;
  const fullKeys = await new Groups(db, groupLimit).full();
  const wanted = (await readyNames(db)).filter(isWanted);
  const jobs = await db.all<WaitingJob>(
    `select ${columns} from jobs where id in (
       select (select id from jobs where ready = 1 and name = wanted.value and priority >= ? and ${isFree}
         and (concurrency_key is null
           or concurrency_key not in (select value from json_each(?)))
         ${inOrder} limit 1)
       from json_each(?) as wanted)
     ${inOrder} limit 1`,
    [floorOf(selection), fullKeys, wanted],
  );
  return { jobs, blocked: 0, isAll: jobs.length === 0 };
}

const taken = `ready = null, claim_token = ?, lease_expires_at = ? + coalesce(?, lease_ms, ?), lease_extended = 0`;
const returned = `returning *, exists (select 1 from jobs child where child.parent_id = jobs.id
  and child.reported_to_parent = 0 and child.finished_at is not null) as has_unreported_children`;

const claimText = `update jobs set state = 'claimed', ${taken} where id = ? ${returned}`;
const countTry = `attempts = min(attempts + 1, ${MOST_COUNTED})`;
const beginText = `update jobs set state = 'running', started_at = ?, ${countTry},
  reason = null, ${taken} where id = ? ${returned}`;

async function take(db: Statements, id: number, request: ClaimRequest): Promise<ClaimedRow> {
  const { at, leaseMs, defaultLeaseMs, state } = request;
  const lease = [request.newToken(), at, leaseMs, defaultLeaseMs, id];
  const [text, values] = state === 'claimed' ? [claimText, lease] : [beginText, [at, ...lease]];
  const row = await db.first<ClaimedFromSql>(text, values);
  const { has_unreported_children, ...job } = row as ClaimedFromSql;
  return { ...job, has_unreported_children: has_unreported_children === 1 };
}

type ClaimedFromSql = JobRow & { claim_token: string; has_unreported_children: number };
