import type { EndedRunFacts, TelemetryStore, ToldRun, UntoldQuery, UntoldRuns } from '../../contract.ts';
import type { Outcome } from '../../schema.ts';
import type { Statements } from '../session.ts';
import type { Sync } from './areas.ts';

export function telemetryStatements(db: Statements): Sync<TelemetryStore> {
  return {
    request: (channel, at) => {
      db.run(
        `insert into deliveries (kind, channel, body, created_at, due_at) select 'telemetry', ?, '{}', ?, ?
         where not exists (select 1 from deliveries where kind = 'telemetry' and due_at is not null)`,
        [channel, at, at],
      );
    },
    untold: (query) => findUntold(db, query),
    keepTold: (told) => {
      db.run('delete from told_runs');
      for (const { id, startedAt, isOpen } of told) {
        db.run('insert into told_runs (run_id, started_at, is_open) values (?, ?, ?)', [id, startedAt, isOpen ? 1 : 0]);
      }
    },
  };
}

interface Looked {
  readonly id: number;
  readonly startedAt: number;
  readonly outcome: Outcome;
}

function findUntold(db: Statements, query: UntoldQuery): UntoldRuns {
  const told = db.all<{ id: number; startedAt: number; isOpen: number }>(
    'select run_id as id, started_at as startedAt, is_open as isOpen from told_runs order by run_id',
  );
  const open = db.all<Looked>(
    `select id, runs.started_at as startedAt, outcome from told_runs cross join runs on runs.id = run_id
     where is_open = 1`,
  );
  const newest = told.at(-1);
  const from = findBeginning(db, newest, query);
  const fresh = db.all<Looked>(
    'select id, started_at as startedAt, outcome from runs where id > ? order by id limit ?',
    [from?.id ?? 0, query.limit],
  );
  const looked = [...open.filter(({ id }) => id <= (from?.id ?? 0)), ...fresh];
  const ended = looked.filter(({ outcome }) => outcome !== 'running').map(({ id }) => id);
  return {
    runs: readFacts(db, ended, query.since),
    told: toldOf(looked, fresh.at(-1) ?? from),
    hasMore: fresh.length === query.limit,
  };
}

type Beginning = Pick<ToldRun, 'id' | 'startedAt'> | undefined;

/** Those that have not ended, and the newest one, from which to go on. */
function toldOf(looked: readonly Looked[], last: Beginning): ToldRun[] {
  const open = looked.filter(({ outcome, id }) => outcome === 'running' && id !== last?.id);
  const told = open.map(({ id, startedAt }) => ({ id, startedAt, isOpen: true }));
  if (last === undefined) return told;
  const isOpen = looked.some(({ id, outcome }) => id === last.id && outcome === 'running');
  return [...told, { id: last.id, startedAt: last.startedAt, isOpen }];
}

/**
 * Runs get growing numbers, so that those behind the newest one that was told are new: unless that one was deleted,
 * for then its number, and others before it, may be those of new runs.
 */
function findBeginning(db: Statements, newest: Beginning, query: UntoldQuery): Beginning {
  const [until, before] = newest ? [newest.id, newest.startedAt + 1] : [Number.MAX_SAFE_INTEGER, query.firstSince];
  return db.first<{ id: number; startedAt: number }>(
    `select id, started_at as startedAt from runs where id <= ? and started_at < ? order by id desc limit 1`,
    [until, before],
  );
}

function readFacts(db: Statements, ids: readonly number[], since: number): EndedRunFacts[] {
  if (ids.length === 0) return [];
  return db.all<EndedRunFacts>(
    `select runs.id, scripts.name as script, job_id as jobId, host, triggered_by as "trigger", outcome, attempt,
       runs.scheduled_for as scheduledFor, runs.started_at as startedAt, runs.finished_at as finishedAt,
       duration_ms as durationMs, user_cpu_ms as userCpuMs, system_cpu_ms as systemCpuMs,
       max_rss_bytes as maxRssBytes, measured_by as measuredBy, runs.pid, exit_code as exitCode, signal, runs.reason,
       error_name as errorName, error_message as errorMessage, error_stack as errorStack
     from json_each(?) cross join runs on runs.id = value
     join scripts on scripts.id = runs.script_id
     left join workers on workers.id = runs.worker_id left join hosts on hosts.id = workers.host_id
     where coalesce(runs.finished_at, runs.started_at) >= ? order by runs.id`,
    [JSON.stringify(ids), since],
  );
}
