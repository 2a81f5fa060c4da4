import { toMillis } from '../../system/base/values.ts';
import { columnsOf } from '../columns.ts';
import type { FinishedRun, RunRow } from '../schema.ts';
import { beginningColumns, notOfEnd, tables } from '../tables.ts';
import type { JobState, Outcome } from '../words.ts';
import { putRows } from './sql/rows.ts';
import type { Statements } from './sql/statements.ts';

/** The facts of a run that are known from its beginning. */
export interface RunStart {
  readonly jobId: number;
  readonly workerId: number | null;
  /** Its claim's token, by which its files are named; null: it has no claim of a worker. */
  readonly key: string | null;
  /** `hourly/clean-tmp`, `queue/mail/welcome`. */
  readonly script: string;
  /** SHA-256, hex; null: unknown. */
  readonly contentHash: string | null;
  readonly attempt: number;
  /** When it was due. */
  readonly scheduledFor: number | null;
  readonly startedAt: number;
  readonly timeoutMs: number | null;
}

export interface RunEnding extends RunStart {
  /** Its row, if it has one; null: it is written now. */
  readonly runId: number | null;
  readonly end: FinishedRun;
  /** State in which it leaves its job; null: finished. */
  readonly leftJob: JobState | null;
  readonly spoolId?: string | null;
}

/** The past of a script, from its newest runs. */
export interface RunHistory {
  /** When its last success began, and how long that took. */
  readonly lastSuccess: number | null;
  readonly lastDurationMs: number | null;
  readonly lastOutcome: Outcome | null;
}

/** Columns of a run that has begun and has not ended. */
export const startColumns = [
  ...beginningColumns,
  ...['timeout_ms', 'outcome', 'pid', 'pid_start_ticks', 'max_rss_bytes'],
] as const satisfies readonly (keyof RunRow)[];

export const outputColumns = [
  'output_bytes',
  'output_dropped_bytes',
  'output_file',
  'output_file_bytes',
] as const satisfies readonly (keyof FinishedRun)[];

/** Columns known at its end. */
export const endColumns = columnsOf(tables.runs, notOfEnd);

/** Columns that its end writes, in the order of {@link endingValues}. */
export const endingColumns = [
  ...['left_job', 'spool_id', ...endColumns],
  'pid',
] as const satisfies readonly (keyof RunRow)[];

export function endingValues({ leftJob, spoolId = null, end }: RunEnding): unknown[] {
  return [leftJob, spoolId, ...endColumns.map((column) => end[column]), end.pid ?? null];
}

/** Columns of a run that is written only at its end. */
export const wholeColumns = [...beginningColumns, ...endingColumns] as const satisfies readonly (keyof RunRow)[];

/** By what a script and its content are known to rows of runs. */
export interface ScriptNumber {
  readonly scriptId: number;
  readonly versionId: number | null;
}

/** Values of {@link beginningColumns}, in their order. */
export function beginningValues(run: RunStart, { scriptId, versionId }: ScriptNumber): unknown[] {
  const { jobId, workerId, key, attempt, scheduledFor, startedAt } = run;
  const claimNumber = key === null ? null : Number(key.slice(key.indexOf('.') + 1));
  return [jobId, workerId, scriptId, versionId, claimNumber, attempt, scheduledFor, startedAt];
}

/** The newest run of a script that has ended, or that has succeeded. */
export interface NewestRun extends Pick<RunRow, 'outcome' | 'started_at' | 'duration_us'> {
  readonly which: 'ended' | 'succeeded';
}

const newest = (which: NewestRun['which'], condition: string): string =>
  `select * from (select '${which}' as which, outcome, started_at, duration_us from runs
     where script_id = (select id from scripts where name = ?) and outcome ${condition}
     order by started_at desc, id desc limit 1) as newest_${which}`;

/** With the script's name twice. */
export const newestText = `${newest('ended', "<> 'running'")} union all ${newest('succeeded', "= 'succeeded'")}`;

export function toHistory(rows: readonly NewestRun[]): RunHistory {
  const success = rows.find(({ which }) => which === 'succeeded');
  return {
    lastSuccess: success?.started_at ?? null,
    lastDurationMs: toMillis(success?.duration_us ?? null),
    lastOutcome: rows.find(({ which }) => which === 'ended')?.outcome ?? null,
  };
}

/** A handler with many short jobs, whose times are noise, is compared now and then. */
const SHORT_US = 50_000;
const SAMPLE_EVERY_MS = 10_000;

/** Which runs are compared with those before them. */
export class Sample {
  /** When a short run of a handler was last taken. */
  readonly #takenAt = new Map<string, number>();

  takes(run: SampledRun): boolean {
    const isTaken = this.wants(run);
    if (isTaken && isShort(run)) this.#takenAt.set(run.script, run.startedAt);
    return isTaken;
  }

  /** Whether it would be taken. */
  wants(run: SampledRun): boolean {
    // Either way: the clock may have been set back.
    return !isShort(run) || Math.abs(run.startedAt - (this.#takenAt.get(run.script) ?? 0)) >= SAMPLE_EVERY_MS;
  }
}

type SampledRun = Pick<RunEnding, 'script' | 'startedAt' | 'end'>;

function isShort({ script, end: { duration_us, counts } }: SampledRun): boolean {
  return script.startsWith('queue/') && (duration_us ?? 0) < SHORT_US && counts === undefined;
}

type ScriptOfRun = Pick<RunStart, 'script' | 'contentHash' | 'startedAt'>;

/** Numbers of names and content hashes: they are few, and never change. */
export class ScriptNumbers {
  readonly #db: Statements;
  readonly #scripts = new Map<string, number>();
  readonly #versions = new Map<string, number>();

  constructor(db: Statements) {
    this.#db = db;
  }

  /** The numbers of the script and the version of each run; a script or version that the log lacks is added. */
  async of(runs: readonly ScriptOfRun[]): Promise<ScriptNumber[]> {
    const missing = runs.filter((run) => this.known(run) === null);
    if (missing.length > 0) {
      await this.#read(missing);
      // Another machine may add them just now: whoever comes second reads what the first one has added.
      await this.#addScripts(missing);
      await this.#addVersions(missing);
    }
    return runs.map((run) => this.known(run) as ScriptNumber);
  }

  /** Null: it was not looked for yet. */
  known({ script, contentHash }: ScriptOfRun): ScriptNumber | null {
    const scriptId = this.#scripts.get(script);
    if (scriptId === undefined) return null;
    const versionId = contentHash === null ? null : this.#versions.get(keyOf(scriptId, contentHash));
    return versionId === undefined ? null : { scriptId, versionId };
  }

  async #read(runs: readonly ScriptOfRun[]): Promise<void> {
    const wanted = runs.filter((run) => this.known(run) === null);
    if (wanted.length === 0) return;
    const { isIn } = this.#db.dialect;
    const hashes = [...new Set(wanted.map(({ contentHash }) => contentHash ?? ''))];
    const names = [...new Set(wanted.map(({ script }) => script))];
    const rows = await this.#db.all<{ scriptId: number; name: string; versionId: number | null; hash: string | null }>(
      `select scripts.id as "scriptId", name, script_versions.id as "versionId", content_hash as hash from scripts
       left join script_versions on script_id = scripts.id and ${isIn('content_hash')} where ${isIn('name')}`,
      [hashes, names],
    );
    for (const { scriptId, name, versionId, hash } of rows) {
      this.#scripts.set(name, scriptId);
      if (versionId !== null && hash !== null) this.#versions.set(keyOf(scriptId, hash), versionId);
    }
  }

  async #addScripts(runs: readonly ScriptOfRun[]): Promise<void> {
    const missing = new Set(runs.flatMap(({ script }) => (this.#scripts.has(script) ? [] : script)));
    if (missing.size === 0) return;
    const rows = [...missing].sort().map((name) => [name]);
    await putRows(this.#db, 'scripts', ['name'], rows, { key: ['name'], set: [] });
    await this.#read(runs);
  }

  async #addVersions(runs: readonly ScriptOfRun[]): Promise<void> {
    const missing = new Map<string, readonly [scriptId: number, hash: string | null, firstRunAt: number]>();
    for (const run of runs.toReversed()) {
      if (this.known(run) !== null) continue;
      const scriptId = this.#scripts.get(run.script) as number;
      missing.set(keyOf(scriptId, run.contentHash ?? ''), [scriptId, run.contentHash, run.startedAt]);
    }
    if (missing.size === 0) return;
    const rows = [...missing.values()].sort(([one], [other]) => one - other);
    const key = ['script_id', 'content_hash'];
    await putRows(this.#db, 'script_versions', [...key, 'first_run_at'], rows, { key, set: [] });
    await this.#read(runs);
  }
}

const keyOf = (scriptId: number, contentHash: string): string => `${scriptId} ${contentHash}`;
