import { hostname } from 'node:os';
import type { Kysely } from 'kysely';
import { onTestFinished } from 'vitest';
import type { KnownTier } from '../../src/discovery/script.ts';
import type { LogView } from '../../src/discovery/site.ts';
import type { ActivityLog, FinishedRun, RunRow } from '../../src/store/schema.ts';
import type { Pause } from '../../src/store/statements/pauses.ts';
import type { Store } from '../../src/store/store.ts';
import type { WorkerKind } from '../../src/store/words.ts';
import type { StateFolder } from '../../src/system/place/state-folder.ts';
import { identifyProcess } from '../../src/system/process/identity.ts';
import { engine, type LogConnection } from './engines/engines.ts';
import { makeFinishedRun } from './log.ts';
import { makeStateOf } from './store.ts';

/** A run's row and its output, as far as a test says. */
export type WrittenRun = Partial<
  RunRow & Pick<FinishedRun, 'counts'> & { output: string | null; content_hash: string | null }
>;

/** A real activity log in a root, filled by a test instead of by a runner. */
export interface WrittenLog {
  readonly store: Store;
  readonly db: Kysely<ActivityLog>;
  readonly state: StateFolder;
  /** Changes a row as nobody but a test does; how many it changed. */
  readonly change: LogConnection['change'];
  /** A pass, ended after a second unless said otherwise; its id. */
  addPass(tier: string, startedAtMs: number, fields?: Partial<PassFields>): Promise<number>;
  /** A run that succeeded in 100 ms in a pass of its own, unless said otherwise; its id. */
  addRun(script: string, startedAtMs: number, fields?: WrittenRun): Promise<number>;
}

export interface PassFields {
  readonly state: 'running' | 'finished' | 'skipped' | 'crashed';
  readonly kind: WorkerKind;
  readonly reason: string | null;
  readonly pid: number;
}

/** A pid that no process has: the kernel's largest is 2^22. */
export const NO_SUCH_PID = 5_000_000;

/** A site of this log, of whose `jobs/` a test says what is in it: nothing else is read. */
export const siteOf = (
  log: LogView & { readonly store?: Store },
  known?: readonly KnownTier[],
  pauses: readonly Pause[] = [],
) => ({
  view: async () => ({ db: log.db, state: log.state }),
  store: log.store ?? null,
  known: async () => known,
  jobs: async (): Promise<never> => {
    throw new Error('No file is read.');
  },
  pauses: async () => pauses,
  crontab: async () => null,
  nowMs: Date.now(),
});

export async function writeLog(root: string): Promise<WrittenLog> {
  const state = makeStateOf(root);
  const store = await engine.openStore(state);
  const log = engine.connect(root, 'change');
  // What a test writes by hand need not survive anything, and a thousand runs are soon written.
  if (engine.name === 'sqlite') log.change('pragma synchronous = off');
  onTestFinished(async () => {
    log.close();
    await store.close();
  });
  const addPass: WrittenLog['addPass'] = (tier, startedAtMs, fields = {}) =>
    store.transaction(async ({ workers }) => {
      const { state: passState = 'finished', kind = 'tier', reason = null } = fields;
      const { pid = NO_SUCH_PID } = fields;
      const { bootId, startTicks } = identifyProcess(pid);
      const worker = {
        ...{ kind, tier, host: hostname(), bootId, pid, startTicks, trigger: 'cron' as const },
        ...{ scheduledFor: startedAtMs, startedAt: startedAtMs },
        ...{ runnerVersion: '0.1.0', nodeVersion: process.version },
      };
      if (passState === 'running') return await workers.start(worker);
      if (passState === 'skipped') return await workers.skip(worker, 'held', reason ?? 'held');
      // Never as if it were at work: another one may be.
      return await workers.addEnded(worker, { state: passState, at: startedAtMs + 1000, reason });
    });
  const addRun: WrittenLog['addRun'] = async (script, startedAt, fields = {}) => {
    const tier = script.slice(0, script.indexOf('/'));
    const workerId = fields.worker_id ?? (await addPass(tier, startedAt, { kind: 'script' }));
    const jobId = fields.job_id ?? addScriptJob(log, { script, at: startedAt, workerId, fields });
    const id = await store.transaction(async (session) => {
      const { attempt = 1, scheduled_for: scheduledFor = null, timeout_ms = null } = fields;
      const start = {
        ...{ jobId, workerId, key: keyOf(workerId, fields), script },
        contentHash: fields.content_hash ?? null,
        ...{ attempt, scheduledFor, startedAt, timeoutMs: timeout_ms },
      };
      const { pid = null, pid_start_ticks: startTicks = null } = fields;
      const seen = { pid, startTicks, maxRssBytes: fields.max_rss_bytes ?? null };
      const [runId] = await session.runs.start([{ ...start, ...seen }]);
      if (fields.outcome === 'running') return runId as number;
      const end = { ...usualEnd(startedAt), ...pickEnd(fields) };
      const leftJob = fields.left_job ?? (end.outcome === 'succeeded' ? null : 'failed');
      await session.runs.end([{ ...start, runId: runId as number, end, leftJob }]);
      return runId as number;
    });
    if (fields.outcome === 'running') noteOpen(log, id, pickEnd(fields));
    return id;
  };
  return { store, db: await store.queries(), state, change: log.change, addPass, addRun };
}

/** What else a test says of a run that has not ended, though no runner would. */
function noteOpen({ change }: LogConnection, id: number, fields: Partial<FinishedRun>): void {
  for (const [column, value] of Object.entries(fields)) {
    change(`update runs set "${column}" = ? where id = ?`, value, id);
  }
}

/** By which a run's files are called: that of the first claim of its worker, unless said otherwise. */
function keyOf(workerId: number, { claim_number = 1 }: WrittenRun): string {
  return `${workerId}.${claim_number}`;
}

interface ScriptJob {
  readonly script: string;
  readonly at: number;
  readonly workerId: number;
  readonly fields: WrittenRun;
}

/** A script's one row, as its last run has left it; each job of the queue has its own. */
function addScriptJob({ all, change }: LogConnection, { script, at, workerId, fields }: ScriptJob): number {
  const { outcome = 'succeeded' } = fields;
  const tier = script.slice(0, script.indexOf('/'));
  const isQueued = tier === 'queue';
  const name = isQueued ? script.slice(6) : script;
  const isRunning = outcome === 'running';
  const state = isRunning ? 'running' : outcome === 'succeeded' ? 'finished' : 'failed';
  const left = [state, at, isRunning ? null : at + 100, isRunning ? keyOf(workerId, fields) : null];
  const [known] = isQueued ? [] : all<{ id: number }>('select id from jobs where name = ? and tier = ?', name, tier);
  if (known !== undefined) {
    change('update jobs set state = ?, run_at = ?, finished_at = ?, claim_token = ? where id = ?', ...left, known.id);
    return known.id;
  }
  change(
    `insert into jobs (state, run_at, finished_at, claim_token, name, tier, ready, created_at)
     values (?, ?, ?, ?, ?, ?, null, ?)`,
    ...left,
    ...[name, isQueued ? null : tier, at],
  );
  return (all<{ id: number }>('select max(id) as id from jobs')[0] as { id: number }).id;
}

function usualEnd(startedAt: number): FinishedRun {
  return makeFinishedRun({
    ...{ finished_at: startedAt + 100, duration_us: 100_000, user_cpu_us: 40_000, system_cpu_us: 10_000 },
    ...{ max_rss_bytes: 50 * 1024 * 1024, output: null, output_bytes: null },
    output_dropped_bytes: null,
  });
}

/** What of these belongs to a run's end. */
function pickEnd(fields: WrittenRun): Partial<FinishedRun> {
  const known = [...Object.keys(makeFinishedRun()), 'counts'];
  return Object.fromEntries(Object.entries(fields).filter(([key]) => known.includes(key)));
}

/** What a run has that has not ended. */
export const running = {
  outcome: 'running',
  finished_at: null,
  duration_us: null,
  user_cpu_us: null,
  system_cpu_us: null,
  max_rss_bytes: null,
  measured_by: null,
  exit_code: null,
} as const satisfies WrittenRun;
