import { inPages } from '../../../system/base/values.ts';
import type { EndedRun, FinishedClaim, LastingRun, RunStart, RunStore, StartedRunRow } from '../../contract/runs.ts';
import type { FinishedRun } from '../../schema.ts';
import {
  beginningValues,
  endColumns,
  endingColumns,
  endingValues,
  type NewestRun,
  newestText,
  outputColumns,
  Sample,
  type ScriptNumber,
  startColumns,
  toHistory,
  wholeColumns,
} from '../../shared/run-rows.ts';
import { addRows, listsOf, pagesOf, putRows, quoted, unnest } from '../../shared/sql/rows.ts';
import { beginningColumns } from '../../tables.ts';
import type { Outcome } from '../../words.ts';
import type { ServerDialect } from '../dialect.ts';
import type { ServerStatements } from '../session.ts';
import { LateRowsOnServer } from './counted.ts';
import { isChildless } from './job-rows.ts';
import { ScriptNumbers } from './script-numbers.ts';

export function serverRuns(db: ServerStatements): RunStore {
  return { ...writes(db), ...tries(db), ...found(db) };
}

function writes(
  db: ServerStatements,
): Pick<RunStore, 'start' | 'progress' | 'end' | 'finish' | 'ofClaim' | 'addOutput'> {
  const memory = memoryOf(db);
  return {
    start: (runs) => start(db, memory, runs),
    progress: async ({ runId, jobId }, { pid, startTicks, maxRssBytes }) => {
      await db.run(
        `update runs set pid = ?, pid_start_ticks = ?, max_rss_bytes = ?
         where id = ? and job_id = ? and outcome = 'running'`,
        [pid, startTicks, maxRssBytes, runId, jobId],
      );
    },
    end: (runs) => end(db, memory, runs),
    finish: (runs) => finish(db, memory, runs),
    ofClaim: async ({ id, token }) => {
      const text = `select id from runs where job_id = ? and worker_id || '.' || claim_number = ?`;
      return (await db.first<{ id: number }>(text, [id, token]))?.id ?? null;
    },
    addOutput: async ({ runId, jobId }, run) => {
      if ((await db.first('select 1 as known from outputs where run_id = ?', [runId])) !== undefined) return;
      const assigned = outputColumns.map((column) => `${column} = ?`).join(', ');
      const values = [...outputColumns.map((column) => run[column]), runId, jobId];
      // It may be gone with its job, and its number be another run's by now.
      if ((await db.run(`update runs set ${assigned} where id = ? and job_id = ?`, values)) === 0) return;
      await keepOutputs(db, [{ runId, end: run }]);
    },
  };
}

const memories = new WeakMap<ServerStatements, Memory>();

export function memoryOf(db: ServerStatements): Memory {
  const memory = memories.get(db) ?? new Memory(db);
  memories.set(db, memory);
  return memory;
}

/** The numbers of scripts and the sample of a session; forgotten when one of its transactions is undone. */
class Memory {
  readonly #db: ServerStatements;
  #rollbacks = 0;
  #scripts: ScriptNumbers;
  #sample = new Sample();

  constructor(db: ServerStatements) {
    this.#db = db;
    this.#scripts = new ScriptNumbers(db);
  }

  get scripts(): ScriptNumbers {
    this.#forgetUndone();
    return this.#scripts;
  }

  get sample(): Sample {
    this.#forgetUndone();
    return this.#sample;
  }

  #forgetUndone(): void {
    if (this.#rollbacks === this.#db.rollbacks) return;
    this.#rollbacks = this.#db.rollbacks;
    this.#scripts = new ScriptNumbers(this.#db);
    this.#sample = new Sample();
  }
}

async function start(db: ServerStatements, memory: Memory, runs: readonly LastingRun[]): Promise<number[]> {
  const beginnings = await beginningsOf(memory, runs);
  const ids = await addRows(
    db,
    'runs',
    startColumns,
    runs.map((run, index) => [
      ...(beginnings[index] ?? []),
      ...[run.timeoutMs, 'running', run.pid, run.startTicks, run.maxRssBytes],
    ]),
  );
  await new LateRowsOnServer(db).runs(
    runs.map(({ startedAt }, index) => ({ id: ids[index] as number, started: startedAt, finished: null })),
  );
  return ids;
}

async function beginningsOf({ scripts }: Memory, runs: readonly RunStart[]): Promise<unknown[][]> {
  const numbers = await scripts.of(runs);
  return runs.map((run, index) => beginningValues(run, numbers[index] as ScriptNumber));
}

async function end(db: ServerStatements, memory: Memory, runs: readonly EndedRun[]): Promise<number[]> {
  const ids = await writeEnds(db, memory, runs);
  await keepRest(
    db,
    memory,
    runs.map((run, index) => ({ ...run, runId: ids[index] as number, isWhole: run.runId === null })),
  );
  return ids;
}

async function finish(
  db: ServerStatements,
  memory: Memory,
  runs: readonly FinishedClaim[],
): Promise<(number | null)[]> {
  const beginnings = await beginningsOf(memory, runs);
  const rows = runs.map(({ key, result, end }, index) => ({ token: key, result, begun: beginnings[index] ?? [], end }));
  const ids = await finishJobs(db, rows);
  const finished = runs.flatMap((run) => {
    const runId = ids.get(run.jobId);
    return runId === undefined ? [] : [{ ...run, runId, isWhole: true }];
  });
  await keepRest(db, memory, finished);
  return runs.map(({ jobId }) => ids.get(jobId) ?? null);
}

type WrittenEnd = Pick<EndedRun, 'script' | 'startedAt' | 'end'> & {
  readonly runId: number;
  /** Whether its beginning was written only now. */
  readonly isWhole: boolean;
};

/** Writes the parts of ended runs that other tables hold. */
async function keepRest(db: ServerStatements, memory: Memory, runs: readonly WrittenEnd[]): Promise<void> {
  await keepOutputs(db, runs);
  await keepNumbers(db, runs);
  const { sample } = memory;
  const compared = runs.filter((run) => run.end.outcome === 'succeeded' && sample.takes(run));
  const key = ['run_id'];
  await putRows(
    db,
    'uncompared',
    key,
    compared.map(({ runId }) => [runId]),
    { key, set: [] },
  );
  await new LateRowsOnServer(db).runs(
    runs.map(({ runId, startedAt, end: { finished_at }, isWhole }) => ({
      ...{ id: runId, started: isWhole ? startedAt : null, finished: finished_at },
    })),
  );
}

/** Rows of those that have one are changed, all others are added; numbers of all. */
async function writeEnds(db: ServerStatements, memory: Memory, runs: readonly EndedRun[]): Promise<number[]> {
  const lasting = runs.flatMap((run) => (run.runId === null ? [] : [{ id: run.runId, values: endingValues(run) }]));
  lasting.sort((one, other) => one.id - other.id);
  await changeRuns(db, endingColumns, lasting);
  const whole = runs.filter(({ runId }) => runId === null);
  const beginnings = await beginningsOf(memory, whole);
  const rows = whole.map((run, index) => [...(beginnings[index] ?? []), ...endingValues(run)]);
  const added = (await addRows(db, 'runs', wholeColumns, rows)).values();
  return runs.map(({ runId }) => runId ?? (added.next().value as number));
}

type Ended = Pick<EndedRun, 'end'> & { readonly runId: number };

async function keepOutputs(db: ServerStatements, runs: readonly Ended[]): Promise<void> {
  const rows = runs.flatMap(({ runId, end: { output } }) => (output ? [[runId, output]] : []));
  await putRows(db, 'outputs', ['run_id', 'output'], rows, { key: ['run_id'], set: ['output'] });
}

/** Writes the figures that scripts have counted. */
async function keepNumbers(db: ServerStatements, runs: readonly Ended[]): Promise<void> {
  const rows = runs.flatMap(({ runId, end: { counts = {} } }) =>
    Object.entries(counts).map(([name, value]) => [runId, name, value]),
  );
  await putRows(db, 'counts', ['run_id', 'name', 'value'], rows, { key: ['run_id', 'name'], set: ['value'] });
}

/** Queries about the earlier runs of a job or a script. */
function tries(
  db: ServerStatements,
): Pick<RunStore, 'running' | 'history' | 'hasTryCrashed' | 'lastSuccess' | 'lastOutcome' | 'durations'> {
  return {
    running: (jobId) => runningRunOnServer(db, jobId),
    history: async (script) => toHistory(await db.all<NewestRun>(newestText, [script, script])),
    hasTryCrashed: async (jobId) =>
      (await db.first(
        `select 1 as crashed from runs where job_id = ? and outcome = 'crashed' and id >= coalesce((
           select id from runs where job_id = ? and attempt = 1 and outcome <> 'released'
           order by id desc limit 1), 0)
         limit 1`,
        [jobId, jobId],
      )) !== undefined,
    lastSuccess: async (jobId) =>
      (
        await db.first<{ started_at: number }>(
          `select started_at from runs where job_id = ? and outcome = 'succeeded' order by id desc limit 1`,
          [jobId],
        )
      )?.started_at ?? null,
    lastOutcome: async (jobId) =>
      (
        await db.first<{ outcome: Outcome }>(
          `select outcome from runs where job_id = ? and outcome <> 'running' order by id desc limit 1`,
          [jobId],
        )
      )?.outcome ?? null,
    durations: async (script, limit) => {
      const rows = await db.all<{ duration_ms: number }>(
        `select duration_ms from runs where script_id = (select id from scripts where name = ?)
           and outcome = 'succeeded' and duration_ms is not null
         order by started_at desc, id desc limit ?`,
        [script, limit],
      );
      return rows.map(({ duration_ms }) => duration_ms);
    },
  };
}

/** Which of many there are. */
function found(db: ServerStatements): Pick<RunStore, 'outputFiles' | 'knownSpoolIds'> {
  return {
    outputFiles: async () => {
      const rows = await db.all<{ output_file: string }>('select output_file from runs where output_file is not null');
      return rows.map(({ output_file }) => output_file);
    },
    knownSpoolIds: async (ids) => {
      const known: string[] = [];
      for (const page of inPages(ids)) {
        const text = `select spool_id from runs where ${db.dialect.isIn('spool_id')}`;
        known.push(...(await db.all<{ spool_id: string }>(text, [page])).map(({ spool_id }) => spool_id));
      }
      return known;
    },
  };
}

/** A job that another program began by plain SQL has no claim, but may have a run. */
export async function runningRunOnServer(db: ServerStatements, jobId: number): Promise<StartedRunRow | null> {
  return (await runningRunsOnServer(db, [jobId])).get(jobId) ?? null;
}

/** By job: the newest one of each. */
export async function runningRunsOnServer(
  db: ServerStatements,
  jobIds: readonly number[],
): Promise<ReadonlyMap<number, StartedRunRow>> {
  const found = new Map<number, StartedRunRow>();
  for (const page of inPages(jobIds)) {
    for (const run of await runningOf(db, page)) found.set(run.jobId, run);
  }
  return found;
}

function runningOf(db: ServerStatements, jobIds: readonly number[]): Promise<StartedRunRow[]> {
  return db.all<StartedRunRow>(
    `select runs.id, job_id as "jobId", worker_id || '.' || claim_number as "key", scripts.name as script,
       started_at as "startedAt", attempt, timeout_ms as "timeoutMs", pid, pid_start_ticks as "startTicks",
       max_rss_bytes as "maxRssBytes"
     from runs join scripts on scripts.id = script_id
     where ${db.dialect.isIn('job_id')} and outcome = 'running' order by runs.id`,
    [jobIds],
  );
}

/** A run that has succeeded, as its row is to be. */
export interface FinishedRow {
  readonly token: string;
  /** JSON; null: it gave none back. */
  readonly result: string | null;
  /** In the order of the columns of beginnings; the job's number is the first. */
  readonly begun: readonly unknown[];
  readonly end: FinishedRun;
}

type EndColumn = (typeof endColumns)[number] | 'pid';

const plainColumns: readonly EndColumn[] = [
  ...(['finished_at', 'duration_ms', 'exit_code', 'output_bytes', 'output_dropped_bytes', 'pid', 'suspect'] as const),
];
const measuredColumns: readonly EndColumn[] = [
  ...(['user_cpu_ms', 'system_cpu_ms', 'max_rss_bytes', 'rss_delta_bytes', 'measured_by'] as const),
];
/** Few runs that have succeeded have any of these. */
const otherColumns = endColumns.filter((each) => ![...plainColumns, ...measuredColumns, 'outcome'].includes(each));

/**
 * Finishes claimed jobs and adds their runs by one statement; numbers of the runs, by job. Left out are jobs that are
 * not as they were claimed, and those with a family or a rule.
 */
async function finishJobs(db: ServerStatements, rows: readonly FinishedRow[]): Promise<Map<number, number>> {
  // Another server changes one table at a time.
  if (db.dialect.name !== 'postgres' || rows.length === 0) return new Map();
  const { text, values } = finishing(rows);
  const added = await db.all<{ id: number; job_id: number }>(`with ${text} select id, job_id from added`, values);
  return new Map(added.map(({ id, job_id }) => [job_id, id]));
}

/** The part of a statement that does so: `added` has number and job of each run. */
export function finishing(rows: readonly FinishedRow[]): { readonly text: string; readonly values: unknown[][] } {
  const isKnown = (column: EndColumn): boolean => rows.some(({ end }) => end[column] !== null);
  const groups = [measuredColumns, otherColumns].filter((group) => group.some(isKnown));
  const ends = [...plainColumns, ...groups.flat()];
  const values = listsOf(
    rows.map(({ token, result, begun, end }) => [token, result, ...begun, ...ends.map((column) => end[column])]),
  );
  return { text: finishText([...beginningColumns, ...ends]), values };
}

/**
 * The conditions belong together: with each alone, a planner would go through all claimed jobs for each job. A session
 * that adds a child locks and changes the parent's row: a statement that has waited for it sees this change, though not
 * the child.
 */
function finishText(columns: readonly string[]): string {
  const names = columns.map(quoted);
  return `ended as (
      update jobs set state = 'finished', ready = null, result = told.result, finished_at = told.finished_at,
        reason = ${columns.includes('reason') ? 'told.reason' : 'null'}, attempts = told.attempt,
        started_at = told.started_at, claim_token = null, lease_expires_at = null, lease_extended = 0
      from ${unnest(['claim_token', 'result', ...columns])} as told (claim_token, result, ${names.join(', ')})
      where jobs.id = told.job_id
        and case when jobs.claim_token = told.claim_token and jobs.attempts = told.attempt - 1
          then jobs.state = 'claimed' and jobs.parent_id is null and jobs."repeat" is null and jobs.tier is null
            and jobs.on_child_failure is null and ${isChildless} end
      returning ${names.map((name) => `told.${name}`).join(', ')}),
    added as (insert into runs (outcome, ${names.join(', ')}) select 'succeeded', ended.* from ended
      returning id, job_id)`;
}

/** Changes rows by number. */
async function changeRuns(
  db: ServerStatements,
  columns: readonly string[],
  rows: readonly { readonly id: number; readonly values: readonly unknown[] }[],
): Promise<void> {
  const all = ['id', ...columns];
  for (const page of pagesOf(rows.map(({ id, values }) => [id, ...values]))) {
    const values = db.dialect.name === 'postgres' ? listsOf(page) : page.flat();
    await db.run(changeText(db.dialect, all, page.length), values);
  }
}

function changeText({ name }: ServerDialect, columns: readonly string[], rows: number): string {
  const assigned = columns.slice(1).map((column) => `${quoted(column)} = ${newValue(column)}`);
  if (name === 'postgres') {
    const list = columns.map(quoted).join(', ');
    return `update runs set ${assigned.join(', ')} from ${unnest(columns)} as new (${list}) where runs.id = new.id`;
  }
  const named = `select ${columns.map((column) => `? as ${quoted(column)}`).join(', ')}`;
  const others = ` union all select ${columns.map(() => '?').join(', ')}`.repeat(rows - 1);
  return `update runs join (${named}${others}) as new on new.id = runs.id
    set ${assigned.map((each) => `runs.${each}`).join(', ')}`;
}

/** A run's process that is not known at its end may have been written down before. */
const newValue = (column: string): string =>
  column === 'pid' ? `coalesce(new.pid, runs.pid)` : `new.${quoted(column)}`;
