import { inPages } from '../../../system/base/values.ts';
import type { NewWorker, PassFilter, PassRow, SeenFrom, WorkerEnd, WorkerStore } from '../../contract/workers.ts';
import type { WorkerRow } from '../../schema.ts';
import { marks, matching } from '../../shared/sql/dialect.ts';
import { lock } from '../../shared/sql/mutex.ts';
import { RowTaken } from '../../shared/sql/statements.ts';
import { withTiers } from '../../shared/sql/tiers.ts';
import type { SkipCode, WorkerState } from '../../words.ts';
import type { ServerStatements } from '../session.ts';
import { hasClaim } from './job-rows.ts';

const columns = `workers.id, kind, tier, state, host_id, pid, pid_start_ticks, triggered_by,
  scheduled_for, started_at, lease_expires_at, finished_at, skip_code, reason, host, boot_id, runner_version, node_version`;
const from = `select ${columns} from workers join hosts on hosts.id = host_id`;

export function serverWorkers(db: ServerStatements): WorkerStore {
  return { ...begins(db), ...goesOn(db), ...reads(db) };
}

function begins(db: ServerStatements): Pick<WorkerStore, 'start' | 'startOneOf' | 'skip' | 'addEnded'> {
  return {
    start: async (worker) => {
      await refuseSecond(db, worker);
      return await insert(db, worker, { state: 'running' });
    },
    startOneOf: async (worker, most) => {
      await lock(db, `queue on ${worker.host}`);
      const { where, values } = matching({ state: 'running', kind: 'queue', host: worker.host });
      const living = (await db.all(`${from} where ${where}`, values)).length;
      return living < most ? { id: await insert(db, worker, { state: 'running' }) } : { living };
    },
    skip: (worker, skipCode, reason) =>
      insert(db, worker, { state: 'skipped', skipCode, reason, endedAt: worker.startedAt }),
    addEnded: (worker, { state, at, reason }) => insert(db, worker, { state, endedAt: at, reason }),
  };
}

function goesOn(db: ServerStatements): Pick<WorkerStore, 'end' | 'correct' | 'heartbeat' | 'extendLease'> {
  return {
    end: (id, end) => close(db, id, end, `and state = 'running'`),
    correct: async (id, end) => {
      await close(db, id, end, '');
    },
    heartbeat: async (id, leaseExpiresAt) =>
      (await db.run(
        `update workers set lease_expires_at = ? where id = ? and state = 'running'`,
        [leaseExpiresAt, id],
        'none',
      )) > 0,
    extendLease: async (id, leaseExpiresAt) => {
      await db.run('update workers set lease_expires_at = ? where id = ?', [leaseExpiresAt, id]);
    },
  };
}

function reads(db: ServerStatements): Omit<WorkerStore, keyof (ReturnType<typeof begins> & ReturnType<typeof goesOn>)> {
  return {
    running: async (tier, host) => {
      const { where, values } = matching({ state: 'running', tier, host });
      return await db.all<WorkerRow>(`${from} where ${where} order by started_at, workers.id`, values);
    },
    suspects: (seen) => {
      const { condition, values } = atWork(seen);
      return db.all<WorkerRow>(`${from} where ${condition} order by started_at, workers.id`, values);
    },
    byId: (ids) => workersOnServer(db, ids),
    find: (worker) => find(db, worker),
    lastCalls: () => lastCalls(db),
    passes: (tier, filter) => passes(db, tier, filter),
    hasOpen: (seen) => hasOpen(db, seen),
  };
}

export async function workersOnServer(db: ServerStatements, ids: readonly number[]): Promise<WorkerRow[]> {
  const found: WorkerRow[] = [];
  for (const page of inPages(ids)) {
    found.push(...(await db.all<WorkerRow>(`${from} where ${db.dialect.isIn('workers.id')}`, [page])));
  }
  return found;
}

/** Two passes of a tier may begin at once on one machine: the second one looks again, and sees the first. */
async function refuseSecond(db: ServerStatements, { tier, host }: NewWorker): Promise<void> {
  if (tier === null) return;
  await lock(db, `pass of ${tier} on ${host}`);
  const { where, values } = matching({ state: 'running', tier, host });
  if ((await db.first(`${from} where ${where} limit 1`, values)) === undefined) return;
  throw new RowTaken(`a pass of ${tier} is running on ${host}`);
}

interface Beginning {
  readonly state: WorkerState;
  readonly skipCode?: SkipCode;
  readonly reason?: string | null;
  /** Left out: it is at work. */
  readonly endedAt?: number;
}

const insertText = `insert into workers (kind, tier, state, host_id, pid, pid_start_ticks, triggered_by,
  scheduled_for, started_at, lease_expires_at, finished_at, skip_code, reason)
  values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`;

async function insert(db: ServerStatements, worker: NewWorker, beginning: Beginning): Promise<number> {
  const { kind, tier, pid, startTicks, trigger, scheduledFor, startedAt, leaseExpiresAt } = worker;
  const { state, skipCode, reason, endedAt } = beginning;
  const [id] = await db.insert(insertText, [
    ...[kind, tier, state, await hostNumber(db, worker), pid, startTicks, trigger, scheduledFor],
    ...[startedAt, leaseExpiresAt, endedAt, skipCode, reason],
  ]);
  return id as number;
}

async function hostNumber(db: ServerStatements, worker: NewWorker): Promise<number> {
  const { host, bootId: boot_id, runnerVersion: runner_version, nodeVersion: node_version } = worker;
  const row = { host, boot_id, runner_version, node_version };
  const read = async (): Promise<number | undefined> => {
    const { where, values } = matching(row);
    return (await db.first<{ id: number }>(`select id from hosts where ${where} order by id limit 1`, values))?.id;
  };
  const known = await read();
  if (known !== undefined) return known;
  await lock(db, 'hosts');
  const names = Object.keys(row);
  const add = () => db.insert(`insert into hosts (${names.join(', ')}) values ${marks(names)}`, Object.values(row));
  return (await read()) ?? ((await add())[0] as number);
}

async function close(db: ServerStatements, id: number, end: WorkerEnd, condition: string): Promise<boolean> {
  const text = `update workers set state = ?, finished_at = ?, reason = ? where id = ? ${condition}`;
  return (await db.run(text, [end.state, end.at, end.reason, id])) > 0;
}

async function find(db: ServerStatements, worker: NewWorker): Promise<WorkerRow | null> {
  const { kind, tier, host, bootId, pid, startTicks, startedAt } = worker;
  const { where, values } = matching({
    ...{ tier, started_at: startedAt, kind, host, boot_id: bootId, pid },
    pid_start_ticks: startTicks,
  });
  return (await db.first<WorkerRow>(`${from} where ${where} order by workers.id limit 1`, values)) ?? null;
}

/** MySQL would rather read all workers, the newest first. PostgreSQL sees a comment. */
const inOrder = 'workers /*! force index (workers_in_order) */';

/** By number, not by time: the clock may have been set back. */
async function lastCalls(db: ServerStatements): Promise<ReadonlyMap<string, number>> {
  const rows = await db.all<{ tier: string; at: number | null }>(
    `${withTiers(db.dialect)} select tier, (select started_at from ${inOrder} where workers.tier = tiers.tier
       and kind = 'tier' and triggered_by <> 'manual' order by id desc limit 1) as at
     from tiers where tiers.tier is not null`,
  );
  return new Map(rows.flatMap(({ tier, at }) => (at === null ? [] : [[tier, at] as const])));
}

/** By number, as above. */
async function passes(db: ServerStatements, tier: string, filter: PassFilter): Promise<PassRow[]> {
  const { limit, scheduledFor, startedFrom, states, host } = filter;
  const { where, values } = matching({ kind: 'tier', tier, scheduled_for: scheduledFor });
  const conditions = [
    ...[where, startedFrom !== undefined && 'started_at >= ?', states && db.dialect.isIn('state')],
    host !== undefined && 'host_id in (select id from hosts where host = ?)',
  ];
  return await db.all<PassRow>(
    `select id, state, started_at as "startedAt", scheduled_for as "scheduledFor", skip_code as "skipCode", reason
     from ${inOrder} where ${conditions.filter(Boolean).join(' and ')} order by id desc limit ?`,
    [
      ...[...values, ...(startedFrom === undefined ? [] : [startedFrom])],
      ...[...(states === undefined ? [] : [states]), ...(host === undefined ? [] : [host]), limit],
    ],
  );
}

function atWork(seen?: SeenFrom): { readonly condition: string; readonly values: readonly unknown[] } {
  if (seen === undefined) return { condition: `state = 'running'`, values: [] };
  return { condition: `state = 'running' and (host = ? or lease_expires_at < ?)`, values: [seen.host, seen.at] };
}

async function hasOpen(db: ServerStatements, seen?: SeenFrom): Promise<boolean> {
  const worker = db.dialect.workerOf('claim_token');
  const { condition, values } = atWork(seen);
  const claimed =
    seen === undefined
      ? `select 1 from jobs where ${hasClaim} and ${worker} is not null`
      : `select 1 from jobs join workers on workers.id = ${worker}
         where ${hasClaim} and workers.state <> 'running'`;
  const found = await db.first<{ is_open: number }>(
    `select case when exists (select 1 from workers join hosts on hosts.id = host_id where ${condition})
       or exists (${claimed}) then 1 else 0 end as is_open`,
    values,
  );
  return found?.is_open === 1;
}
