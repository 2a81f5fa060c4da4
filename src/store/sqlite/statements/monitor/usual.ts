import type { ContentChange, Deviation, MeasuredRun, UsualStore } from '../../../contract/runs.ts';
import type { Sync } from '../../../shared/areas.ts';
import type { SqliteStatements } from '../../session.ts';

const measured = `runs.id, started_at as startedAt, duration_ms as durationMs, max_rss_bytes as maxRssBytes,
  output_bytes as outputBytes, (select json_group_object(name, value) from counts where run_id = runs.id) as counts`;

/** How many times as many runs as are wanted are looked through: not all runs of a script that hardly ever succeeds. */
const LOOK_BACK = 10;

export function sqliteUsual(db: SqliteStatements): Sync<UsualStore> {
  return {
    uncompared: (limit) =>
      db.all<MeasuredRun>(
        `select scripts.name as script, ${measured} from uncompared cross join runs on runs.id = uncompared.run_id
         join scripts on scripts.id = script_id order by uncompared.run_id limit ?`,
        [limit],
      ),
    successes: (script, before, limit) =>
      db.all<MeasuredRun>(
        `select ? as script, ${measured} from runs where id in (
           select id from (select id, outcome from runs
             where script_id = (select id from scripts where name = ?) and started_at < ?
             order by started_at desc limit ?) where outcome = 'succeeded' limit ?)
         order by started_at desc, id desc`,
        [script, script, before, limit * LOOK_BACK, limit],
      ),
    setCompared: (runs) => {
      for (const { id, deviations } of runs) {
        // Another process that has compared a run at the same moment has found the same.
        if (db.run('delete from uncompared where run_id = ?', [id]) > 0) addDeviations(db, id, deviations);
      }
    },
    // Left to itself SQLite takes a larger index, which has all that is asked for, and reads all of it.
    running: () =>
      db
        .all<{ id: number; script: string; startedAt: number }>(
          `select runs.id, scripts.name as script, started_at as startedAt
           from runs indexed by runs_running join scripts on scripts.id = script_id where outcome = 'running'`,
        )
        .sort((one, other) => one.startedAt - other.startedAt),
    change: (of) => findChange(db, of),
  };
}

function addDeviations(db: SqliteStatements, runId: number, deviations: readonly Deviation[]): void {
  for (const { measure, name, value, usual, runs, since } of deviations) {
    const values = [runId, measure, name, value, usual, runs, since];
    db.run('insert into deviations (run_id, measure, name, value, usual, runs, since) values (?, ?, ?, ?, ?, ?, ?)', [
      ...values,
    ]);
  }
}

interface Content {
  readonly script_id: number;
  readonly version_id: number | null;
  readonly started_at: number;
}

/** All by the order of a script's runs: its versions do not tell which of them came back. */
function findChange(db: SqliteStatements, of: Parameters<UsualStore['change']>[0]): ContentChange | null {
  const run =
    'runId' in of
      ? db.first<Content>('select script_id, version_id, started_at from runs where id = ?', [of.runId])
      : db.first<Content>(
          `select script_id, version_id, started_at from runs
           where script_id = (select id from scripts where name = ?) order by started_at desc, id desc limit 1`,
          [of.script],
        );
  if (run === undefined || run.version_id === null) return null;
  const success = db.first<Content>(
    `select script_id, version_id, started_at from runs where script_id = ? and started_at <= ?
       and outcome = 'succeeded' order by started_at desc, id desc limit 1`,
    [run.script_id, run.started_at],
  );
  if (success === undefined || success.version_id === null || success.version_id === run.version_id) return null;
  const first = db.first<Content>(
    `select script_id, version_id, started_at from runs where script_id = ? and started_at >= ? and version_id = ?
     order by started_at limit 1`,
    [run.script_id, success.started_at, run.version_id],
  );
  return { changedAt: first?.started_at ?? run.started_at, lastSuccessAt: success.started_at };
}
