import { inPages } from '../../../system/base/values.ts';
import type { NewWorker, PassFilter, PassRow, WorkerEnd, WorkerStore } from '../../contract/workers.ts';
import type { WorkerRow } from '../../schema.ts';
import type { Sync } from '../../shared/areas.ts';
import type { SkipCode, WorkerState } from '../../words.ts';
import type { SqliteStatements } from '../session.ts';

const columns = `workers.id, kind, tier, state, host_id, pid, pid_start_ticks, triggered_by,
  scheduled_for, started_at, lease_expires_at, finished_at, skip_code, reason, host, boot_id, runner_version, node_version`;
const from = `select ${columns} from workers join hosts on hosts.id = host_id`;

export function sqliteWorkers(db: SqliteStatements): Sync<WorkerStore> {
  return {
    start: (worker) => insert(db, worker, { state: 'running' }),
    startOneOf: (worker, most) => {
      const living = db.first<{ living: number }>(livingText)?.living ?? 0;
      return living < most ? { id: insert(db, worker, { state: 'running' }) } : { living };
    },
    skip: (worker, skipCode, reason) =>
      insert(db, worker, { state: 'skipped', skipCode, reason, endedAt: worker.startedAt }),
    addEnded: (worker, { state, at, reason }) => insert(db, worker, { state, endedAt: at, reason }),
    end: (id, end) => close(db, id, end, `and state = 'running'`),
    correct: (id, end) => {
      close(db, id, end, '');
    },
    heartbeat: (id, leaseExpiresAt) =>
      db.run(`update workers set lease_expires_at = ? where id = ? and state = 'running'`, [leaseExpiresAt, id]) > 0,
    extendLease: (id, leaseExpiresAt) => {
      db.run('update workers set lease_expires_at = ? where id = ?', [leaseExpiresAt, id]);
    },
    running: (tier, host) =>
      db.all<WorkerRow>(
        `${from} where state = 'running' and tier is coalesce(?, tier) and host = coalesce(?, host)
         order by started_at`,
        [tier ?? null, host ?? null],
      ),
    suspects: () => db.all<WorkerRow>(`${from} where state = 'running'`),
    byId: (ids) => workersById(db, ids),
    find: (worker) => find(db, worker),
    lastCalls: () => lastCalls(db),
    passes: (tier, filter) => passes(db, tier, filter),
    hasOpen: (seen) =>
      (seen === undefined ? db.first(openText) : db.first(openElsewhereText, [seen.host, seen.at])) !== undefined,
  };
}

const livingText = `select count(*) as living from workers where state = 'running' and kind = 'queue'`;

const openText = `select 1 where exists (select 1 from workers where state = 'running')
  or exists (select 1 from jobs where claim_token is not null and instr(claim_token, '.') > 0)`;

const openElsewhereText = `select 1 where exists (select 1 from workers join hosts on hosts.id = host_id
    where state = 'running' and (host = ? or lease_expires_at < ?))
  or exists (select 1 from jobs join workers on workers.id = cast(claim_token as integer)
    where claim_token is not null and instr(claim_token, '.') > 0 and workers.state <> 'running')`;

export function workersById(db: SqliteStatements, ids: readonly number[]): WorkerRow[] {
  return [...inPages(ids)].flatMap((page) =>
    db.all<WorkerRow>(`${from} where workers.id in (select value from json_each(?))`, [JSON.stringify(page)]),
  );
}

interface Beginning {
  readonly state: WorkerState;
  readonly skipCode?: SkipCode;
  readonly reason?: string | null;
  /** Null: it is at work. */
  readonly endedAt?: number;
}

const hostKey = 'host = ? and boot_id is ? and runner_version = ? and node_version = ?';

const insertText = `insert into workers (kind, tier, state, pid, pid_start_ticks, triggered_by,
  scheduled_for, started_at, lease_expires_at, finished_at, skip_code, reason, host_id)
  select ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, id from hosts where ${hostKey} limit 1 returning id`;

function insert(db: SqliteStatements, worker: NewWorker, { state, skipCode, reason, endedAt }: Beginning): number {
  const { kind, tier, pid, startTicks, trigger, scheduledFor, startedAt } = worker;
  const { host, bootId, runnerVersion, nodeVersion } = worker;
  const ofHost = [host, bootId, runnerVersion, nodeVersion];
  const add = (): number | undefined =>
    db.first<{ id: number }>(insertText, [
      ...[kind, tier, state, pid, startTicks, trigger, scheduledFor, startedAt],
      ...[worker.leaseExpiresAt ?? null, endedAt ?? null, skipCode ?? null, reason ?? null, ...ofHost],
    ])?.id;
  const id = add();
  if (id !== undefined) return id;
  db.run('insert into hosts (host, boot_id, runner_version, node_version) values (?, ?, ?, ?)', ofHost);
  return add() as number;
}

function close(db: SqliteStatements, id: number, end: WorkerEnd, condition: string): boolean {
  return (
    db.run(`update workers set state = ?, finished_at = ?, reason = ? where id = ? ${condition}`, [
      ...[end.state, end.at, end.reason, id],
    ]) > 0
  );
}

function find(db: SqliteStatements, worker: NewWorker): WorkerRow | null {
  const { kind, tier, host, bootId, pid, startTicks, startedAt } = worker;
  return (
    db.first<WorkerRow>(
      `${from} where tier is ? and started_at = ? and kind = ? and host = ? and boot_id is ?
         and pid = ? and pid_start_ticks is ?`,
      [tier, startedAt, kind, host, bootId, pid, startTicks],
    ) ?? null
  );
}

/** One step into the index for each tier, where `group by` would read all of it; by number, as below. */
function lastCalls(db: SqliteStatements): ReadonlyMap<string, number> {
  const rows = db.all<{ tier: string; at: number | null }>(
    `with recursive tiers (name) as (
       select min(tier) from workers
       union all
       select (select min(tier) from workers where tier > tiers.name) from tiers where name is not null)
     select name as tier, (select started_at from workers where tier = tiers.name and kind = 'tier'
       and triggered_by <> 'manual' order by id desc limit 1) as at
     from tiers where name is not null`,
  );
  return new Map(rows.flatMap(({ tier, at }) => (at === null ? [] : [[tier, at] as const])));
}

/** By number, not by time: the clock may have been set back. */
function passes(db: SqliteStatements, tier: string, filter: PassFilter): PassRow[] {
  const { limit, scheduledFor, startedFrom, states, host } = filter;
  return db.all<PassRow>(
    `select id, state, started_at as startedAt, scheduled_for as scheduledFor,
       skip_code as skipCode, reason from workers indexed by workers_in_order
     where kind = 'tier' and tier = ? and (? is null or scheduled_for = ?)
       and (? is null or started_at >= ?) and (? is null or state in (select value from json_each(?)))
       and (? is null or host_id in (select id from hosts where host = ?))
     order by id desc limit ?`,
    [
      ...[tier, scheduledFor ?? null, scheduledFor ?? null, startedFrom ?? null],
      ...[startedFrom ?? null, ...Array(2).fill(states ? JSON.stringify(states) : null)],
      ...[host ?? null, host ?? null, limit],
    ],
  );
}
