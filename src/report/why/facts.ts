import { statSync } from 'node:fs';
import type { Kysely } from 'kysely';
import type { Script } from '../../discovery/script.ts';
import type { StateFolder } from '../../place/state-folder.ts';
import { findPause, type Pause, selectPauses } from '../../queue/pauses.ts';
import { type SkippedPass, selectScriptsDone, selectSkippedPass } from '../../schedule/due.ts';
import type { CrashPolicy } from '../../settings/readers.ts';
import type { ActivityLog, JobState } from '../../store/schema.ts';
import { tierOf } from '../model/overview.ts';
import { type RunningRun, type RunRecord, selectRunning } from '../model/run.ts';
import { selectRecentRuns, selectRunsById } from '../model/runs.ts';
import {
  findHolders,
  readTierState,
  selectLastCall,
  selectWaiting,
  type TierState,
  type WaitingScriptJob,
} from '../model/tier.ts';

/** What the log and the file system know of one script. */
export interface WhyFacts {
  readonly script: string;
  readonly nowMs: number;
  /** When its file was put there or last changed; null: it cannot be looked at. */
  readonly fileChangedMs: number | null;
  readonly tier: TierState;
  readonly lastCallByHandMs: number | null;
  /** It is of what a pass has left that died, and the next call of `runner due` takes up. */
  readonly isDueAgain: boolean;
  readonly pause: Pause | null;
  readonly running: RunningRun | null;
  readonly waiting: WaitingScriptJob | null;
  readonly lastRun: RunRecord | null;
  readonly lastSuccess: RunRecord | null;
  /** Its newest job, where that was given up. */
  readonly droppedJob: DroppedJob | null;
  /** The newest pass of its tier, where that was left out. */
  readonly skippedPass: SkippedPass | null;
}

interface DroppedJob {
  readonly state: JobState;
  readonly attempts: number;
  readonly onCrash: CrashPolicy | null;
  readonly createdAtMs: number;
  readonly reason: string | null;
}

interface WhyFactsQuery {
  /** Null: only the log knows it. */
  readonly file: Script | null;
  /** Where locks may be. */
  readonly states: readonly StateFolder[];
  readonly nowMs: number;
}

export async function readWhyFacts(
  db: Kysely<ActivityLog>,
  script: string,
  { file, states, nowMs }: WhyFactsQuery,
): Promise<WhyFacts> {
  const tier = tierOf(script);
  const holders = await findHolders(db, states, [tier]);
  const pauses = await selectPauses(db, nowMs);
  const tierState = await readTierState(db, tier, { holders, pauses, nowMs });
  const ofScript = (each: { readonly script: string }): boolean => each.script === script;
  return {
    script,
    nowMs,
    fileChangedMs: file === null ? null : changedMs(file.path),
    tier: tierState,
    lastCallByHandMs: (await selectLastCall(db, tier, { isByHand: true }))?.atMs ?? null,
    isDueAgain: await isLeft(db, script, tierState),
    pause: findPause(pauses, script),
    running: (await selectRunning(db)).find(ofScript) ?? null,
    waiting: (await selectWaiting(db, holders)).find(ofScript) ?? null,
    lastRun: await readLastRun(db, script, nowMs),
    lastSuccess: await readLastSuccess(db, script),
    droppedJob: await selectDroppedJob(db, script),
    skippedPass: await selectSkippedPass(db, tier),
  };
}

async function isLeft(
  db: Kysely<ActivityLog>,
  script: string,
  { tier, dueAgainFor }: TierState,
): Promise<boolean> {
  if (dueAgainFor === null) return false;
  return !(await selectScriptsDone(db, tier, dueAgainFor)).includes(script);
}

/** Not the time of its content: a file that was moved here, or made executable, is new as a script. */
function changedMs(path: string): number | null {
  try {
    return statSync(path).ctimeMs;
  } catch {
    return null;
  }
}

async function readLastRun(
  db: Kysely<ActivityLog>,
  script: string,
  nowMs: number,
): Promise<RunRecord | null> {
  const [newest] = await selectRecentRuns(db, script, nowMs + 1, 1);
  return newest === undefined ? null : await readRun(db, newest.id);
}

async function readLastSuccess(db: Kysely<ActivityLog>, script: string): Promise<RunRecord | null> {
  const newest = await db
    .selectFrom('runs')
    .select('id')
    .where('script', '=', script)
    .where('outcome', '=', 'succeeded')
    .orderBy('started_at', 'desc')
    .limit(1)
    .executeTakeFirst();
  return newest === undefined ? null : await readRun(db, newest.id);
}

async function readRun(db: Kysely<ActivityLog>, id: number): Promise<RunRecord | null> {
  const [run] = await selectRunsById(db, [id]);
  return run ?? null;
}

/** Read from the newest job on: no index has the names of jobs that have ended. */
async function selectDroppedJob(
  db: Kysely<ActivityLog>,
  script: string,
): Promise<DroppedJob | null> {
  const newest = await db
    .selectFrom('jobs')
    .select(['state', 'created_at as createdAtMs', 'attempts', 'on_crash as onCrash', 'reason'])
    .where('name', '=', script)
    .orderBy('id', 'desc')
    .limit(1)
    .executeTakeFirst();
  return newest?.state === 'cancelled' ? newest : null;
}
