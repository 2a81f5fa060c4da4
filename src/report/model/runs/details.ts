import { type RawBuilder, sql } from 'kysely';
import type { LogView, Site } from '../../../discovery/site.ts';
import { field, person, record, shown, type Values } from '../../../system/base/record.ts';
import { findRun } from '../../names.ts';
import type { Clock } from '../../text/clock.ts';
import { describeChange } from '../../text/words.ts';
import { compareWith, comparisonRecord } from './compare.ts';
import { changeRecord, outcomeField, type RunRecord } from './run.ts';
import { tellRun, toldRunRecord } from './run-pages.ts';
import { type RunWithOutput, selectNewestRun, selectRunsById } from './runs.ts';
import { readUsual, usualRecord } from './script.ts';

const tryRecord = record(null, {
  id: shown.integer,
  attempt: shown.integer,
  startedAt: shown.instant,
  outcome: outcomeField,
});

/** One run with all that its page shows besides the output, which stays a text of its own. */
export const runDetailsRecord = record('RunDetails', {
  ...toldRunRecord.fields,
  host: shown.text.like('web3').orNull.about('The machine that ran it'),
  startedBy: person.orNull.about('The person who started it; null: nobody did'),
  stoppedBy: person.orNull.about('The person who has asked for its end; null: nobody has'),
  change: shown
    .one(changeRecord)
    .orNull.about('For a failed run: whether the content of its script has changed since the last success'),
  changeText: shown.text
    .like('its content has changed: it last succeeded 3 Nov 14:05, and the new content first ran 3 Nov 15:05')
    .orNull.about('The same in a sentence'),
  lastGood: shown.integer.orNull.about('The last run before it that succeeded'),
  previous: shown.integer.orNull.about('The run of the same script before it'),
  next: shown.integer.orNull.about('The run of the same script after it'),
  tries: shown.list(shown.one(tryRecord)).about('The other tries of its job, or of its script at that time, in order'),
  usual: shown.one(usualRecord).about('The usual figures of its script'),
  hasOutput: shown.flag.about('Some of its output is kept'),
  comparison: field.one(comparisonRecord).orNull.about('Beside the run that was asked for; null: none was'),
});

export type RunDetails = RunWithOutput & Values<typeof runDetailsRecord>;

/**
 * @param clock for the times in sentences
 * @param other the run to compare it with
 * @throws {NoSuchName} with the number of the newest run
 */
export async function readRun(
  { view, store, nowMs }: Site,
  id: number,
  clock: Clock,
  other: number | null = null,
): Promise<RunDetails> {
  const log = await view();
  const run = await findRun(log, id);
  const earlierSuccess = { untilMs: run.startedAtMs, outcomes: ['succeeded'] as const };
  const [previous] = await selectBeside(log, run, { of: ofScript, side: 'before', limit: 1 });
  const [next] = await selectBeside(log, run, { of: ofScript, side: 'after', limit: 1 });
  const tries = await findTries(log, run);
  const byId = new Map((await selectRunsById(log, tries)).map((each) => [each.id, each]));
  return {
    ...(await tellRun(log, run, clock)),
    changeText: run.change && describeChange(run.change, clock),
    lastGood: (await selectNewestRun(log, run.script, earlierSuccess))?.id ?? null,
    previous: previous?.id ?? null,
    next: next?.id ?? null,
    tries: tries.flatMap((each) => byId.get(each) ?? []),
    usual: await readUsual(store, run.script, nowMs),
    hasOutput: run.filesKey !== null || run.outputFile !== null || (run.output ?? '') !== '',
    comparison: other === null ? null : await compareWith(log, run, other),
  };
}

/** Largest number of runs among which the tries before or after a run are looked for. */
const MOST_BESIDE = 500;

/** The newest run of each earlier try, and then of each later one: another time begins with its first try. */
async function findTries(log: LogView, run: RunRecord): Promise<number[]> {
  const { attempt } = run;
  const of = run.jobId === null ? ofScript : ofJob;
  // Between two tries a job may have been given back, and a script have run by hand.
  const limit = attempt === 1 ? 0 : Math.min(MOST_BESIDE, 10 * attempt);
  const earlier: number[] = [];
  for (const { id, attempt: found } of await selectBeside(log, run, { of, side: 'before', limit }))
    if (found === attempt - 1 - earlier.length) earlier.push(id);
  const later: number[] = [];
  for (const { id, attempt: found } of await selectBeside(log, run, { of, side: 'after', limit: MOST_BESIDE })) {
    const place = found - attempt - 1;
    if (place < 0 || place > later.length) break;
    later[place] = id;
  }
  return [...earlier.toReversed(), ...later];
}

interface Beside {
  /** Among which runs. */
  readonly of: (run: RunRecord) => RawBuilder<unknown>;
  readonly side: 'before' | 'after';
  readonly limit: number;
}

// `cross join` keeps SQLite from beginning with the other table, all of which it would read.
const ofScript: Beside['of'] = ({ script }) =>
  sql`scripts cross join runs where script_id = scripts.id and scripts.name = ${script}`;
const ofJob: Beside['of'] = ({ jobId }) => sql`runs where job_id = ${jobId}`;

/** The runs right before or after this one, the nearest first. */
async function selectBeside({ db }: LogView, run: RunRecord, { of, side, limit }: Beside) {
  const [sign, order] = side === 'before' ? [sql`<`, sql`desc`] : [sql`>`, sql`asc`];
  const { rows } = await sql<{ id: number; attempt: number }>`
    select runs.id, attempt from ${of(run)} and (started_at, runs.id) ${sign} (${run.startedAtMs}, ${run.id})
    order by started_at ${order}, runs.id ${order} limit ${limit}`.execute(db);
  return rows;
}
