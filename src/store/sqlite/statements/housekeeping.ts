import type { EventStore, Expiry, NewEvent, Prunable, PruneStep, PruneStore } from '../../contract/housekeeping.ts';
import { kindOfStoreFailure } from '../../failures.ts';
import type { Sync } from '../../shared/areas.ts';
import { isFailure, outcomes } from '../../words.ts';
import type { SqliteSession, SqliteStatements } from '../session.ts';
import { counting, keepCounts, LateRows } from './counted.ts';
import { deleteJobs } from './jobs.ts';

export function sqliteEvents(db: SqliteStatements): Sync<EventStore> {
  return {
    record: (events) => {
      for (const event of events) recordEvent(db, event);
    },
    newestAt: () =>
      db.first<{ at: number | null }>(
        `select max(at) as at from (
           select * from (select started_at as at from workers order by id desc limit 1)
           union all select * from (select created_at from jobs order by id desc limit 1)
           union all select * from (select at from events order by id desc limit 1))`,
      )?.at ?? null,
  };
}

const eventText = `insert into events (at, event, worker_id, job_id, run_id, detail, actor)
  values (?, ?, ?, ?, ?, ?, ?)`;

export function recordEvent(db: SqliteStatements, event: NewEvent): void {
  const { at, event: code, workerId = null, jobId = null, runId = null, detail = null, actor = null } = event;
  const id = db.insert(eventText, [at, code, workerId, jobId, runId, detail, actor]);
  if (code === 'job-failed' || code === 'job-buried') new LateRows(db).event(id, at);
}

const failures = outcomes
  .filter(isFailure)
  .map((outcome) => `'${outcome}'`)
  .join(', ');

/** A parent that has not ended still needs its children; one that repeats never ends. */
const isReported = `(parent_id is null or reported_to_parent = 1 or not exists (
  select 1 from jobs parent where parent.id = jobs.parent_id and parent.finished_at is null))`;

/**
 * Rows are numbered in the order of their instants, nearly, so that those behind the first young one need no look.
 * One that is ahead of the newest was written while the clock was, and says nothing.
 */
const isAmongOldest = (table: 'runs' | 'workers'): string =>
  `${table}.id < coalesce((select id from ${table} where started_at
     between ? and (select started_at from ${table} order by id desc limit 1) order by id limit 1),
     ${Number.MAX_SAFE_INTEGER})`;

const nothing: PruneStep = { deleted: 0, outputFiles: [] };

const areEnded = `state in (select value from json_each(?)) and finished_at < ? and finished_at is not null
  and tier is null and ${isReported}`;

/**
 * Old runs of jobs that have no end: scripts, and jobs that repeat. A run's age counts from its end. Other runs go with
 * their jobs.
 */
const areOld = `${isAmongOldest('runs')} and outcome <> 'running'
  and coalesce(finished_at, started_at) < case when outcome in (${failures}) then ? else ? end
  and exists (select 1 from jobs where jobs.id = job_id
    and (tier is not null or (repeat is not null and finished_at is null)))`;

const valuesOfOld = ({ succeeded, failed }: Pick<Expiry, 'succeeded' | 'failed'>): readonly number[] => [
  ...[Math.max(succeeded, failed), failed, succeeded],
];

const areWithoutRuns = `finished_at < ? and ${isAmongOldest('workers')} and id not in (
  select worker_id from runs where worker_id is not null and ${isAmongOldest('runs')})`;

const usedBytes = `select (page_count - freelist_count) * page_size
    + (select coalesce(sum(output_file_bytes), 0) from runs where output_file is not null)
  from pragma_page_count, pragma_freelist_count, pragma_page_size`;

export function sqlitePruning(session: SqliteSession): Sync<PruneStore> {
  const db: SqliteStatements = session;
  return {
    look: (before) => look(db, before),
    endedJobs: (states, before, limit) =>
      removeJobs(db, `${areEnded} order by finished_at limit ?`, [JSON.stringify(states), before, limit]),
    runs: (before, limit) => removeRuns(db, `${areOld} order by runs.id limit ?`, [...valuesOfOld(before), limit]),
    oldest: (limit) => removeOldest(db, limit),
    events: (before, limit) => removeEvents(db, before, limit),
    workers: (before, limit) => ({
      ...nothing,
      deleted: db.run(
        `delete from workers where id in (select id from workers where ${areWithoutRuns} order by id limit ?)`,
        [before, before, before, limit],
      ),
    }),
    usedBytes: () => db.first<{ bytes: number }>(`select (${usedBytes}) as bytes`)?.bytes ?? 0,
    rows: () =>
      db.first<{ rows: number }>(
        `select coalesce(nullif((select count(*) from runs), 0),
           (select count(*) from jobs where finished_at is not null and tier is null)) as rows`,
      )?.rows ?? 0,
    shrink: (pages) => shrink(session, pages),
  };
}

const lookText = `select exists (select 1 from jobs where ${areEnded})
    or exists (select 1 from jobs where ${areEnded}) as jobs,
  exists (select 1 from runs where ${areOld}) as runs,
  exists (select 1 from events where at < ?) as events,
  exists (select 1 from workers where ${areWithoutRuns}) as workers,
  exists (select 1 from machines where seen_at < ?) as machines,
  (${usedBytes}) as usedBytes`;

function look(db: SqliteStatements, before: Expiry): Prunable {
  const { succeeded, failed, seen } = before;
  const longest = Math.min(succeeded, failed);
  const [row] = db.all<Record<keyof Prunable, number>>(lookText, [
    ...[JSON.stringify(['finished', 'cancelled']), succeeded, JSON.stringify(['failed']), failed],
    ...[...valuesOfOld(before), succeeded, longest, longest, longest, seen],
  ]);
  const has = (kind: keyof Prunable): boolean => row?.[kind] === 1;
  return {
    jobs: has('jobs'),
    runs: has('runs'),
    events: has('events'),
    workers: has('workers'),
    machines: has('machines'),
    usedBytes: row?.usedBytes ?? 0,
  };
}

function removeJobs(db: SqliteStatements, where: string, values: readonly unknown[]): PruneStep {
  const ids = db.all<{ id: number }>(`select id from jobs where ${where}`, values);
  return {
    deleted: ids.length,
    outputFiles: deleteJobs(
      db,
      ids.map(({ id }) => id),
    ),
  };
}

function removeRuns(db: SqliteStatements, where: string, values: readonly unknown[]): PruneStep {
  const old = db.all<{ id: number; output_file: string | null }>(
    `select runs.id, output_file from runs where ${where}`,
    values,
  );
  if (old.length === 0) return nothing;
  const list = JSON.stringify(old.map(({ id }) => id));
  db.run(keepCountsOfRuns, [list]);
  db.run(keepUncountedOfRuns, [list]);
  db.run('delete from runs where id in (select value from json_each(?))', [list]);
  return { deleted: old.length, outputFiles: old.flatMap(({ output_file }) => output_file ?? []) };
}

const listed = 'in (select value from json_each(?))';
const keepCountsOfRuns = keepCounts({ runs: `id ${listed}` });
const keepCountsOfEvents = keepCounts({ events: `events.id ${listed}` });
const keepUncountedOfRuns = counting.keepUncounted({ runs: `runs.id ${listed}` });
const keepUncountedOfEvents = counting.keepUncounted({ events: `events.id ${listed}` });

function removeEvents(db: SqliteStatements, before: number, limit: number): PruneStep {
  const old = db.all<{ id: number }>('select id from events where at < ? order by at limit ?', [before, limit]);
  if (old.length === 0) return nothing;
  const list = JSON.stringify(old.map(({ id }) => id));
  db.run(keepCountsOfEvents, [list]);
  db.run(keepUncountedOfEvents, [list]);
  return { ...nothing, deleted: db.run('delete from events where id in (select value from json_each(?))', [list]) };
}

/** By their runs, as those are numbered in their order; then what has ended without any. */
function removeOldest(db: SqliteStatements, limit: number): PruneStep {
  const oldest = db.all<{ id: number; job_id: number; goes_whole: number }>(
    `select runs.id, job_id,
       tier is null and jobs.finished_at is not null and ${isReported} as goes_whole
     from runs join jobs on jobs.id = job_id where outcome <> 'running' order by runs.id limit ?`,
    [limit],
  );
  if (oldest.length === 0) {
    const ended = `finished_at is not null and tier is null and ${isReported} order by id limit ?`;
    return removeJobs(db, ended, [limit]);
  }
  const runs = oldest.filter(({ goes_whole }) => goes_whole === 0).map(({ id }) => id);
  const removed = removeRuns(db, 'id in (select value from json_each(?))', [JSON.stringify(runs)]);
  const jobs = new Set(oldest.filter(({ goes_whole }) => goes_whole === 1).map((run) => run.job_id));
  return {
    deleted: removed.deleted + jobs.size,
    outputFiles: [...removed.outputFiles, ...deleteJobs(db, [...jobs])],
  };
}

function shrink(session: SqliteSession, pages: number): void {
  try {
    session.connection.exec(`pragma incremental_vacuum(${pages})`);
  } catch (error) {
    // The next pass that finds nobody else at it gives them back.
    if (kindOfStoreFailure(error) !== 'locked') throw error;
  }
}
