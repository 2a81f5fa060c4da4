import { median } from 'simple-statistics';
import { DAY_MS, toMillis } from '../../../system/base/values.ts';
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

/** Medians of a script's last successful runs; null: none of them has the figure. */
export interface UsualFigures {
  /** How many runs that is known of. */
  readonly runs: number;
  readonly durationMs: number | null;
  readonly maxRssBytes: number | null;
  readonly outputBytes: number | null;
  readonly counts: Readonly<Record<string, number>>;
}

/** A figure of a script that has been far above what was usual in each success since one run. */
export interface Rise {
  readonly script: string;
  readonly measure: 'duration' | 'memory';
  /** The newest success's value, in milliseconds or bytes. */
  readonly value: number;
  /** Before the first of these runs. */
  readonly usual: number;
  /** Start of the first of these runs. */
  readonly since: number;
  /** Whether the content of its file changed between the success before the first of them and that; null: unknown. */
  readonly isFileChanged: boolean | null;
  /** When the changed content first ran; null: it has not changed, or nobody knows. */
  readonly fileChanged: number | null;
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
    /** The usual figures of a script; at that instant, or now. All that is called usual comes from here. */
    figures: async (script: string, at = LAST_INSTANT) =>
      summarize(await usualOf(db).successes(script, at + 1, USUAL_RUNS)),
    /** Figures that have risen before an instant and not come down by then; the greatest factor first. */
    rises: (at: number, script?: string) => findRises(db, at, script),
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

const LAST_INSTANT = Number.MAX_SAFE_INTEGER - 1;

/** As many as tell what is usual now, not what it was last year. */
const USUAL_RUNS = 30;

function summarize(runs: readonly MeasuredRun[]): UsualFigures {
  const medianOf = (of: (run: MeasuredRun) => number | null): number | null => {
    const known = runs.flatMap((run) => of(run) ?? []);
    return known.length === 0 ? null : median(known);
  };
  const counts = runs.map((run) => run.counts);
  const names = [...new Set(counts.flatMap((each) => Object.keys(each)))];
  return {
    runs: runs.length,
    durationMs: medianOf(({ durationMs }) => durationMs),
    maxRssBytes: medianOf(({ maxRssBytes }) => maxRssBytes),
    outputBytes: medianOf(({ outputBytes }) => outputBytes),
    counts: Object.fromEntries(names.map((name) => [name, median(counts.flatMap((each) => each[name] ?? []))])),
  };
}

/** After this time, a risen figure is the usual one. */
const LONGEST_RISE_MS = 30 * DAY_MS;

/** Newest deviations among which rises are looked for: rare ones, of as many runs as a site has in months. */
const MOST_DEVIATIONS = 5_000;

interface RiseRow extends Omit<Rise, 'isFileChanged' | 'fileChanged'> {
  /** The content of the first run, that of the success before it, and when the first one ran after the other. */
  readonly version: number | null;
  readonly versionBefore: number | null;
  readonly changedAt: number | null;
}

/**
 * A rise begins with a run that was far above the usual when it was recorded, and goes on as long as each success is
 * nearer to that one than to the usual, by their factors. Squares, as not each SQLite knows roots; fractions, as whole
 * numbers would overflow.
 */
async function findRises(db: Statements, at: number, script?: string): Promise<Rise[]> {
  const { join } = db.dialect;
  const figure = (run: string): string =>
    `(case unlike.measure when 'duration' then ${run}.duration_us / 1000.0 else ${run}.max_rss_bytes * 1.0 end)`;
  const success = (run: string): string => `${run}.script_id = runs.script_id and ${run}.outcome = 'succeeded'`;
  const beforeIt = (column: string): string =>
    `(select earlier.${column} from runs as earlier where ${success('earlier')} and earlier.started_at < runs.started_at
      order by earlier.started_at desc, earlier.id desc limit 1)`;
  const rows = await db.all<RiseRow>(
    `select scripts.name as script, unlike.measure, unlike.usual, runs.started_at as "since",
       (select ${figure('newest')} from runs as newest where ${success('newest')} and newest.started_at <= ?
          and ${figure('newest')} is not null order by newest.started_at desc, newest.id desc limit 1) as value,
       runs.version_id as version, ${beforeIt('version_id')} as "versionBefore",
       (select min(same.started_at) from runs as same where same.script_id = runs.script_id
        and same.version_id = runs.version_id and same.started_at > ${beforeIt('started_at')}) as "changedAt"
     from (select run_id, measure, value, usual from deviations order by run_id desc limit ?) as unlike
     ${join} runs on runs.id = unlike.run_id ${join} scripts on scripts.id = runs.script_id
     where unlike.measure in ('duration', 'memory') and unlike.value > unlike.usual
       and unlike.usual > 0 and runs.started_at > ? and runs.started_at <= ?
       ${script === undefined ? '' : 'and scripts.name = ?'}
       and not exists (select 1 from runs as later where ${success('later')} and later.started_at > runs.started_at
         and later.started_at <= ? and ${figure('later')} * ${figure('later')} < unlike.value * unlike.usual)
     order by runs.started_at, runs.id`,
    [at, MOST_DEVIATIONS, at - LONGEST_RISE_MS, at, ...(script === undefined ? [] : [script]), at],
  );
  const firsts = Map.groupBy(rows, (row) => `${row.measure} ${row.script}`).values();
  return [...firsts]
    .map(([first]) => toRise(first as RiseRow))
    .toSorted((one, other) => other.value / other.usual - one.value / one.usual);
}

function toRise({ version, versionBefore, changedAt, ...rise }: RiseRow): Rise {
  const isFileChanged = version === null || versionBefore === null ? null : version !== versionBefore;
  return { ...rise, value: Number(rise.value), isFileChanged, fileChanged: isFileChanged ? changedAt : null };
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
