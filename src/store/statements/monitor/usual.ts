import { toMillis } from '../../../system/base/values.ts';
import type { ActivityLog } from '../../schema.ts';
import type { Statements } from '../../shared/sql/statements.ts';

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

type ChangeOf = { readonly runId: number } | { readonly script: string };

const measured = `runs.started_at as "startedAt", runs.duration_us as "durationUs",
  runs.max_rss_bytes as "maxRssBytes", runs.output_bytes as "outputBytes"`;

/** How many times as many runs as are wanted are looked through: not all runs of a script that hardly ever succeeds. */
const LOOK_BACK = 10;

export function usualOf(db: Statements) {
  const { join } = db.dialect;
  return {
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
    /** The change of a run, or of a script's newest run; null: its content is unchanged, or unknown. */
    change: (of: ChangeOf) => findChange(db, of),
  };
}

/** A run, once for each of its counts. */
interface CountRow extends Omit<MeasuredRun, 'counts' | 'durationMs'> {
  readonly durationUs: number | null;
  readonly counted: string | null;
  readonly value: number;
}

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
    const [{ counted: _, value: __, durationUs, ...run }] = ofRun as [CountRow];
    const counts = ofRun.flatMap(({ counted, value }) => (counted === null ? [] : [[counted, value] as const]));
    return { ...run, durationMs: toMillis(durationUs), counts: Object.fromEntries(counts) };
  });
}

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
