import { hostname } from 'node:os';
import type { Insertable } from 'kysely';
import { onTestFinished } from 'vitest';
import {
  createStateFolder,
  type StateFolder,
  stateFolderOf,
} from '../../src/place/state-folder.ts';
import { identifyProcess } from '../../src/process/identity.ts';
import type { RunsTable } from '../../src/store/schema.ts';
import { openStore } from '../../src/store/sqlite/open.ts';
import type { Database } from '../../src/store/store.ts';

type NewRun = Insertable<RunsTable>;

/** A real activity log in a root, filled by a test instead of by a runner. */
export interface WrittenLog {
  readonly db: Database;
  readonly state: StateFolder;
  /** A pass, ended after a second unless said otherwise; its id. */
  addPass(tier: string, startedAtMs: number, fields?: Partial<PassFields>): Promise<number>;
  /** A run that succeeded in 100 ms in a pass of its own, unless said otherwise; its id. */
  addRun(script: string, startedAtMs: number, fields?: Partial<NewRun>): Promise<number>;
}

export interface PassFields {
  readonly state: 'running' | 'finished' | 'skipped' | 'crashed';
  readonly kind: 'tier' | 'script';
  readonly reason: string | null;
  readonly pid: number;
}

/** A pid that no process has: the kernel's largest is 2^22. */
export const NO_SUCH_PID = 5_000_000;

export async function writeLog(root: string): Promise<WrittenLog> {
  const state = stateFolderOf(root);
  createStateFolder(state);
  const { db, close } = await openStore(state);
  onTestFinished(close);
  const addPass: WrittenLog['addPass'] = async (tier, startedAtMs, fields = {}) => {
    const {
      state: passState = 'finished',
      kind = 'tier',
      reason = null,
      pid = NO_SUCH_PID,
    } = fields;
    const identity = identifyProcess(pid);
    const { id } = await db
      .insertInto('workers')
      .values({
        kind,
        tier,
        state: passState,
        host: hostname(),
        boot_id: identity.bootId,
        pid,
        pid_start_ticks: identity.startTicks,
        scheduled_for: startedAtMs,
        started_at: startedAtMs,
        finished_at: passState === 'running' ? null : startedAtMs + 1000,
        reason,
        runner_version: '0.1.0',
        node_version: process.version,
      })
      .returning('id')
      .executeTakeFirstOrThrow();
    return id;
  };
  const addRun: WrittenLog['addRun'] = async (script, startedAtMs, fields = {}) => {
    const tier = script.slice(0, script.indexOf('/'));
    const job = await db
      .insertInto('jobs')
      .values({
        name: script,
        tier,
        state: fields.outcome === 'running' ? 'running' : 'finished',
        run_at: startedAtMs,
        created_at: startedAtMs,
        finished_at: fields.outcome === 'running' ? null : startedAtMs + 100,
      })
      .returning('id')
      .executeTakeFirstOrThrow();
    const { id } = await db
      .insertInto('runs')
      .values({
        job_id: job.id,
        worker_id: fields.worker_id ?? (await addPass(tier, startedAtMs, { kind: 'script' })),
        script,
        tier,
        attempt: 1,
        outcome: 'succeeded',
        started_at: startedAtMs,
        finished_at: startedAtMs + 100,
        duration_ms: 100,
        user_cpu_ms: 40,
        system_cpu_ms: 10,
        max_rss_bytes: 50 * 1024 * 1024,
        measured_by: 'self',
        exit_code: 0,
        ...fields,
      })
      .returning('id')
      .executeTakeFirstOrThrow();
    return id;
  };
  return { db, state, addPass, addRun };
}

/** What a run has that has not ended. */
export const running = {
  outcome: 'running',
  finished_at: null,
  duration_ms: null,
  user_cpu_ms: null,
  system_cpu_ms: null,
  max_rss_bytes: null,
  measured_by: null,
  exit_code: null,
} as const satisfies Partial<NewRun>;
