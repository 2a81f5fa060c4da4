import { type Kysely, sql } from 'kysely';
import type { LogView } from '../../../discovery/site.ts';
import { tellsEnd } from '../../../execution/result/report.ts';
import { describeCrash } from '../../../execution/result/wording.ts';
import { runFilesOf } from '../../../execution/run-files.ts';
import { WHOLE_QUEUE } from '../../../queue/pauses.ts';
import type { ActivityLog } from '../../../store/schema.ts';
import { measures, measuringWays, outcomes, type WorkerState } from '../../../store/words.ts';
import { field, LEFT_OUT, record, shown, type Values } from '../../../system/base/record.ts';
import { inPages, toMillis } from '../../../system/base/values.ts';
import { checkLiveness, type Liveness, livenesses } from '../../../system/process/identity.ts';

/** A whole number of milliseconds or bytes, of which nobody may know. */
const known = shown.number.orNull;

/** An uncaught error of a Node script. */
const runErrorRecord = record('RunError', {
  name: field.text.like('mail/welcome').orNull,
  message: field.text.like('no orders').orNull,
  stack: field.text.like('Error: no orders\n    at jobs/hourly/clean-tmp.ts:3:9').orNull,
});

/** In what a run was unlike the script's runs before it. */
const deviationRecord = record('Deviation', {
  measure: field.words(measures),
  name: field.text.like('mail/welcome').about('The name of the count; empty for other measures'),
  value: field.number,
  usual: field.number,
  runs: field.integer.about('How many runs it was compared with'),
  since: field.instant.orNull.from('since'),
});

export const outcomeField = shown.words(outcomes, 'Outcome').like('failed');

const SUSPICION = 'exit code 0, but its output tells of a failure';

/** How a run ended, where neither an exit code nor a signal says so. */
const endings: Readonly<Record<string, string>> = {
  'timed-out': 'timed out',
  crashed: 'nobody saw it end',
  'not-started': 'did not start',
  stopped: 'stopped',
};

/** The end of a run by its other fields: its reason may quote what the script has said. */
function describePublicEnd(_reason: string, { outcome, exitCode, signal }: Readonly<Record<string, unknown>>): string {
  if (typeof outcome === 'string' && outcome in endings) return endings[outcome] as string;
  if (typeof signal === 'string') return `ended by ${signal}`;
  return typeof exitCode === 'number' && exitCode !== 0 ? `exit code ${exitCode}` : LEFT_OUT;
}

/** One run as the readers of the log see it; unknown is null. */
export const runRecord = record('Run', {
  id: shown.integer,
  script: shown.text.like('hourly/clean-tmp'),
  tier: shown.text.like('hourly'),
  job: shown.integer.orNull.from('jobId').about('The number of a job of the queue; null: it is a run of a script'),
  outcome: outcomeField,
  attempt: shown.integer,
  scheduledFor: shown.instant.orNull.about(
    'When it was due, by the crontab, its schedule or its rule; null: not known',
  ),
  startedAt: shown.instant,
  finishedAt: shown.instant.orNull,
  durationMs: known,
  userCpuMs: known,
  systemCpuMs: known,
  maxRssBytes: known,
  measuredBy: shown.words(measuringWays).orNull,
  exitCode: shown.integer.orNull,
  signal: shown.text.like('SIGKILL').orNull,
  reason: field.text
    .like('exit code 3')
    .inPublicAs(describePublicEnd)
    .orNull.about('How it ended, in one sentence; null: it succeeded'),
  /** Problems that did not end the run; one line each. */
  warning: field.text
    .like('its output tells of an error')
    .inPublicAs((_, { suspect }) => (suspect === true ? SUSPICION : LEFT_OUT)).orNull,
  suspect: shown.flag.about('Whether it succeeded though its output tells of a failure'),
  error: field.one(runErrorRecord).inPublicAs(() => ({ name: LEFT_OUT, message: LEFT_OUT, stack: '' })).orNull,
  contentHash: shown.text.like('9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08').orNull,
  pid: shown.integer.orNull,
  outputBytes: known,
  outputDroppedBytes: known,
  /** Figures that the script has counted, by name. */
  counts: field.map(field.number),
  deviations: field.list(field.one(deviationRecord)),
});

export type RunRecord = Values<typeof runRecord>;

/** `hourly` of `hourly/clean-tmp`. */
export function tierOf(script: string): string {
  return script.slice(0, Math.max(0, script.indexOf('/')));
}

const columns = [
  'runs.id',
  'scripts.name as script',
  'runs.job_id as jobId',
  'runs.outcome',
  'runs.attempt',
  'runs.scheduled_for as scheduledForMs',
  'runs.started_at as startedAtMs',
  'runs.finished_at as finishedAtMs',
  'runs.duration_us as durationUs',
  'runs.user_cpu_us as userCpuUs',
  'runs.system_cpu_us as systemCpuUs',
  'runs.max_rss_bytes as maxRssBytes',
  'runs.measured_by as measuredBy',
  'runs.exit_code as exitCode',
  'runs.signal',
  'runs.reason',
  'runs.warning',
  'runs.suspect',
  'runs.error_name as errorName',
  'runs.error_message as errorMessage',
  'runs.error_stack as errorStack',
  'script_versions.content_hash as contentHash',
  'runs.pid',
  'runs.output_bytes as outputBytes',
  'runs.output_dropped_bytes as outputDroppedBytes',
] as const;

/** Runs with all that their records hold. */
function recordedRuns(db: Kysely<ActivityLog>) {
  return db
    .selectFrom('runs')
    .innerJoin('scripts', 'scripts.id', 'runs.script_id')
    .leftJoin('script_versions', 'script_versions.id', 'runs.version_id')
    .select(columns);
}

type RecordedRuns = ReturnType<typeof recordedRuns>;

/** The runs that `choose` leaves of all, in its order. */
export async function selectRecords(log: LogView, choose: (runs: RecordedRuns) => RecordedRuns): Promise<RunRecord[]> {
  const rows = await choose(recordedRuns(log.db)).execute();
  const noted = await selectNotes(
    log.db,
    rows.map(({ id }) => id),
  );
  const isOpen = rows.some(({ outcome }) => outcome === 'running');
  const open = new Map(isOpen ? (await selectRunning(log)).map((run) => [run.id, run]) : []);
  return rows.map(({ errorName, errorMessage, errorStack, durationUs, userCpuUs, systemCpuUs, ...row }) => {
    const error = { name: errorName, message: errorMessage, stack: errorStack };
    const tier = tierOf(row.script);
    const run = {
      ...row,
      durationMs: toMillis(durationUs),
      userCpuMs: toMillis(userCpuUs),
      systemCpuMs: toMillis(systemCpuUs),
      tier,
      suspect: row.suspect === 1,
      jobId: tier === WHOLE_QUEUE ? row.jobId : null,
      error: Object.values(error).every((value) => value === null) ? null : error,
      counts: Object.fromEntries((noted.counts.get(row.id) ?? []).map(({ name, value }) => [name, value])),
      deviations: (noted.deviations.get(row.id) ?? []).map(({ run_id: _, ...deviation }) => deviation),
    };
    return asFound(run, open.get(run.id));
  });
}

/** Reads the counts and deviations of these runs, which have tables of their own. */
async function selectNotes(db: Kysely<ActivityLog>, ids: readonly number[]) {
  const counts: ActivityLog['counts'][] = [];
  const deviations: ActivityLog['deviations'][] = [];
  for (const page of inPages(ids)) {
    counts.push(...(await db.selectFrom('counts').selectAll().where('run_id', 'in', page).orderBy('name').execute()));
    const unlike = db.selectFrom('deviations').selectAll().where('run_id', 'in', page);
    deviations.push(...(await unlike.orderBy('measure').orderBy('name').execute()));
  }
  return {
    counts: Map.groupBy(counts, ({ run_id }) => run_id),
    deviations: Map.groupBy(deviations, ({ run_id }) => run_id),
  };
}

/** With what the next pass will find of a run whose process is gone. */
function asFound(run: RunRecord, open: RunningRun | undefined): RunRecord {
  if (open?.liveness !== 'dead') return run;
  if (open.hasResult) return { ...run, reason: 'it has ended; the next pass records how' };
  return { ...run, outcome: 'crashed', reason: describeCrash(open.runner, '', open.maxRssBytes) };
}

export const livenessField = shown.words(livenesses, 'Liveness');

/** A change of a script's content since its last success: when the new content first ran, and when that success began. */
export const changeRecord = record(null, {
  changedAt: shown.instant.from('changedAt'),
  lastSuccessAt: shown.instant.from('lastSuccessAt'),
});

/** A run that has not ended yet, as far as the log knows. */
export const runningRecord = record('RunningRun', {
  id: shown.integer,
  script: shown.text.like('hourly/clean-tmp'),
  startedAt: shown.instant,
  pid: shown.integer.orNull,
  host: shown.text.like('web3'),
  /** `dead`: its runner and its process are both gone. */
  liveness: livenessField,
  /** Its runner is gone; whether it runs on tells `liveness`. */
  isOrphan: shown.flag,
  attempt: shown.integer,
  /** The most that its processes were seen with so far. */
  maxRssBytes: known,
});

export interface RunningRun extends Values<typeof runningRecord> {
  readonly workerId: number;
  /** "pid 4711 on web3" */
  readonly runner: string;
  /** It has ended by itself: how, its result file tells the next pass. */
  readonly hasResult: boolean;
}

/** The runs that have a row and no end, oldest first. Runs that are over within a moment never have one. */
export async function selectRunning({ db, state }: LogView): Promise<RunningRun[]> {
  const rows = await runningRuns(db).execute();
  // Sorted here: asked to sort, a database may walk an index of all runs instead.
  const oldestFirst = rows.toSorted((one, other) => one.startedAtMs - other.startedAtMs);
  return oldestFirst.map((row) => ({
    id: row.id,
    script: row.script,
    startedAtMs: row.startedAtMs,
    attempt: row.attempt,
    pid: row.pid,
    host: row.host,
    workerId: row.workerId,
    runner: `pid ${row.workerPid} on ${row.host}`,
    maxRssBytes: row.maxRssBytes,
    isOrphan: livenessOfWorker(row) === 'dead',
    liveness: livenessOf(row),
    hasResult: tellsEnd(runFilesOf(state, `${row.workerId}.${row.claimNumber}`).result),
  }));
}

/** Whether the run goes on, to the best of what can be seen from here. */
export async function isStillRunning({ db }: LogView, id: number): Promise<boolean> {
  const row = await runningRuns(db).where('runs.id', '=', id).executeTakeFirst();
  return row !== undefined && livenessOf(row) !== 'dead';
}

/** Whether the log knows of a worker or a run without an end: its process may end at any time, and tell nobody. */
export async function hasOpenWork({ db }: LogView): Promise<boolean> {
  // A literal, as below.
  const workers = db
    .selectFrom('workers')
    .select('id')
    .where('state', '=', sql.lit('running' as const));
  const worker = await workers.limit(1).executeTakeFirst();
  return worker !== undefined || (await runningRuns(db).limit(1).executeTakeFirst()) !== undefined;
}

function runningRuns(db: Kysely<ActivityLog>) {
  return (
    db
      .selectFrom('runs')
      .innerJoin('scripts', 'scripts.id', 'runs.script_id')
      .innerJoin('workers', 'workers.id', 'runs.worker_id')
      .innerJoin('hosts', 'hosts.id', 'workers.host_id')
      .select([
        'runs.id',
        'scripts.name as script',
        'runs.started_at as startedAtMs',
        'runs.attempt',
        'runs.max_rss_bytes as maxRssBytes',
        'runs.pid',
        'runs.pid_start_ticks as startTicks',
        'runs.claim_number as claimNumber',
        'workers.id as workerId',
        'hosts.host',
        'hosts.boot_id as bootId',
        'workers.state as workerState',
        'workers.pid as workerPid',
        'workers.pid_start_ticks as workerStartTicks',
      ])
      // A literal: with a bound value SQLite cannot tell that the partial index holds all of them.
      .where('runs.outcome', '=', sql.lit('running' as const))
  );
}

interface RunningRow {
  readonly host: string;
  readonly bootId: string | null;
  readonly workerState: WorkerState;
  readonly workerPid: number;
  readonly workerStartTicks: number | null;
  readonly pid: number | null;
  readonly startTicks: number | null;
}

const NO_PID = 0;

/** A script can outlive its runner, and goes on writing its output when it does. */
function livenessOf(row: RunningRow): Liveness {
  const ofWorker = livenessOfWorker(row);
  if (ofWorker !== 'dead') return ofWorker;
  const { host, bootId, pid, startTicks } = row;
  const liveness = checkLiveness({ host, bootId, pid: pid ?? NO_PID, startTicks });
  if (pid !== null || liveness === 'on-another-host') return liveness;
  // The pid was not recorded in time. If the worker is known to be dead, its run was looked for and found alive, or it
  // would have an end.
  return row.workerState === 'running' ? 'dead' : 'alive';
}

function livenessOfWorker(row: RunningRow): Liveness {
  if (row.workerState !== 'running') return 'dead';
  const { host, bootId, workerPid: pid, workerStartTicks: startTicks } = row;
  return checkLiveness({ host, bootId, pid, startTicks });
}
