import type { JobRow } from '../schema.ts';
import type { Dialect } from '../shared/sql/dialect.ts';
import {
  type ClaimedRow,
  type ClaimRequest,
  Groups,
  isThere,
  type JobTaking,
  readyNames,
  type Selection,
} from '../statements/claims.ts';
import {
  compareTurns,
  hasClaim,
  jobColumns,
  MOST_COUNTED,
  nextFirst,
  type RowChange,
  updateJobs,
  type WaitingJob,
} from '../statements/job-rows.ts';
import type { ServerStatements } from './session.ts';
import {
  floorOf,
  free,
  type Habit,
  habitOf,
  isFree,
  mayTakeFirst,
  type TakenRow,
  takingFirst,
  toClaimed,
  unreportedChild,
} from './turn.ts';

/** How many jobs are looked at in the common order before the jobs of each name are. */
const FIRST_LOOK = 20;
const SECOND_LOOK = 500;

/** Most due jobs to move at once. */
const PROMOTED_AT_ONCE = 1_000;

/** Most jobs of full groups that one claim sets aside: others do not wait long for any of them. */
const BLOCKED_AT_ONCE = 5_000;

/** On MySQL, one statement reads the groups of this many blocked jobs. */
const BLOCKED_ON_A_PAGE = 100;

/** After a look that has put aside as many, one more of the same length may find something. */
const WORTH_ANOTHER = 100;

/** Takes the jobs that are next. */
export function serverTaking(db: ServerStatements): JobTaking {
  const habit = habitOf(db);
  return {
    next: async (selection, at) => {
      while ((await promote(db, at)) === PROMOTED_AT_ONCE);
      await unblock(db, selection.groupLimit);
      return await findNext(db, selection);
    },
    claim: (request) => new Claiming(db, request, habit).claim(),
  };
}

/** Jobs whose time has come stand in the index of those that are due. How many were moved: there may be more. */
async function promote(db: ServerStatements, at: number): Promise<number> {
  const due = await db.all<{ id: number }>(
    `select id from jobs where ready = 0 and run_at <= ?
     order by run_at, ${db.dialect.name === 'mysql' ? 'urgency' : 'priority desc'} limit ${PROMOTED_AT_ONCE} ${free}`,
    [at],
  );
  if (due.length === 0) return 0;
  // Outside of a transaction nothing is locked: what somebody else has moved meanwhile stays as it is.
  await db.run(
    `update jobs set ready = 1 where ready = 0 and run_at <= ? and ${db.dialect.isIn('id')}`,
    [at, due.map(({ id }) => id)],
    'none',
  );
  return due.length;
}

interface FreedGroup {
  readonly name: string;
  readonly room: number;
}

/** How many more jobs of a group may be claimed. */
const roomOf = ({ dialect }: ServerStatements, name: string): string =>
  `${dialect.integer('?')} - (select count(*) from jobs where ${hasClaim} and concurrency_key = ${name})`;

const limitOf = (limit: number | null): number => limit ?? Number.MAX_SAFE_INTEGER;

/** Groups with blocked jobs that have room again, each found by one step into an index. */
function freedOnPostgres(db: ServerStatements, limit: number | null) {
  const { key, isBlocked } = blockedOf(db.dialect);
  const text = `with recursive blocked (name) as (
      select min(${key}) from jobs where ${isBlocked}
      union all
      select (select min(${key}) from jobs where ${isBlocked} and ${key} > blocked.name)
      from blocked where blocked.name is not null)
    select name, room from (
      select blocked.name, ${roomOf(db, 'blocked.name')} as room from blocked where blocked.name is not null
    ) as groups_of_blocked where room > 0`;
  return { text, values: [limitOf(limit)] };
}

/**
 * The same on MySQL, which compares each blocked job with a key that another table gives, and steps to one that is a
 * value: a page of jobs is a trip, and so is a group that is longer than a page.
 */
async function freedOnMysql(db: ServerStatements, limit: number | null): Promise<FreedGroup[]> {
  const found: FreedGroup[] = [];
  for (let after: string | null = null; ; ) {
    const from: string = after === null ? 'blocked_key is not null' : 'blocked_key > ?';
    const page: (FreedGroup & { readonly jobs: number })[] = await db.all(
      `select name, jobs, ${roomOf(db, 'groups_of_blocked.name')} as room from (
         select name, count(*) as jobs from (
           select blocked_key as name from jobs where ${from} order by blocked_key limit ${BLOCKED_ON_A_PAGE}) as page
         group by name) as groups_of_blocked order by name`,
      [limitOf(limit), ...(after === null ? [] : [after])],
    );
    found.push(...page.filter(({ room }) => room > 0));
    after = page.at(-1)?.name ?? null;
    const read = page.reduce((sum, { jobs }) => sum + jobs, 0);
    if (after === null || read < BLOCKED_ON_A_PAGE) return found;
  }
}

async function freed(db: ServerStatements, limit: number | null): Promise<FreedGroup[]> {
  if (db.dialect.name === 'mysql') return await freedOnMysql(db, limit);
  const { text, values } = freedOnPostgres(db, limit);
  return await db.all<FreedGroup>(text, values);
}

/** A job that lost its group meanwhile, by plain SQL, is found as one of a group without a name. */
function blockedOf({ name }: Dialect) {
  // An index of MySQL's holds all rows, and this column is null in most.
  if (name === 'mysql') return { key: 'blocked_key', isBlocked: 'blocked_key is not null' };
  return { key: "coalesce(concurrency_key, '')", isBlocked: 'ready = 2' };
}

/** Makes jobs due again whose groups have room, as many as fit. False: there are none. */
async function unblock(db: ServerStatements, limit: number | null): Promise<boolean> {
  const { key, isBlocked } = blockedOf(db.dialect);
  const ids: number[] = [];
  for (const { name, room } of await freed(db, limit)) {
    const some = await db.all<{ id: number }>(
      `select id from jobs where ${isBlocked} and ${key} = ? order by ${nextFirst(db.dialect)} limit ? ${free}`,
      [name, Math.min(room, PROMOTED_AT_ONCE)],
    );
    ids.push(...some.map(({ id }) => id));
  }
  if (ids.length === 0) return false;
  await db.run(`update jobs set ready = 1 where ready = 2 and ${db.dialect.isIn('id')}`, [ids], 'none');
  return true;
}

/** Jobs of full groups are put aside until there is room: no later claim comes by them. How many were. */
async function block(db: ServerStatements, jobs: readonly Pick<WaitingJob, 'id'>[]): Promise<number> {
  if (jobs.length === 0) return 0;
  const { isIn } = db.dialect;
  // A transaction that has locked one of them may be waiting for this one.
  const found = await db.all<{ id: number }>(
    `select id from jobs where ready = 1 and ${isIn('id')} order by id ${free}`,
    [jobs.map(({ id }) => id)],
  );
  const ids = found.map(({ id }) => id);
  if (ids.length > 0) await db.run(`update jobs set ready = 2 where ready = 1 and ${isIn('id')}`, [ids], 'none');
  return ids.length;
}

const waitingColumns = 'id, name, priority, run_at, concurrency_key';

/** Those that are due, in their order, whoever wants them. */
async function readFirst(db: ServerStatements, selection: Selection, limit: number): Promise<WaitingJob[]> {
  const floor = floorOf(db, selection);
  return await db.all<WaitingJob>(
    `select ${waitingColumns} from jobs where ready = 1 and ${isFree}${floor.text}
     order by ${nextFirst(db.dialect)} limit ?`,
    [...floor.values, limit],
  );
}

/** The first jobs of each wanted name, without jobs whose group is full. */
async function readOfNames(
  db: ServerStatements,
  selection: Selection,
  limit: number,
  fullKeys: readonly string[],
): Promise<WaitingJob[]> {
  const wanted = (await readyNames(db)).filter((name) => selection.isWanted(name));
  const floor = floorOf(db, selection);
  const order = nextFirst(db.dialect);
  const unblocked =
    fullKeys.length === 0
      ? { text: '', values: [] }
      : { text: ` and (concurrency_key is null or not ${db.dialect.isIn('concurrency_key')})`, values: [fullKeys] };
  const found: WaitingJob[] = [];
  for (const name of wanted) {
    found.push(
      ...(await db.all<WaitingJob>(
        `select ${waitingColumns} from jobs where ready = 1 and name = ? and ${isFree}${floor.text}${unblocked.text}
         order by ${order} limit ?`,
        [name, ...floor.values, ...unblocked.values, limit],
      )),
    );
  }
  return found.sort(compareTurns).slice(0, limit);
}

/**
 * Looks at the first ones in the order of all. Mostly the first look finds enough; each is dearer than the one before,
 * and one that has put many aside is repeated. False: none of them was the last.
 */
async function lookAtFirst(
  look: (length: number) => Promise<{ readonly isLast: boolean; readonly blocked: number }>,
): Promise<boolean> {
  let moved = 0;
  for (const length of [FIRST_LOOK, SECOND_LOOK]) {
    for (;;) {
      const { isLast, blocked } = await look(length);
      if (isLast) return true;
      moved += blocked;
      if (blocked < WORTH_ANOTHER || moved >= BLOCKED_AT_ONCE) break;
    }
  }
  return false;
}

async function findNext(db: ServerStatements, selection: Selection): Promise<WaitingJob | null> {
  const groups = new Groups(db, selection.groupLimit);
  const choose = async (jobs: readonly WaitingJob[]) => {
    const { found, blocked } = await groups.fitting(
      jobs.filter(({ name }) => selection.isWanted(name)),
      1,
    );
    return { next: found[0] ?? null, blocked };
  };
  if (selection.id !== undefined) {
    const text = `select ${waitingColumns} from jobs where ready >= 1 and ${isFree} and id = ?`;
    return (await choose(await db.all<WaitingJob>(text, [selection.id]))).next;
  }
  let next: WaitingJob | null = null;
  const isAll = await lookAtFirst(async (length) => {
    const page = await readFirst(db, selection, length);
    const chosen = await choose(page);
    next = chosen.next;
    const blocked = await block(db, chosen.blocked);
    return { isLast: next !== null || page.length < length, blocked };
  });
  return isAll ? next : (await choose(await readOfNames(db, selection, 1, await groups.full()))).next;
}

const waitingAgain = { ready: 1, claim_token: null, lease_expires_at: null, lease_extended: 0 } as const;

/** A row as it was before it was claimed. */
type FoundRow = JobRow & { readonly has_unreported_children: number };

/** Whether jobs have to be moved to those that are due. */
interface Returning {
  readonly next_due: number | null;
  readonly may_unblock: number;
}

type LockedRow = FoundRow & Returning;

function returning(db: ServerStatements, groupLimit: number | null) {
  const nextDue = '(select min(run_at) from jobs where ready = 0) as next_due';
  if (db.dialect.name === 'mysql') {
    return { text: `${nextDue}, ${isThere('jobs where blocked_key is not null')} as may_unblock`, values: [] };
  }
  const { text, values } = freedOnPostgres(db, groupLimit);
  return { text: `${nextDue}, (case when exists (${text}) then 1 else 0 end) as may_unblock`, values };
}

const foundColumns = `${jobColumns}, ${isThere(unreportedChild)} as has_unreported_children`;

/** Takes what is next: rows are locked, judged, and changed by one statement. */
class Claiming {
  readonly #db: ServerStatements;
  readonly #request: ClaimRequest;
  readonly #groups: Groups;
  readonly #habit: Habit;
  readonly #taken: FoundRow[] = [];
  /** Locked, wanted, and in a full group. */
  #blocked: FoundRow[] = [];
  /** Looked at and not wanted, or taken. */
  readonly #seen = new Set<number>();

  constructor(db: ServerStatements, request: ClaimRequest, habit: Habit) {
    this.#db = db;
    this.#request = request;
    this.#habit = habit;
    this.#groups = new Groups(db, request.selection.groupLimit);
  }

  async claim(): Promise<ClaimedRow[]> {
    if (mayTakeFirst(this.#db, this.#request)) {
      const claimed = await this.#claimAtOnce();
      if (claimed !== null) return claimed;
    }
    if (this.#request.selection.id === undefined) await this.#takeAny();
    else await this.#takeOne(this.#request.selection.id);
    return await this.#write();
  }

  /**
   * Takes the first ones of all by one statement; whoever does not want one of them puts all back, and looks first the
   * next time. Null: it is to be looked first now, too.
   */
  async #claimAtOnce(): Promise<ClaimedRow[] | null> {
    const { text, values } = takingFirst(this.#db, this.#request);
    const rows = await this.#db.all<TakenRow>(text, values, 'none');
    if (rows.length === 0) return null;
    if (rows.every(({ name }) => this.#request.selection.isWanted(name))) return rows.sort(compareTurns).map(toClaimed);
    this.#habit.wantsAll = false;
    const changes = rows.map(({ id, attempts }) => {
      const state: JobRow['state'] = attempts > 0 ? 'retrying' : 'queued';
      return { id, set: { ...waitingAgain, state } };
    });
    await updateJobs(this.#db, claimedColumns, changes, { news: 'none' });
    return null;
  }

  get #missing(): number {
    return this.#request.count - this.#taken.length;
  }

  async #takeOne(id: number): Promise<void> {
    while ((await promote(this.#db, this.#request.at)) === PROMOTED_AT_ONCE);
    await this.#lock([id], 'ready >= 1');
  }

  async #takeAny(): Promise<void> {
    const { selection } = this.#request;
    if (await this.#takeFirst()) return;
    await this.#block();
    const isAll = await lookAtFirst(async (length) => {
      const limit = length + this.#missing - 1 + this.#seen.size;
      const page = await readFirst(this.#db, selection, limit);
      const blocked = await this.#lockFitting(page);
      return { isLast: this.#missing === 0 || page.length < limit, blocked };
    });
    if (isAll) return;
    for (;;) {
      const some = await readOfNames(this.#db, selection, FIRST_LOOK + this.#missing, await this.#groups.full());
      const before = this.#seen.size;
      await this.#lockFitting(some);
      if (this.#missing === 0 || this.#seen.size === before) return;
    }
  }

  /** The first ones of all, locked as they are read: mostly whoever asks wants them. True: there is no other. */
  async #takeFirst(): Promise<boolean> {
    const { selection, count, at } = this.#request;
    const floor = floorOf(this.#db, selection);
    const back = returning(this.#db, selection.groupLimit);
    let mayUnblock = true;
    for (;;) {
      const rows = await this.#db.all<LockedRow>(
        `select ${foundColumns}, ${back.text} from jobs where ready = 1 and ${isFree}${floor.text}
         order by ${nextFirst(this.#db.dialect)} limit ? ${free}`,
        [...back.values, ...floor.values, count],
      );
      const first = rows[0] ?? (await this.#db.first<Returning>(`select ${back.text}`, back.values));
      if ((first?.next_due ?? Number.POSITIVE_INFINITY) <= at && (await this.#promoteAll())) continue;
      // Once: there is room until one of them is taken.
      const hasRoom = mayUnblock && first?.may_unblock === 1;
      mayUnblock = false;
      if (hasRoom && (await unblock(this.#db, selection.groupLimit))) continue;
      await this.#judge(rows);
      this.#habit.wantsAll = rows.every(({ name }) => selection.isWanted(name));
      return this.#missing === 0 || rows.length < count;
    }
  }

  /** False: others move what is due just now. */
  async #promoteAll(): Promise<boolean> {
    let moved = 0;
    for (;;) {
      const some = await promote(this.#db, this.#request.at);
      moved += some;
      if (some < PROMOTED_AT_ONCE) return moved > 0;
    }
  }

  /**
   * Others may have claimed some of them: it tries as many as are missing, then the next ones. Returns how many were
   * set aside because their group is full.
   */
  async #lockFitting(page: readonly WaitingJob[]): Promise<number> {
    const wanted = page.filter(({ name }) => this.#request.selection.isWanted(name));
    let moved = 0;
    while (this.#missing > 0) {
      const unseen = wanted.filter(({ id }) => !this.#seen.has(id));
      const { found, blocked } = await this.#groups.fitting(unseen, this.#missing);
      moved += await block(this.#db, blocked);
      if (found.length === 0) break;
      await this.#lock(found.map(({ id }) => id));
    }
    return moved + (await this.#block());
  }

  async #block(): Promise<number> {
    const blocked = this.#blocked;
    this.#blocked = [];
    return await block(this.#db, blocked);
  }

  async #lock(ids: readonly number[], isWaiting = 'ready = 1'): Promise<void> {
    for (const id of ids) this.#seen.add(id);
    const rows = await this.#db.all<FoundRow>(
      `select ${foundColumns} from jobs where ${this.#db.dialect.isIn('id')} and ${isWaiting} and ${isFree} ${free}`,
      [ids],
    );
    await this.#judge(rows.sort(compareTurns));
  }

  async #judge(rows: readonly FoundRow[]): Promise<void> {
    const { isWanted } = this.#request.selection;
    for (const row of rows) {
      this.#seen.add(row.id);
      if (!isWanted(row.name)) continue;
      ((await this.#groups.take(row.concurrency_key)) ? this.#taken : this.#blocked).push(row);
    }
  }

  async #write(): Promise<ClaimedRow[]> {
    if (this.#taken.length === 0) return [];
    const claimed = this.#taken.map((row) => this.#claimed(row));
    const columns = this.#request.state === 'claimed' ? claimedColumns : begunColumns;
    const changes: RowChange[] = claimed.map((row) => ({ id: row.id, set: row }));
    // Other processes need no notice: a claim makes nothing possible that was impossible before.
    await updateJobs(this.#db, columns, changes, { news: 'none' });
    return claimed;
  }

  #claimed({ has_unreported_children, ...row }: FoundRow): ClaimedRow {
    const { at, leaseMs, defaultLeaseMs, state, newToken } = this.#request;
    const { next_due: _, may_unblock: __, ...job } = row as LockedRow;
    const begun = { started_at: at, attempts: Math.min(job.attempts + 1, MOST_COUNTED), reason: null };
    return {
      ...job,
      ...(state === 'running' && begun),
      ...{ state, ready: null, claim_token: newToken(), lease_extended: 0 },
      lease_expires_at: at + (leaseMs ?? job.lease_ms ?? defaultLeaseMs),
      has_unreported_children: has_unreported_children === 1,
    };
  }
}

const claimedColumns = ['state', 'ready', 'claim_token', 'lease_expires_at', 'lease_extended'] as const;
const begunColumns = [...claimedColumns, 'started_at', 'attempts', 'reason'] as const;
