import { type RawBuilder, sql } from 'kysely';
import type { LogView } from '../../../discovery/site.ts';
import { escapeLike } from '../../../store/shared/sql/globs.ts';
import { isFailure, type Outcome, outcomes } from '../../../store/words.ts';
import { field, quoting, record } from '../../../system/base/record.ts';
import { HOUR_MS } from '../../../system/base/values.ts';
import type { Clock } from '../../text/clock.ts';
import { describeDeviation, describeRunError } from '../../text/words.ts';
import { type RunRecord, runRecord } from './run.ts';
import { selectRunsById } from './runs.ts';

/** A run with what a page says of it. */
export const toldRunRecord = record('ToldRun', {
  ...runRecord.fields,
  summary: quoting.orNull.about('One line: why it did not succeed'),
  unusual: field.list(field.text).about('Its differences from earlier runs, one line each'),
});

/** The start of a page of runs: after this run, in the order of the list. */
export interface RunPlace {
  readonly startedAtMs: number;
  readonly id: number;
}

/** Which runs are chosen. */
interface RunFilter {
  /** Default: of all scripts and handlers. */
  readonly scripts?: readonly string[] | undefined;
  /** A text in the script's name or in the error of a run, A to Z in either case; or the run's number. */
  readonly search?: string | undefined;
  readonly tier?: string | undefined;
  /** The number of a job of the queue: its tries, of all its times. */
  readonly job?: number | undefined;
  readonly outcomes?: readonly Outcome[] | undefined;
  /** From then on, before then. */
  readonly sinceMs?: number | undefined;
  readonly untilMs?: number | undefined;
}

export interface RunPageQuery extends RunFilter {
  /** The last run of the page before. */
  readonly after?: RunPlace | undefined;
  readonly limit: number;
}

/** From one look to the next, further back. */
const GROWTH = 8;

/**
 * Runs of all scripts, the newest first. They are looked for in the index of runs by script, further and further back:
 * among a million runs the newest 50 are found in those of the last hours, and rare ones without reading any row else.
 */
export async function selectRunPage(log: LogView, query: RunPageQuery): Promise<RunRecord[]> {
  const { job, sinceMs = 0, untilMs = Number.MAX_SAFE_INTEGER, after, limit } = query;
  const newestMs = await selectNewestStart(log);
  let until = Math.min(untilMs, after === undefined ? untilMs : after.startedAtMs + 1);
  const ids: number[] = [];
  // Those of a job have an index of their own.
  let lengthMs = job === undefined ? HOUR_MS : Number.POSITIVE_INFINITY;
  while (ids.length < limit && until > sinceMs) {
    const start = Math.min(until, newestMs + 1) - lengthMs;
    const since = start <= 0 ? sinceMs : Math.max(sinceMs, start);
    ids.push(...(await selectIds(log, query, { since, until, limit: limit - ids.length })));
    until = since;
    lengthMs *= GROWTH;
  }
  const runs = new Map((await selectRunsById(log, ids)).map((run) => [run.id, run]));
  return ids.flatMap((id) => runs.get(id) ?? []);
}

/** Before it there is nothing to be looked for. */
async function selectNewestStart({ db }: LogView): Promise<number> {
  const { rows } = await sql<{ newest: number | null }>`
    select max((select max(started_at) from runs where script_id = scripts.id)) as newest from scripts`.execute(db);
  return rows[0]?.newest ?? 0;
}

interface Stretch {
  readonly since: number;
  readonly until: number;
  readonly limit: number;
}

async function selectIds(
  { db }: LogView,
  { after, ...filter }: RunPageQuery,
  { since, until, limit }: Stretch,
): Promise<number[]> {
  const conditions = [sql`started_at >= ${since} and started_at < ${until}`, ...conditionsOf(filter)];
  if (after !== undefined) conditions.push(sql`(started_at < ${after.startedAtMs} or runs.id < ${after.id})`);
  const { rows } = await sql<{ id: number }>`
    select runs.id from ${tablesFor(filter)}
    where script_id = scripts.id and ${sql.join(conditions, sql` and `)}
    order by started_at desc, runs.id desc limit ${limit}`.execute(db);
  return rows.map(({ id }) => id);
}

/** The number of runs that a filter chooses. */
export async function countMatchingRuns({ db }: LogView, filter: RunFilter): Promise<number> {
  const { sinceMs = 0, untilMs = Number.MAX_SAFE_INTEGER } = filter;
  const conditions = [sql`started_at >= ${sinceMs} and started_at < ${untilMs}`, ...conditionsOf(filter)];
  const { rows } = await sql<{ runs: number }>`
    select count(*) as runs from ${tablesFor(filter)}
    where script_id = scripts.id and ${sql.join(conditions, sql` and `)}`.execute(db);
  return Number(rows[0]?.runs ?? 0);
}

/** `cross join` keeps SQLite from beginning with the other one, all of which it would read. */
function tablesFor({ job }: RunFilter): RawBuilder<unknown> {
  return job === undefined ? sql`scripts cross join runs` : sql`runs cross join scripts`;
}

function conditionsOf({ scripts, tier, job, outcomes, search }: RunFilter): RawBuilder<unknown>[] {
  const conditions: RawBuilder<unknown>[] = [];
  if (scripts !== undefined) conditions.push(isOneOf(sql`scripts.name`, scripts));
  if (tier !== undefined) conditions.push(sql`substr(scripts.name, 1, ${tier.length + 1}) = ${`${tier}/`}`);
  if (job !== undefined) conditions.push(sql`job_id = ${job} and scripts.name >= 'queue/' and scripts.name < 'queue0'`);
  if (outcomes !== undefined) conditions.push(isOneOf(sql`outcome`, outcomes));
  if (search !== undefined) conditions.push(isFound(search));
  return conditions;
}

function isOneOf(column: RawBuilder<unknown>, words: readonly string[]): RawBuilder<unknown> {
  return words.length === 0 ? sql`1 = 0` : sql`${column} in (${sql.join(words)})`;
}

const failures = sql.join(outcomes.filter(isFailure).map((outcome) => sql.lit(outcome)));

/** Errors are read of the runs alone that the index calls failed. */
function isFound(text: string): RawBuilder<unknown> {
  const pattern = `%${escapeLike(text.toLowerCase())}%`;
  const has = (column: RawBuilder<unknown>) => sql`lower(${column}) like ${pattern} escape '!'`;
  const errors = sql.join([sql`error_message`, sql`error_name`, sql`reason`].map(has), sql` or `);
  const isNumber = /^\d{1,15}$/.test(text) ? sql`runs.id = ${Number(text)}` : sql`1 = 0`;
  return sql`(${has(sql`scripts.name`)} or ${isNumber}
    or (outcome in (${failures}) and (${errors})))`;
}

/** Enough to hold a last line. */
const END_LENGTH = 2000;

/**
 * One line that says why a run failed; null: it did not. A script that throws names its error itself; of any other, the
 * last line it wrote says most.
 */
export async function readRunSummary({ db }: LogView, run: RunRecord): Promise<string | null> {
  if (!isFailure(run.outcome)) return null;
  if (run.error !== null) return describeRunError(run, '');
  const written = await db.selectFrom('outputs').select('output').where('run_id', '=', run.id).executeTakeFirst();
  return describeRunError(run, written?.output.slice(-END_LENGTH) ?? '');
}

export async function tellRun<Run extends RunRecord>(log: LogView, run: Run, clock: Clock) {
  const unusual = run.deviations.map((deviation) => describeDeviation(deviation, clock));
  return { ...run, summary: await readRunSummary(log, run), unusual };
}

/** The same of several runs, by number and script: `7 hourly/import`. */
export async function readRunSummaries(
  log: LogView,
  ids: readonly number[],
): Promise<ReadonlyMap<string, string | null>> {
  const summaries = new Map<string, string | null>();
  for (const run of await selectRunsById(log, ids))
    summaries.set(`${run.id} ${run.script}`, await readRunSummary(log, run));
  return summaries;
}
