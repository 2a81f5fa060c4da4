import type { ContentChange, MeasuredRun, UsualStore } from '../../../contract/runs.ts';
import { marks, rowMarks } from '../../../shared/sql/dialect.ts';
import type { ServerStatements } from '../../session.ts';

const measured = `runs.started_at as "startedAt", runs.duration_ms as "durationMs",
  runs.max_rss_bytes as "maxRssBytes", runs.output_bytes as "outputBytes"`;

/** How many times as many runs as are wanted are looked through: not all runs of a script that hardly ever succeeds. */
const LOOK_BACK = 10;

export function serverUsual(db: ServerStatements): UsualStore {
  return {
    uncompared: async (limit) =>
      await withCounts(
        db,
        await db.all(
          `select runs.id, scripts.name as script, ${measured} from uncompared
           join runs on runs.id = uncompared.run_id join scripts on scripts.id = runs.script_id
           order by uncompared.run_id limit ?`,
          [limit],
        ),
      ),
    successes: async (script, before, limit) => {
      const runs = await db.all<Omit<MeasuredRun, 'script' | 'counts'>>(
        `select runs.id, ${measured} from (
           select id from (select id, started_at, outcome from runs
             where script_id = (select id from scripts where name = ?) and started_at < ?
             order by started_at desc, id desc limit ?) as newest
           where outcome = 'succeeded' order by started_at desc, id desc limit ?) as wanted
         join runs on runs.id = wanted.id order by runs.started_at desc, runs.id desc`,
        // The instant may be the middle between two instants, so it is rounded up.
        [script, Math.ceil(before), limit * LOOK_BACK, limit],
      );
      return await withCounts(
        db,
        runs.map((run) => ({ ...run, script })),
      );
    },
    setCompared: (runs) => setCompared(db, runs),
    running: () =>
      db.all<{ id: number; script: string; startedAt: number }>(
        `select runs.id, scripts.name as script, runs.started_at as "startedAt"
         from runs join scripts on scripts.id = runs.script_id where runs.outcome = 'running'
         order by runs.started_at, runs.id`,
      ),
    change: (of) => findChange(db, of),
  };
}

async function withCounts(db: ServerStatements, runs: readonly Omit<MeasuredRun, 'counts'>[]): Promise<MeasuredRun[]> {
  if (runs.length === 0) return [];
  const ids = runs.map(({ id }) => id);
  const rows = await db.all<{ run_id: number; name: string; value: number }>(
    `select run_id, name, value from counts where run_id in ${marks(ids)} order by run_id, name`,
    ids,
  );
  const byRun = Map.groupBy(rows, ({ run_id }) => run_id);
  return runs.map((run) => {
    const counts = (byRun.get(run.id) ?? []).map(({ name, value }) => [name, value] as const);
    return { ...run, counts: JSON.stringify(Object.fromEntries(counts)) };
  });
}

/** Another process that has compared a run at the same moment has found the same: only one of them records it. */
async function setCompared(db: ServerStatements, runs: Parameters<UsualStore['setCompared']>[0]): Promise<void> {
  const ids = runs.map(({ id }) => id);
  const open = await db.all<{ id: number }>(
    `select run_id as id from uncompared where run_id in ${marks(ids)} order by run_id for update`,
    ids,
  );
  if (open.length === 0) return;
  const own = new Set(open.map(({ id }) => id));
  await db.run(`delete from uncompared where run_id in ${marks(open)}`, [...own]);
  const rows = runs
    .filter(({ id }) => own.has(id))
    .flatMap(({ id, deviations }) =>
      deviations.map(({ measure, name, value, usual, runs: number, since }) => [
        ...[id, measure, name, value, usual, number, since],
      ]),
    );
  if (rows.length === 0) return;
  const insert = 'insert into deviations (run_id, measure, name, value, usual, runs, since)';
  await db.run(`${insert} values ${rowMarks(7, rows.length)}`, rows.flat());
}

interface Content {
  readonly script_id: number;
  readonly version_id: number | null;
  readonly started_at: number;
}

/** All by the order of a script's runs: its versions do not tell which of them came back. */
async function findChange(
  db: ServerStatements,
  of: Parameters<UsualStore['change']>[0],
): Promise<ContentChange | null> {
  const find = (where: string, values: readonly unknown[]): Promise<Content | undefined> =>
    db.first<Content>(`select script_id, version_id, started_at from runs where ${where} limit 1`, values);
  const run =
    'runId' in of
      ? await find('id = ?', [of.runId])
      : await find('script_id = (select id from scripts where name = ?) order by started_at desc, id desc', [
          of.script,
        ]);
  if (run === undefined || run.version_id === null) return null;
  const success = await find(
    `script_id = ? and started_at <= ? and outcome = 'succeeded' order by started_at desc, id desc`,
    [run.script_id, run.started_at],
  );
  if (success === undefined || success.version_id === null || success.version_id === run.version_id) return null;
  const first = await find('script_id = ? and started_at >= ? and version_id = ? order by started_at', [
    ...[run.script_id, success.started_at, run.version_id],
  ]);
  return { changedAt: first?.started_at ?? run.started_at, lastSuccessAt: success.started_at };
}
