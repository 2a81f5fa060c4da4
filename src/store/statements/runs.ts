import { inPages, toMillis } from '../../system/base/values.ts';
import { columnsOf } from '../columns.ts';
import type { FinishedRun } from '../schema.ts';
import {
  beginningValues,
  endingColumns,
  endingValues,
  type NewestRun,
  newestText,
  outputColumns,
  type RunEnding,
  type RunStart,
  Sample,
  type ScriptNumber,
  ScriptNumbers,
  startColumns,
  toHistory,
  wholeColumns,
} from '../shared/run-rows.ts';
import type { Dialect } from '../shared/sql/dialect.ts';
import { addRows, listsOf, ofStatement, pagesOf, putRows, quoted, unnest } from '../shared/sql/rows.ts';
import type { Statements } from '../shared/sql/statements.ts';
import { tables } from '../tables.ts';
import type { Outcome } from '../words.ts';
import { LateRows } from './counted.ts';
import type { Deviation, MeasuredRun } from './monitor/usual.ts';

/** By what a claim is known to whoever settles it. */
export interface ClaimRef {
  readonly id: number;
  readonly token: string;
}

/** A run that lasts: its row is there before its end. */
export interface LastingRun extends RunStart {
  readonly pid: number | null;
  readonly startTicks: number | null;
  readonly maxRssBytes: number | null;
}

export interface StartedRunRow {
  readonly id: number;
  readonly jobId: number;
  readonly key: string | null;
  readonly script: string;
  readonly startedAt: number;
  readonly attempt: number;
  readonly timeoutMs: number | null;
  readonly pid: number | null;
  readonly startTicks: number | null;
  readonly maxRssBytes: number | null;
}

export interface NumberedRun extends Pick<StartedRunRow, 'id' | 'jobId' | 'script' | 'startedAt'> {
  /** Null: a caller that is no worker of the runner has it. */
  readonly workerId: number | null;
  readonly outcome: Outcome;
}

/** A run that has succeeded and has no row yet, of a job that was claimed and not noted as begun. */
export interface FinishedClaim extends Omit<RunEnding, 'runId' | 'leftJob' | 'spoolId'> {
  readonly key: string;
  /** JSON; null: it gave none back. */
  readonly result: string | null;
}

/** A run that has a row. The number alone may be another run's by now: jobs are deleted with their runs. */
export interface RunRef {
  readonly runId: number;
  readonly jobId: number;
}

export function runsOf(db: Statements) {
  return { ...writes(db), ...tries(db), ...found(db) };
}

function writes(db: Statements) {
  const memory = memoryOf(db);
  return {
    /** Writes rows of runs that go on; their numbers. */
    start: (runs: readonly LastingRun[]) => start(db, memory, runs),
    /** Records the progress of a run that goes on. */
    progress: async (
      { runId, jobId }: RunRef,
      { pid, startTicks, maxRssBytes }: { pid: number; startTicks: number | null; maxRssBytes: number | null },
    ) => {
      await db.run(
        `update runs set pid = ?, pid_start_ticks = ?, max_rss_bytes = ?
         where id = ? and job_id = ? and outcome = 'running'`,
        [pid, startTicks, maxRssBytes, runId, jobId],
      );
    },
    /** Writes how runs ended; their numbers. */
    end: (runs: readonly RunEnding[]) => end(db, memory, runs),
    /**
     * Ends runs that have succeeded, and finishes their jobs; returns the numbers of the runs. Null: the end may have
     * further consequences, or its claim was lost; it must be settled like any other. An engine returns null for all if
     * this saves nothing.
     */
    finish: (runs: readonly FinishedClaim[]) => finish(db, memory, runs),
    /** The run of a worker's claim, whatever has become of it, if it has a row. */
    ofClaim: async ({ id, token }: ClaimRef) => {
      const text = `select id from runs where job_id = ? and worker_id || '.' || claim_number = ?`;
      return (await db.first<{ id: number }>(text, [id, token]))?.id ?? null;
    },
    /** Keeps what a run printed whose claim was lost, unless its output is known. */
    addOutput: async ({ runId, jobId }: RunRef, run: FinishedRun) => {
      if ((await db.first('select 1 as known from outputs where run_id = ?', [runId])) !== undefined) return;
      const assigned = outputColumns.map((column) => `${column} = ?`).join(', ');
      const values = [...outputColumns.map((column) => run[column]), runId, jobId];
      // It may be gone with its job, and its number be another run's by now.
      if ((await db.run(`update runs set ${assigned} where id = ? and job_id = ?`, values)) === 0) return;
      await keepOutputs(db, [{ runId, end: run }]);
    },
  };
}

const memories = new WeakMap<Statements, Memory>();

export function memoryOf(db: Statements): Memory {
  const memory = memories.get(db) ?? new Memory(db);
  memories.set(db, memory);
  return memory;
}

/** The numbers of scripts and the sample of a session; forgotten when one of its transactions is undone. */
class Memory {
  readonly #db: Statements;
  #rollbacks = 0;
  #scripts: ScriptNumbers;
  #sample = new Sample();

  constructor(db: Statements) {
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

async function start(db: Statements, memory: Memory, runs: readonly LastingRun[]): Promise<number[]> {
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
  await new LateRows(db).runs(
    runs.map(({ startedAt }, index) => ({ id: ids[index] as number, started: startedAt, finished: null })),
  );
  return ids;
}

async function beginningsOf({ scripts }: Memory, runs: readonly RunStart[]): Promise<unknown[][]> {
  const numbers = await scripts.of(runs);
  return runs.map((run, index) => beginningValues(run, numbers[index] as ScriptNumber));
}

async function end(db: Statements, memory: Memory, runs: readonly RunEnding[]): Promise<number[]> {
  const ids = await writeEnds(db, memory, runs);
  await keepRest(
    db,
    memory,
    runs.map((run, index) => ({ ...run, runId: ids[index] as number, isWhole: run.runId === null })),
  );
  return ids;
}

async function finish(db: Statements, memory: Memory, runs: readonly FinishedClaim[]): Promise<(number | null)[]> {
  // Another engine changes one table at a time: it saves nothing.
  if (db.dialect.name !== 'postgres' || runs.length === 0) return runs.map(() => null);
  const { finishJobs } = await import('../server/postgres/finish.ts');
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

type WrittenEnd = Pick<RunEnding, 'script' | 'startedAt' | 'end'> & {
  readonly runId: number;
  /** Whether its beginning was written only now. */
  readonly isWhole: boolean;
};

/** Writes the parts of ended runs that other tables hold. */
async function keepRest(db: Statements, memory: Memory, runs: readonly WrittenEnd[]): Promise<void> {
  await keepOutputs(db, runs);
  await keepNumbers(db, runs);
  await keepDeviations(db, memory, runs);
  await new LateRows(db).runs(
    runs.map(({ runId, startedAt, end: { finished_at }, isWhole }) => ({
      ...{ id: runId, started: isWhole ? startedAt : null, finished: finished_at },
    })),
  );
}

/** Rows of those that have one are changed, all others are added; numbers of all. */
async function writeEnds(db: Statements, memory: Memory, runs: readonly RunEnding[]): Promise<number[]> {
  const lasting = runs.flatMap((run) => (run.runId === null ? [] : [{ id: run.runId, values: endingValues(run) }]));
  lasting.sort((one, other) => one.id - other.id);
  await changeRuns(db, endingColumns, lasting);
  const whole = runs.filter(({ runId }) => runId === null);
  const beginnings = await beginningsOf(memory, whole);
  const rows = whole.map((run, index) => [...(beginnings[index] ?? []), ...endingValues(run)]);
  const added = (await addRows(db, 'runs', wholeColumns, rows)).values();
  return runs.map(({ runId }) => runId ?? (added.next().value as number));
}

type Ended = Pick<RunEnding, 'end'> & { readonly runId: number };

async function keepOutputs(db: Statements, runs: readonly Ended[]): Promise<void> {
  const rows = runs.flatMap(({ runId, end: { output } }) => (output ? [[runId, output]] : []));
  await putRows(db, 'outputs', ['run_id', 'output'], rows, { key: ['run_id'], set: ['output'] });
}

/** Writes the figures that scripts have counted. */
async function keepNumbers(db: Statements, runs: readonly Ended[]): Promise<void> {
  const rows = runs.flatMap(({ runId, end: { counts = {} } }) =>
    Object.entries(counts).map(([name, value]) => [runId, name, value]),
  );
  await putRows(db, 'counts', ['run_id', 'name', 'value'], rows, { key: ['run_id', 'name'], set: ['value'] });
}

/** Writes in what runs that have succeeded are unlike those before them. */
async function keepDeviations(db: Statements, { sample }: Memory, runs: readonly WrittenEnd[]): Promise<void> {
  const measured = runs.flatMap((run): MeasuredRun[] => {
    const { runId: id, script, startedAt, end } = run;
    if (end.outcome !== 'succeeded' || !sample.takes(run)) return [];
    const { duration_us, max_rss_bytes: maxRssBytes, output_bytes: outputBytes, counts = {} } = end;
    return [{ id, script, startedAt, durationMs: toMillis(duration_us), maxRssBytes, outputBytes, counts }];
  });
  if (measured.length === 0) return;
  const { compareRuns } = await import('./monitor/compare-runs.ts');
  const rows = [...(await compareRuns(db, measured))].flatMap(([id, deviations]) =>
    deviations.filter(isKnown).map((each) => [id, ...deviationColumns.map((column) => each[column])]),
  );
  await putRows(db, 'deviations', ['run_id', ...deviationColumns], rows, { key: tables.deviations.key, set: [] });
}

/** A script may count up to the largest number there is: what is computed of it must not keep its run from the log. */
const isKnown = ({ value, usual }: Deviation): boolean => Number.isFinite(value) && Number.isFinite(usual);

const deviationColumns = columnsOf(tables.deviations, ['run_id']);

/** Queries about the earlier runs of a job or a script. */
function tries(db: Statements) {
  return {
    /** The job's run that goes on, if it has a row. */
    running: (jobId: number) => runningRun(db, jobId),
    history: async (script: string) => toHistory(await db.all<NewestRun>(newestText, [script, script])),
    /**
     * Whether an earlier try of the job died with its worker, or its lease expired. For a repeating job only the tries of
     * the present time count: they begin with the last first try that was not given back.
     */
    hasTryCrashed: async (jobId: number) =>
      (await db.first(
        `select 1 as crashed from runs where job_id = ? and outcome = 'crashed' and id >= coalesce((
           select id from runs where job_id = ? and attempt = 1 and outcome <> 'released'
           order by id desc limit 1), 0)
         limit 1`,
        [jobId, jobId],
      )) !== undefined,
    /** When the job's last successful run began; null: it has none. */
    lastSuccess: async (jobId: number) =>
      (
        await db.first<{ started_at: number }>(
          `select started_at from runs where job_id = ? and outcome = 'succeeded' order by id desc limit 1`,
          [jobId],
        )
      )?.started_at ?? null,
    /** How the job's last run ended; null: it has none. */
    lastOutcome: async (jobId: number) =>
      (
        await db.first<{ outcome: Outcome }>(
          `select outcome from runs where job_id = ? and outcome <> 'running' order by id desc limit 1`,
          [jobId],
        )
      )?.outcome ?? null,
  };
}

/** Which of many there are. */
function found(db: Statements) {
  return {
    /** The run of this number; null: there is none. */
    byNumber: async (id: number) =>
      (await db.first<NumberedRun>(
        `select runs.id, job_id as "jobId", worker_id as "workerId", scripts.name as script, outcome,
           started_at as "startedAt"
         from runs join scripts on scripts.id = script_id where runs.id = ?`,
        [id],
      )) ?? null,
    /** Names of the files in the output folder that runs have. */
    outputFiles: async () => {
      const rows = await db.all<{ output_file: string }>('select output_file from runs where output_file is not null');
      return rows.map(({ output_file }) => output_file);
    },
    /** Those of these spool ids that the log has. */
    knownSpoolIds: async (ids: readonly string[]) => {
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
async function runningRun(db: Statements, jobId: number): Promise<StartedRunRow | null> {
  return (await runningRuns(db, [jobId])).get(jobId) ?? null;
}

/** By job: the newest one of each. */
export async function runningRuns(
  db: Statements,
  jobIds: readonly number[],
): Promise<ReadonlyMap<number, StartedRunRow>> {
  const found = new Map<number, StartedRunRow>();
  for (const page of inPages(jobIds)) {
    for (const run of await runningOf(db, page)) found.set(run.jobId, run);
  }
  return found;
}

function runningOf(db: Statements, jobIds: readonly number[]): Promise<StartedRunRow[]> {
  return db.all<StartedRunRow>(
    `select runs.id, job_id as "jobId", worker_id || '.' || claim_number as "key", scripts.name as script,
       started_at as "startedAt", attempt, timeout_ms as "timeoutMs", pid, pid_start_ticks as "startTicks",
       max_rss_bytes as "maxRssBytes"
     from runs join scripts on scripts.id = script_id
     where ${db.dialect.isIn('job_id')} and outcome = 'running' order by runs.id`,
    [jobIds],
  );
}

/** Changes rows by number. */
async function changeRuns(
  db: Statements,
  columns: readonly string[],
  rows: readonly { readonly id: number; readonly values: readonly unknown[] }[],
): Promise<void> {
  if (db.dialect.name === 'sqlite') {
    const assigned = columns.map((column) => `${quoted(column)} = ${newValue(column, '?')}`);
    const text = `update runs set ${assigned.join(', ')} where id = ?`;
    for (const { id, values } of rows) await db.run(text, [...values, id]);
    return;
  }
  const all = ['id', ...columns];
  for (const page of pagesOf(
    rows.map(({ id, values }) => [id, ...values]),
    ofStatement,
  )) {
    const values = db.dialect.name === 'postgres' ? listsOf(page) : page.flat();
    await db.run(changeText(db.dialect, all, page.length), values);
  }
}

function changeText({ name }: Dialect, columns: readonly string[], rows: number): string {
  const assigned = columns.slice(1).map((column) => `${quoted(column)} = ${newValue(column, `new.${quoted(column)}`)}`);
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
const newValue = (column: string, value: string): string => (column === 'pid' ? `coalesce(${value}, runs.pid)` : value);
