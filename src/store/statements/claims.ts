import type { JobRow, WorkerRow } from '../schema.ts';
import { headOfJob, type JobHead } from '../shared/job-columns.ts';
import { lock, type Statements } from '../shared/sql/statements.ts';
import {
  type ExpiredClaim,
  expiredAmong,
  hasClaim,
  isEndedElsewhere,
  isOfWorker,
  nextWakeAmong,
  tokensOf,
  type WaitingJob,
  workerOf,
} from './job-rows.ts';
import { type ClaimRef, runningRuns, type StartedRunRow } from './runs.ts';
import { workersById } from './workers.ts';

export interface Selection {
  isWanted(name: string): boolean;
  /** How many jobs of one concurrency key may be claimed at the same time; null: any number. */
  readonly groupLimit: number | null;
  /** Nothing below this priority. */
  readonly minPriority?: number | undefined;
  /** No other job than this one. */
  readonly id?: number | undefined;
}

export interface ClaimRequest {
  readonly selection: Selection;
  readonly count: number;
  /** UTC epoch milliseconds. */
  readonly at: number;
  /** Token of each claim. */
  newToken(): string;
  /** Overrides the job's own. */
  readonly leaseMs: number | null;
  readonly defaultLeaseMs: number;
  /** `claimed`: it begins later, and its try counts then. `running`: it begins now. */
  readonly state: 'claimed' | 'running';
}

/** A claimed job, as its row is now. */
export interface ClaimedRow extends JobRow {
  readonly claim_token: string;
  readonly has_unreported_children: boolean;
}

/** A job whose claim holds. */
export interface HeldRow extends JobHead {
  readonly has_children: boolean;
}

export interface StoreTurn {
  /** One for each run: its number, or null, as `runs.finish` says. */
  readonly runIds: readonly (number | null)[];
  /** Others among them are to be given back. None: it was not looked everywhere. */
  readonly claimed: readonly ClaimedRow[];
}

export interface ClaimOfWorker {
  readonly job: JobHead;
  readonly token: string;
  readonly worker: WorkerRow;
  /** Its row in `runs`, if it has lasted long enough to have one. */
  readonly run: StartedRunRow | null;
}

/** How jobs are taken, which is each kind of engine's own. */
export interface JobTaking {
  /** The job that is next; null: none is due. Changes nothing but which index a job that is due stands in. */
  next(selection: Selection, at: number): Promise<WaitingJob | null>;
  /** Claims the next jobs, at most `count`. Call it in a transaction. */
  claim(request: ClaimRequest): Promise<ClaimedRow[]>;
}

/** Jobs added to run at once that no claim has looked at before the clock was set back. Its value is now. */
export const addedAhead = `jobs indexed by jobs_added
  where tier is null and created_at > ? and ready = 0 and run_at = created_at`;

/** Statements about claims. */
export function claimsOf(db: Statements) {
  const { integer, name: engine, workerOf: worker } = db.dialect;
  const wasAhead = engine === 'sqlite' ? `or exists (select 1 from ${addedAhead})` : '';
  return {
    /** Whether any job is due, whoever may take it. */
    hasDue: async (at: number) =>
      (
        await db.first<{ due: number }>(
          `select exists (select 1 from jobs where ready = 1) or exists (select 1 from jobs where ready = 2)
           or exists (select 1 from jobs where ready = 0 and run_at <= ?) ${wasAhead} as due`,
          wasAhead === '' ? [at] : [at, at],
        )
      )?.due === 1,
    /** When something can be taken that cannot be now: a job becomes due, a lease expires, a pause ends. */
    nextWake: (at: number, graceMs: number) => nextWake(db, at, graceMs),
    /** Rows of jobs whose claim still holds, locked; without those that others have moved on. */
    held: (claims: readonly ClaimRef[]) => held(db, claims),
    /**
     * Gives back claims that have not begun, unchanged: a job waits as before, whether tried or not. For a job that
     * others have moved on, only the claim ends.
     */
    release: (claims: readonly ClaimRef[], at: number) => release(db, claims, at),
    /** Renews all claims of a worker, each by its own lease; the shortest of these, null: it has none. */
    renew: async (workerId: number, at: number, defaultLeaseMs: number) => {
      await db.run(
        `update jobs set lease_expires_at = ? + coalesce(lease_ms, ${integer('?')}), lease_extended = 0
         where ${isOfWorker} and lease_expires_at is not null`,
        [at, defaultLeaseMs, ...tokensOf(workerId)],
        'none',
      );
      const row = await db.first<{ shortest: number | null }>(
        `select min(coalesce(lease_ms, ${integer('?')})) as shortest from jobs
         where ${isOfWorker} and lease_expires_at is not null`,
        [defaultLeaseMs, ...tokensOf(workerId)],
      );
      return row?.shortest ?? null;
    },
    /** Claims whose lease has expired at that instant; `graceMs` later if the holder is no worker. */
    expired: (at: number, graceMs: number) => expired(db, at, graceMs),
    /** Gives a worker that was late more time. */
    extend: async (id: number, leaseExpiresAt: number) => {
      await db.run('update jobs set lease_expires_at = ?, lease_extended = 1 where id = ?', [leaseExpiresAt, id]);
    },
    /**
     * Every job that a worker of the runner has, or had when it died: `claimed` and `running`, and those that others have
     * moved on, whose process may still run.
     */
    ofWorkers: () => ofWorkers(db, ''),
    /** Those of them whose worker has ended. */
    ofEndedWorkers: () => {
      const hasEnded = `select 1 from workers where id = ${worker('claim_token')} and workers.state <> 'running'`;
      return ofWorkers(db, `and exists (${hasEnded})`);
    },
  };
}

async function nextWake(db: Statements, at: number, graceMs: number): Promise<number | null> {
  // The token of a worker has a dot in it; who is no worker has some more time.
  const row = await db.first<Record<'lease_end' | 'pause_end' | 'due', number | null>>(
    `select (select min(lease_expires_at + case when claim_token like '%.%' then 0 else ? end)
         from jobs where ${hasClaim} and lease_expires_at is not null) as lease_end,
       (select min(until) from pauses where until > ?) as pause_end,
       (select min(run_at) from jobs where ready = 0 and run_at > ?) as due`,
    [graceMs, at, at],
  );
  const { due = null, lease_end: leaseEnd = null, pause_end: pauseEnd = null } = row ?? {};
  return nextWakeAmong({ due, leaseEnd, pauseEnd }, at, graceMs);
}

async function release(db: Statements, claims: readonly ClaimRef[], at: number): Promise<void> {
  const { isIn } = db.dialect;
  const rows = await db.all<ClaimRef & Pick<JobRow, 'state'>>(
    `select id, claim_token as token, state from jobs
     where ${isIn('id')} and ${hasClaim} and state <> 'running' order by id ${db.dialect.forUpdate}`,
    [claims.map(({ id }) => id)],
  );
  const tokens = new Set(claims.map(({ token }) => token));
  const own = rows.filter(({ token }) => tokens.has(token));
  if (own.length === 0) return;
  db.noteWork();
  const [ids, moved] = [own.filter(isClaimed), own.filter((row) => !isClaimed(row))].map(idsOf);
  if (moved?.length) await db.run(`update jobs set claim_token = null where ${isIn('id')}`, [moved]);
  if (!ids?.length) return;
  // A script's job has no lease, and no place in the index of those that are due.
  await db.run(
    `update jobs set state = case when attempts > 0 then 'retrying' else 'queued' end,
       ready = case when tier is null then case when run_at <= ? then 1 else 0 end end, claim_token = null,
       lease_expires_at = null, lease_extended = 0
     where ${isIn('id')}`,
    [at, ids],
  );
}

const isClaimed = ({ state }: Pick<JobRow, 'state'>): boolean => state === 'claimed';
const idsOf = (rows: readonly ClaimRef[]): number[] => rows.map(({ id }) => id);

/** One step into an index for each row: of `exists`, a planner may make one look at the whole table. */
export const isThere = (rows: string): string =>
  `(case when (select 1 from ${rows} limit 1) is null then 0 else 1 end)`;

async function held(db: Statements, claims: readonly ClaimRef[]): Promise<HeldRow[]> {
  if (claims.length === 0) return [];
  const tokens = new Set(claims.map(({ token }) => token));
  const rows = await db.all<JobHead & { claim_token: string; has_children: number }>(
    `select ${headOfJob}, ${isThere('jobs as child where child.parent_id = jobs.id')} as has_children
     from jobs where ${db.dialect.isIn('id')} and ${hasClaim} and state in ('claimed', 'running') order by id
     ${db.inTransaction ? db.dialect.forUpdate : ''}`,
    [claims.map(({ id }) => id)],
  );
  return rows
    .filter(({ claim_token }) => tokens.has(claim_token))
    .map((row) => ({ ...row, has_children: row.has_children === 1 }));
}

/** Sorted here: asked for rows in the order of their numbers, MariaDB reads all jobs by those. */
const byId = (one: JobHead, other: JobHead): number => one.id - other.id;

/** A claim whose row somebody has locked is settled or taken back by that session. */
async function expired(db: Statements, at: number, graceMs: number): Promise<ExpiredClaim[]> {
  const rows = await db.all<JobHead>(
    `select ${headOfJob} from jobs where ${hasClaim} and lease_expires_at < ? and tier is null
       and state in ('claimed', 'running') ${db.inTransaction ? db.dialect.skipLocked : ''}`,
    [at],
  );
  return expiredAmong(rows.sort(byId), at, graceMs);
}

async function ofWorkers(db: Statements, which: string): Promise<ClaimOfWorker[]> {
  const jobs = await db.all<JobHead>(
    `select ${headOfJob} from jobs where ${hasClaim} and (tier is null or not ${isEndedElsewhere}) ${which}`,
  );
  jobs.sort(byId);
  const ids = new Set(jobs.flatMap(({ claim_token }) => workerOf(claim_token as string) ?? []));
  if (ids.size === 0) return [];
  const workers = new Map((await workersById(db, [...ids])).map((worker) => [worker.id, worker]));
  const runs = await runningRuns(
    db,
    jobs.map(({ id }) => id),
  );
  return jobs.flatMap((job) => {
    const token = job.claim_token as string;
    const worker = workers.get(workerOf(token) ?? 0);
    return worker === undefined ? [] : { job, token, worker, run: runs.get(job.id) ?? null };
  });
}

/** Every name that has a job which is due, by one step into the index for each. */
export async function readyNames(db: Statements): Promise<string[]> {
  const rows = await db.all<{ name: string }>(
    `with recursive names (name) as (
       select min(name) from jobs where ready = 1
       union all
       select (select min(jobs.name) from jobs where ready = 1 and jobs.name > names.name)
       from names where names.name is not null)
     select name from names where name is not null`,
  );
  return rows.map(({ name }) => name);
}

/** How many of each group are claimed: asked once, as nothing changes meanwhile but by what is taken here. */
export class Groups {
  readonly #db: Statements;
  readonly #limit: number | null;
  #counts: Map<string, number> | null = null;

  constructor(db: Statements, limit: number | null) {
    this.#db = db;
    this.#limit = limit;
  }

  /** Counts one more of that key; false: it is full. */
  async take(key: string | null): Promise<boolean> {
    if (this.#limit === null || key === null) return true;
    this.#counts ??= await this.#read();
    const taken = this.#counts.get(key) ?? 0;
    if (taken >= this.#limit) return false;
    this.#counts.set(key, taken + 1);
    return true;
  }

  async full(): Promise<string[]> {
    const limit = this.#limit;
    if (limit === null) return [];
    this.#counts ??= await this.#read();
    return [...this.#counts].filter(([, jobs]) => jobs >= limit).map(([key]) => key);
  }

  /**
   * The first of these jobs that may be claimed together, at most `count`, and the jobs before them whose group is
   * full: those are not locked in vain.
   */
  async fitting(jobs: readonly WaitingJob[], count: number) {
    const together = new Map<string, number>();
    const found: WaitingJob[] = [];
    const blocked: WaitingJob[] = [];
    for (const job of jobs) {
      if (found.length === count) break;
      const key = job.concurrency_key;
      if (this.#limit === null || key === null) {
        found.push(job);
        continue;
      }
      this.#counts ??= await this.#read();
      const more = (together.get(key) ?? 0) + 1;
      const fits = (this.#counts.get(key) ?? 0) + more <= this.#limit;
      if (fits) together.set(key, more);
      (fits ? found : blocked).push(job);
    }
    return { found, blocked };
  }

  /**
   * A transaction that claims jobs of groups does so alone until its end: otherwise two would count the same number.
   */
  async #read(): Promise<Map<string, number>> {
    if (this.#db.inTransaction) await lock(this.#db, 'groups');
    const rows = await this.#db.all<{ name: string; jobs: number }>(
      `select concurrency_key as name, count(*) as jobs from jobs
       where ${hasClaim} and concurrency_key is not null group by concurrency_key`,
    );
    return new Map(rows.map(({ name, jobs }) => [name, jobs]));
  }
}
