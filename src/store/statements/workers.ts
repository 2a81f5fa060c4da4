import { inPages } from '../../system/base/values.ts';
import { checkLiveness, type ProcessIdentity } from '../../system/process/identity.ts';
import type { WorkerRow } from '../schema.ts';
import { type Dialect, marks, matching } from '../shared/sql/dialect.ts';
import { lock, RowTaken, type Statements } from '../shared/sql/statements.ts';
import type { SkipCode, Trigger, WorkerKind, WorkerState } from '../words.ts';
import { hasClaim } from './job-rows.ts';

/** A worker as it begins. */
export interface NewWorker {
  readonly kind: WorkerKind;
  /** Null: it processes jobs of the queue. */
  readonly tier: string | null;
  readonly host: string;
  readonly bootId: string | null;
  readonly pid: number;
  readonly startTicks: number | null;
  readonly trigger: Trigger;
  /** The person who called it. Left out, or null: nobody did. */
  readonly actor?: string | null;
  readonly scheduledFor: number | null;
  readonly startedAt: number;
  readonly runnerVersion: string;
  readonly nodeVersion: string;
  /** Until when other machines believe that it lives, unless it renews that. Left out, or null: its process tells. */
  readonly leaseExpiresAt?: number | null;
}

export interface WorkerEnd {
  readonly state: 'finished' | 'crashed';
  readonly at: number;
  readonly reason: string | null;
}

/** A pass that has ended or was skipped. */
export interface PassRow {
  readonly id: number;
  readonly state: WorkerRow['state'];
  readonly startedAt: number;
  readonly scheduledFor: number | null;
  readonly skipCode: SkipCode | null;
  readonly reason: string | null;
}

/** A machine of a fleet, which sees its own processes alone, and when it looks. */
export interface SeenFrom {
  readonly host: string;
  readonly at: number;
}

export interface PassFilter {
  readonly limit: number;
  readonly scheduledFor?: number | undefined;
  readonly startedFrom?: number | undefined;
  /** Only those of this machine. */
  readonly host?: string | undefined;
  readonly states?: readonly WorkerRow['state'][] | undefined;
}

/** The process of a worker. */
export function processOf({ host, boot_id: bootId, pid, pid_start_ticks: startTicks }: WorkerRow): ProcessIdentity {
  return { host, bootId, pid, startTicks };
}

/** Whether a worker has ended, or its process is gone, as far as this machine can see. */
export function isGone(worker: WorkerRow): boolean {
  return worker.state !== 'running' || checkLiveness(processOf(worker)) === 'dead';
}

const columns = `workers.id, kind, tier, state, host_id, pid, pid_start_ticks, triggered_by, actor,
  scheduled_for, started_at, lease_expires_at, finished_at, skip_code, reason, host, boot_id, runner_version, node_version`;

/** Workers with what their hosts say. */
const workersText = `select ${columns} from workers join hosts on hosts.id = host_id`;

/** As a text, not as a value: it is the condition of an index. */
const isRunning = `state = 'running'`;

/** Whether all workers are on one machine, whatever its name was when they began: they share a file. */
const isOfOneMachine = ({ dialect }: Statements): boolean => dialect.name === 'sqlite';

export function workersOf(db: Statements) {
  return { ...begins(db), ...goesOn(db), ...reads(db) };
}

function begins(db: Statements) {
  return {
    start: async (worker: NewWorker) => {
      await refuseSecond(db, worker);
      return await insert(db, worker, { state: 'running' });
    },
    /**
     * Adds a worker of the queue, unless `most` of them are working: on a database server, on its machine. Call it in a
     * transaction: workers that begin at the same time see each other.
     *
     * @returns its number, or how many are working
     */
    startOneOf: async (worker: NewWorker, most: number) => {
      await lock(db, `queue on ${worker.host}`);
      const { where, values } = matching({ kind: 'queue', host: isOfOneMachine(db) ? undefined : worker.host });
      const living = (await db.all(`${workersText} where ${isRunning} and ${where}`, values)).length;
      return living < most ? { id: await insert(db, worker, { state: 'running' }) } : { living };
    },
    skip: (worker: NewWorker, skipCode: SkipCode, reason: string) =>
      insert(db, worker, { state: 'skipped', skipCode, reason, endedAt: worker.startedAt }),
    /** Records a worker that has ended without the log. */
    addEnded: (worker: NewWorker, { state, at, reason }: WorkerEnd) =>
      insert(db, worker, { state, endedAt: at, reason }),
  };
}

function goesOn(db: Statements) {
  return {
    /** Only while its row says that it is working. False: somebody else has ended it. */
    end: (id: number, end: WorkerEnd) => close(db, id, end, `and ${isRunning}`),
    /** A worker's own report in its spool counts more than the discovery that it is dead. */
    correct: async (id: number, end: WorkerEnd) => {
      await close(db, id, end, '');
    },
    /** Only while its row says that it is working. False: somebody else has ended it. */
    heartbeat: async (id: number, leaseExpiresAt: number) =>
      (await db.run(
        `update workers set lease_expires_at = ? where id = ? and ${isRunning}`,
        [leaseExpiresAt, id],
        'none',
      )) > 0,
    /** Extends the lease of a worker that has ended: its runs go on there, and are left alone until then. */
    extendLease: async (id: number, leaseExpiresAt: number) => {
      await db.run('update workers set lease_expires_at = ? where id = ?', [leaseExpiresAt, id]);
    },
  };
}

function reads(db: Statements) {
  return {
    /** Workers whose rows say that they are working: of a tier or all; on one machine or all. */
    running: async (tier?: string, host?: string) => {
      const { where, values } = matching({ tier, host });
      return await db.all<WorkerRow>(
        `${workersText} where ${isRunning} and ${where} order by started_at, workers.id`,
        values,
      );
    },
    /**
     * Workers that may be dead: all; on a fleet, those of this machine, and others only after their lease has expired.
     */
    suspects: (seen?: SeenFrom) => {
      const { condition, values } = atWork(isOfOneMachine(db) ? undefined : seen);
      return db.all<WorkerRow>(`${workersText} where ${condition} order by started_at, workers.id`, values);
    },
    byId: (ids: readonly number[]) => workersById(db, ids),
    /** The worker that matches this description. */
    find: (worker: NewWorker) => find(db, worker),
    /** Passes of a tier, the newest first: how far back, and of which states. */
    passes: (tier: string, filter: PassFilter) => passes(db, tier, filter),
    /**
     * Whether there may be something to rescue: a worker at work, a job that a worker has, or a lease that has expired.
     *
     * @param seen on a fleet, by whom: workers of other machines count only once their lease has expired, and jobs only
     *   where their worker has ended
     */
    hasOpen: (at: number, seen?: SeenFrom) => hasOpen(db, at, seen),
  };
}

export async function workersById(db: Statements, ids: readonly number[]): Promise<WorkerRow[]> {
  const found: WorkerRow[] = [];
  for (const page of inPages(ids)) {
    found.push(...(await db.all<WorkerRow>(`${workersText} where ${db.dialect.isIn('workers.id')}`, [page])));
  }
  return found;
}

/**
 * Two passes of a tier may begin at once on one machine: the second one looks again, and sees the first. A file of
 * SQLite refuses it by an index.
 */
async function refuseSecond(db: Statements, { tier, host }: NewWorker): Promise<void> {
  if (tier === null || db.dialect.name === 'sqlite') return;
  await lock(db, `pass of ${tier} on ${host}`);
  const { where, values } = matching({ tier, host });
  if ((await db.first(`${workersText} where ${isRunning} and ${where} limit 1`, values)) === undefined) return;
  throw new RowTaken(`a pass of ${tier} is running on ${host}`);
}

interface Beginning {
  readonly state: WorkerState;
  readonly skipCode?: SkipCode;
  readonly reason?: string | null;
  /** Left out: it is at work. */
  readonly endedAt?: number;
}

const names = `kind, tier, state, pid, pid_start_ticks, triggered_by, actor, scheduled_for, started_at, lease_expires_at,
  finished_at, skip_code, reason, host_id`;

async function insert(db: Statements, worker: NewWorker, beginning: Beginning): Promise<number> {
  const { kind, tier, pid, startTicks, trigger, actor, scheduledFor, startedAt, leaseExpiresAt } = worker;
  const { state, skipCode, reason, endedAt } = beginning;
  const values = [
    ...[kind, tier, state, pid, startTicks, trigger, actor, scheduledFor, startedAt, leaseExpiresAt],
    ...[endedAt, skipCode, reason],
  ];
  const known = db.dialect.name === 'sqlite' ? await insertAtKnownHost(db, values, worker) : undefined;
  if (known !== undefined) return known;
  const host = await hostNumber(db, worker);
  const [id] = await db.insert(`insert into workers (${names}) values ${marks([...values, host])}`, [...values, host]);
  return id as number;
}

/** One statement instead of two. Undefined: no worker of this host was recorded yet. */
async function insertAtKnownHost(
  db: Statements,
  values: readonly unknown[],
  worker: NewWorker,
): Promise<number | undefined> {
  const host = matching(hostOf(worker));
  const text = `insert into workers (${names}) select ${values.map(() => '?').join(', ')}, id
    from hosts where ${host.where} order by id limit 1 returning id`;
  return (await db.first<{ id: number }>(text, [...values, ...host.values]))?.id;
}

const hostOf = ({ host, bootId, runnerVersion, nodeVersion }: NewWorker) => ({
  ...{ host, boot_id: bootId, runner_version: runnerVersion, node_version: nodeVersion },
});

async function hostNumber(db: Statements, worker: NewWorker): Promise<number> {
  const row = hostOf(worker);
  const read = async (): Promise<number | undefined> => {
    const { where, values } = matching(row);
    return (await db.first<{ id: number }>(`select id from hosts where ${where} order by id limit 1`, values))?.id;
  };
  const known = await read();
  if (known !== undefined) return known;
  await lock(db, 'hosts');
  const columns = Object.keys(row);
  const add = () => db.insert(`insert into hosts (${columns.join(', ')}) values ${marks(columns)}`, Object.values(row));
  return (await read()) ?? ((await add())[0] as number);
}

async function close(db: Statements, id: number, end: WorkerEnd, condition: string): Promise<boolean> {
  const text = `update workers set state = ?, finished_at = ?, reason = ? where id = ? ${condition}`;
  return (await db.run(text, [end.state, end.at, end.reason, id])) > 0;
}

async function find(db: Statements, worker: NewWorker): Promise<WorkerRow | null> {
  const { kind, tier, host, bootId, pid, startTicks, startedAt } = worker;
  const { where, values } = matching({
    ...{ tier, started_at: startedAt, kind, host, boot_id: bootId, pid },
    pid_start_ticks: startTicks,
  });
  return (await db.first<WorkerRow>(`${workersText} where ${where} order by workers.id limit 1`, values)) ?? null;
}

/** By themselves MySQL and SQLite would rather read all workers, the newest first. */
const inOrder = ({ byIndex }: Dialect): string =>
  byIndex('workers', { sqlite: 'workers_in_order', mysql: 'workers_in_order' });

/** By number, not by time: the clock may have been set back. */
async function passes(db: Statements, tier: string, filter: PassFilter): Promise<PassRow[]> {
  const { limit, scheduledFor, startedFrom, states, host } = filter;
  const { where, values } = matching({ tier, scheduled_for: scheduledFor });
  const conditions = [
    ...[`kind = 'tier'`, where, startedFrom !== undefined && 'started_at >= ?', states && db.dialect.isIn('state')],
    host !== undefined && 'host_id in (select id from hosts where host = ?)',
  ];
  return await db.all<PassRow>(
    `select id, state, started_at as "startedAt", scheduled_for as "scheduledFor", skip_code as "skipCode", reason
     from ${inOrder(db.dialect)} where ${conditions.filter(Boolean).join(' and ')} order by id desc limit ?`,
    [
      ...[...values, ...(startedFrom === undefined ? [] : [startedFrom])],
      ...[...(states === undefined ? [] : [states]), ...(host === undefined ? [] : [host]), limit],
    ],
  );
}

function atWork(seen?: SeenFrom): { readonly condition: string; readonly values: readonly unknown[] } {
  if (seen === undefined) return { condition: isRunning, values: [] };
  return { condition: `${isRunning} and (host = ? or lease_expires_at < ?)`, values: [seen.host, seen.at] };
}

async function hasOpen(db: Statements, at: number, seen?: SeenFrom): Promise<boolean> {
  const worker = db.dialect.workerOf('claim_token');
  const { condition, values } = atWork(seen);
  const claimed =
    seen === undefined
      ? `select 1 from jobs where ${hasClaim} and ${worker} is not null`
      : `select 1 from jobs join workers on workers.id = ${worker}
         where ${hasClaim} and workers.state <> 'running'`;
  const found = await db.first<{ is_open: number }>(
    `select case when exists (select 1 from workers join hosts on hosts.id = host_id where ${condition})
       or exists (${claimed})
       or exists (select 1 from jobs where ${hasClaim} and lease_expires_at < ? and tier is null
         and state in ('claimed', 'running')) then 1 else 0 end as is_open`,
    [...values, at],
  );
  return found?.is_open === 1;
}
