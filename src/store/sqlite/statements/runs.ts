import { inPages } from '../../../system/base/values.ts';
import type { EndedRun, LastingRun, RunStart, RunStore, StartedRunRow } from '../../contract/runs.ts';
import type { FinishedRun } from '../../schema.ts';
import type { Sync } from '../../shared/areas.ts';
import {
  beginningValues,
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
import type { Outcome } from '../../words.ts';
import type { SqliteStatements } from '../session.ts';
import { LateRows } from './counted.ts';

const insertText = (columns: readonly string[]): string =>
  `insert into runs (${columns.join(', ')}) values (${columns.map(() => '?').join(', ')})`;
/** A process that is not known at its end may have been written down before. */
const assigned = (column: string): string => (column === 'pid' ? 'pid = coalesce(?, pid)' : `${column} = ?`);
const updateText = (columns: readonly string[]): string =>
  `update runs set ${columns.map(assigned).join(', ')} where id = ?`;

const startText = insertText(startColumns);
const insertWholeText = insertText(wholeColumns);
const endText = updateText(endingColumns);
const outputText = `${updateText(outputColumns)} and job_id = ?`;

export function sqliteRuns(db: SqliteStatements): Sync<RunStore> {
  return { ...writes(db), ...tries(db), ...found(db) };
}

function writes(
  db: SqliteStatements,
): Pick<Sync<RunStore>, 'start' | 'progress' | 'end' | 'finish' | 'ofClaim' | 'addOutput'> {
  const scripts = new ScriptNumbers(db);
  const sample = new Sample();
  return {
    start: (runs) => runs.map((run) => start(db, scripts, run)),
    progress: ({ runId, jobId }, { pid, startTicks, maxRssBytes }) => {
      db.run(
        `update runs set pid = ?, pid_start_ticks = ?, max_rss_bytes = ?
         where id = ? and job_id = ? and outcome = 'running'`,
        [pid, startTicks, maxRssBytes, runId, jobId],
      );
    },
    end: (runs) => runs.map((run) => end(db, scripts, sample, run)),
    // Nothing is far away: to ask what became of a job costs no more.
    finish: (runs) => runs.map(() => null),
    ofClaim: ({ id, token }) => {
      const text = `select id from runs where job_id = ? and worker_id || '.' || claim_number = ?`;
      return db.first<{ id: number }>(text, [id, token])?.id ?? null;
    },
    addOutput: ({ runId, jobId }, run) => {
      const known = db.first('select 1 from outputs where run_id = ?', [runId]) !== undefined;
      const values = [...outputColumns.map((column) => run[column]), runId, jobId];
      // It may be gone with its job, and its number be another run's by now.
      if (known || db.run(outputText, values) === 0) return;
      keepOutput(db, runId, run);
    },
  };
}

/** Queries about the earlier runs of a job or a script. */
function tries(
  db: SqliteStatements,
): Pick<Sync<RunStore>, 'running' | 'history' | 'hasTryCrashed' | 'lastSuccess' | 'lastOutcome' | 'durations'> {
  return {
    running: (jobId) => runningRunOf(db, jobId),
    history: (script) => toHistory(db.all<NewestRun>(newestText, [script, script])),
    hasTryCrashed: (jobId) =>
      db.first(
        `select 1 from runs where job_id = ? and outcome = 'crashed' and id >= coalesce((
           select max(id) from runs where job_id = ? and attempt = 1 and outcome <> 'released'), 0)
         limit 1`,
        [jobId, jobId],
      ) !== undefined,
    lastSuccess: (jobId) =>
      db.first<{ started_at: number }>(
        `select started_at from runs where job_id = ? and outcome = 'succeeded' order by id desc limit 1`,
        [jobId],
      )?.started_at ?? null,
    lastOutcome: (jobId) =>
      db.first<{ outcome: Outcome }>(
        `select outcome from runs where job_id = ? and outcome <> 'running' order by id desc limit 1`,
        [jobId],
      )?.outcome ?? null,
    durations: (script, limit) =>
      db
        .all<{ duration_ms: number }>(
          `select duration_ms from runs where script_id = (select id from scripts where name = ?)
             and outcome = 'succeeded' and duration_ms is not null
           order by started_at desc limit ?`,
          [script, limit],
        )
        .map(({ duration_ms }) => duration_ms),
  };
}

/** Which of many there are. */
function found(db: SqliteStatements): Pick<Sync<RunStore>, 'outputFiles' | 'knownSpoolIds'> {
  return {
    outputFiles: () =>
      db
        .all<{ output_file: string }>('select output_file from runs where output_file is not null')
        .map(({ output_file }) => output_file),
    knownSpoolIds: (ids) =>
      [...inPages(ids)].flatMap((page) =>
        db
          .all<{ spool_id: string }>('select spool_id from runs where spool_id in (select value from json_each(?))', [
            JSON.stringify(page),
          ])
          .map(({ spool_id }) => spool_id),
      ),
  };
}

function start(db: SqliteStatements, scripts: ScriptNumbers, run: LastingRun): number {
  const id = db.insert(startText, [
    ...startValues(scripts, run),
    ...[run.timeoutMs, 'running', run.pid, run.startTicks, run.maxRssBytes],
  ]);
  new LateRows(db).run(id, run.startedAt, null);
  return id;
}

function startValues(scripts: ScriptNumbers, run: RunStart): unknown[] {
  return beginningValues(run, scripts.of(run.script, run.contentHash, run.startedAt));
}

function end(db: SqliteStatements, scripts: ScriptNumbers, sample: Sample, run: EndedRun): number {
  const values = endingValues(run);
  if (run.runId !== null) db.run(endText, [...values, run.runId]);
  const runId = run.runId ?? db.insert(insertWholeText, [...startValues(scripts, run), ...values]);
  keepOutput(db, runId, run.end);
  keepCounts(db, runId, run.end);
  if (run.end.outcome === 'succeeded' && sample.takes(run)) {
    db.run('insert or ignore into uncompared (run_id) values (?)', [runId]);
  }
  new LateRows(db).run(runId, run.runId === null ? run.startedAt : null, run.end.finished_at);
  return runId;
}

function keepCounts(db: SqliteStatements, runId: number, { counts = {} }: FinishedRun): void {
  for (const [name, value] of Object.entries(counts)) {
    db.run('insert or replace into counts (run_id, name, value) values (?, ?, ?)', [runId, name, value]);
  }
}

function keepOutput(db: SqliteStatements, runId: number, { output }: FinishedRun): void {
  if (output === null || output === '') return;
  db.run('insert or replace into outputs (run_id, output) values (?, ?)', [runId, output]);
}

/** A job that another program began by plain SQL has no claim, but may have a run. */
export function runningRunOf(db: SqliteStatements, jobId: number): StartedRunRow | null {
  return (
    db.first<StartedRunRow>(
      `select runs.id, job_id as jobId, worker_id || '.' || claim_number as key, scripts.name as script, started_at as startedAt, attempt,
         timeout_ms as timeoutMs, pid, pid_start_ticks as startTicks, max_rss_bytes as maxRssBytes
       from runs join scripts on scripts.id = script_id
       where job_id = ? and outcome = 'running' order by runs.id desc limit 1`,
      [jobId],
    ) ?? null
  );
}

const numbersText = `select scripts.id as scriptId, script_versions.id as versionId from scripts
  left join script_versions on script_id = scripts.id and content_hash = ? where name = ?`;
const addVersion = 'insert into script_versions (script_id, content_hash, first_run_at) values (?, ?, ?)';

/** Numbers of names and content hashes: they are few, and never change. */
class ScriptNumbers {
  readonly #db: SqliteStatements;
  readonly #known = new Map<string, ScriptNumber>();
  #rollbacks = 0;

  constructor(db: SqliteStatements) {
    this.#db = db;
  }

  of(name: string, contentHash: string | null, at: number): ScriptNumber {
    if (this.#rollbacks !== this.#db.rollbacks) this.#known.clear();
    this.#rollbacks = this.#db.rollbacks;
    const key = `${contentHash ?? ''} ${name}`;
    const known = this.#known.get(key);
    if (known !== undefined) return known;
    const [found] = this.#db.all<{ scriptId: number; versionId: number | null }>(numbersText, [contentHash, name]);
    const scriptId = found?.scriptId ?? this.#db.insert('insert into scripts (name) values (?)', [name]);
    const isKnown = contentHash === null || found?.versionId != null;
    const versionId = isKnown ? (found?.versionId ?? null) : this.#db.insert(addVersion, [scriptId, contentHash, at]);
    const numbers = { scriptId, versionId };
    this.#known.set(key, numbers);
    return numbers;
  }
}
