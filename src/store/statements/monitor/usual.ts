import { columnsOf } from '../../columns.ts';
import type { ActivityLog } from '../../schema.ts';
import { putRows } from '../../shared/sql/rows.ts';
import type { Statements } from '../../shared/sql/statements.ts';
import { tables } from '../../tables.ts';

/** The values by which a successful run is compared. Unknown values are null. */
export interface MeasuredRun {
  readonly id: number;
  readonly script: string;
  readonly startedAt: number;
  readonly durationMs: number | null;
  readonly maxRssBytes: number | null;
  readonly outputBytes: number | null;
  readonly counts: Readonly<Record<string, number>>;
}

export type Deviation = Omit<ActivityLog['deviations'], 'run_id'>;

/** A change of a script's content since its last success. Epoch milliseconds. */
export interface ContentChange {
  /** When the new content first ran. */
  readonly changedAt: number;
  /** Start of the last successful run with another content. */
  readonly lastSuccessAt: number;
}

interface ComparedRun {
  readonly id: number;
  readonly deviations: readonly Deviation[];
}

type ChangeOf = { readonly runId: number } | { readonly script: string };

const measured = `runs.started_at as "startedAt", runs.duration_ms as "durationMs",
  runs.max_rss_bytes as "maxRssBytes", runs.output_bytes as "outputBytes"`;

/** How many times as many runs as are wanted are looked through: not all runs of a script that hardly ever succeeds. */
const LOOK_BACK = 10;

export function usualOf(db: Statements) {
  const { byIndex, join } = db.dialect;
  return {
    /** Successful runs that were not compared yet, the oldest first. */
    uncompared: (limit: number) =>
      readMeasured(
        db,
        `select runs.id, scripts.name as script, ${measured} from uncompared
         ${join} runs on runs.id = uncompared.run_id ${join} scripts on scripts.id = runs.script_id
         order by uncompared.run_id limit ?`,
        'measured.id',
        [limit],
      ),
    /** A script's last successful runs that began before, newest first; it looks no further back than 10 times as many. */
    successes: (script: string, before: number, limit: number) =>
      readMeasured(
        db,
        `select runs.id, ? as script, ${measured} from (
           select id from (select id, started_at, outcome from runs
             where script_id = (select id from scripts where name = ?) and started_at < ?
             order by started_at desc, id desc limit ?) as newest
           where outcome = 'succeeded' order by started_at desc, id desc limit ?) as wanted
         ${join} runs on runs.id = wanted.id`,
        'measured."startedAt" desc, measured.id desc',
        // The instant may be the middle between two instants, so it is rounded up.
        [script, script, Math.ceil(before), limit * LOOK_BACK, limit],
      ),
    /** Writes down what of these runs was unusual: they are not compared again. */
    setCompared: (runs: readonly ComparedRun[]) => setCompared(db, runs),
    /** Runs that go on, the oldest first; those of dead workers too. */
    // Left to itself SQLite takes a larger index, which has all that is asked for, and reads all of it.
    running: () =>
      db.all<{ id: number; script: string; startedAt: number }>(
        `select runs.id, scripts.name as script, runs.started_at as "startedAt"
         from ${byIndex('runs', { sqlite: 'runs_running' })} ${join} scripts on scripts.id = runs.script_id
         where runs.outcome = 'running' order by runs.started_at, runs.id`,
      ),
    /** The change of a run, or of a script's newest run; null: its content is unchanged, or unknown. */
    change: (of: ChangeOf) => findChange(db, of),
  };
}

/** A run, once for each of its counts. */
type CountRow = Omit<MeasuredRun, 'counts'> & { readonly counted: string | null; readonly value: number };

/** Reads the runs that a statement finds, each with its counts. */
async function readMeasured(
  db: Statements,
  runs: string,
  order: string,
  values: readonly unknown[],
): Promise<MeasuredRun[]> {
  const rows = await db.all<CountRow>(
    `select measured.*, counts.name as counted, counts.value from (${runs}) as measured
     left join counts on counts.run_id = measured.id order by ${order}, counts.name`,
    values,
  );
  return [...Map.groupBy(rows, ({ id }) => id).values()].map((ofRun) => {
    const [{ counted: _, value: __, ...run }] = ofRun as [CountRow];
    const counts = ofRun.flatMap(({ counted, value }) => (counted === null ? [] : [[counted, value] as const]));
    return { ...run, counts: Object.fromEntries(counts) };
  });
}

/** Another process that has compared a run at the same moment has found the same: only one of them records it. */
async function setCompared(db: Statements, runs: readonly ComparedRun[]): Promise<void> {
  const { forUpdate, isIn } = db.dialect;
  const unusual = runs.filter(({ deviations }) => deviations.length > 0);
  const open =
    unusual.length === 0
      ? []
      : await db.all<{ id: number }>(
          `select run_id as id from uncompared where ${isIn('run_id')} order by run_id ${forUpdate}`,
          [unusual.map(({ id }) => id)],
        );
  await db.run(`delete from uncompared where ${isIn('run_id')}`, [runs.map(({ id }) => id)]);
  const rows = unusual
    .filter(({ id: own }) => open.some(({ id }) => id === own))
    .flatMap(({ id, deviations }) => deviations.map((each) => [id, ...columns.map((column) => each[column])]));
  await putRows(db, 'deviations', ['run_id', ...columns], rows, { key: tables.deviations.key, set: [] });
}

const columns = columnsOf(tables.deviations, ['run_id']);

interface Content {
  readonly script_id: number;
  readonly version_id: number | null;
  readonly started_at: number;
}

/** All by the order of a script's runs: its versions do not tell which of them came back. */
async function findChange(db: Statements, of: ChangeOf): Promise<ContentChange | null> {
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
