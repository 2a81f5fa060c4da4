import { statSync } from 'node:fs';
import type { Script } from '../../discovery/script.ts';
import { findPause } from '../../queue/pauses.ts';
import type { CrashPolicy } from '../../settings/readers.ts';
import type { ContentChange, Pause } from '../../store/contract.ts';
import type { StateFolder } from '../../system/place/state-folder.ts';
import { type LogView, type RunningRun, type RunRecord, selectRunning, tierOf } from '../model/runs/run.ts';
import { selectChange, selectNewestRun } from '../model/runs/runs.ts';
import {
  findHolders,
  type RecordedPass,
  readTierState,
  type ScriptJob,
  selectLastCall,
  selectScriptJob,
  selectSkippedPass,
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
  /** How many tries its file gives it; null: only the log knows it. */
  readonly tries: number | null;
  readonly onCrash: CrashPolicy | null;
  readonly tier: TierState;
  readonly lastCallByHandMs: number | null;
  /** It is of what a pass has left that died, and the next call of `runner due` takes up. */
  readonly isDueAgain: boolean;
  readonly pause: Pause | null;
  readonly running: RunningRun | null;
  readonly waiting: WaitingScriptJob | null;
  readonly lastRun: RunRecord | null;
  /** Where that failed: that its content is another one since it last succeeded. */
  readonly change: ContentChange | null;
  readonly lastSuccess: RunRecord | null;
  /** Its job, where that was given up. */
  readonly droppedJob: ScriptJob | null;
  /** The newest pass of its tier, where that was left out. */
  readonly skippedPass: RecordedPass | null;
}

interface WhyFactsQuery {
  /** Null: only the log knows it. */
  readonly file: Script | null;
  /** Where locks may be. */
  readonly states: readonly StateFolder[];
  /** In force. */
  readonly pauses: readonly Pause[];
  readonly nowMs: number;
}

export async function readWhyFacts(
  log: LogView,
  script: string,
  { file, states, pauses, nowMs }: WhyFactsQuery,
): Promise<WhyFacts> {
  const { db } = log;
  const tier = tierOf(script);
  const holders = await findHolders(db, states, [tier]);
  const tierState = await readTierState(db, tier, { holders, pauses, nowMs });
  const ofScript = (each: { readonly script: string }): boolean => each.script === script;
  const job = await selectScriptJob(db, script);
  const lastRun = await selectNewestRun(log, script, { untilMs: nowMs + 1 });
  return {
    script,
    nowMs,
    fileChangedMs: file === null ? null : changedMs(file.path),
    tries: file === null ? null : 1 + (file.options.retries ?? 0),
    onCrash: file?.options.onCrash ?? null,
    tier: tierState,
    lastCallByHandMs: (await selectLastCall(db, tier, { isByHand: true }))?.atMs ?? null,
    isDueAgain: isLeft(tierState, job, hasPassCrashed(file, lastRun)),
    pause: findPause(pauses, script),
    running: (await selectRunning(log)).find(ofScript) ?? null,
    waiting: (await selectWaiting(db, holders)).find(ofScript) ?? null,
    lastRun,
    change: lastRun && (await selectChange(log, lastRun)),
    lastSuccess: await selectNewestRun(log, script, { outcomes: ['succeeded'] }),
    droppedJob: job?.state === 'cancelled' ? job : null,
    skippedPass: await selectSkippedPass(db, tier),
  };
}

/** Of a crash that nothing was to follow: it was the pass that died, not the script that failed. */
function hasPassCrashed(file: Script | null, lastRun: RunRecord | null): boolean {
  const { retries = 0, onCrash } = file?.options ?? {};
  return lastRun?.outcome === 'crashed' && retries === 0 && onCrash === undefined;
}

/** Whether the call that takes up what a dead pass has left will run it, too. */
function isLeft({ dueAgainFor }: TierState, job: ScriptJob | null, hasCrashed: boolean): boolean {
  if (dueAgainFor === null) return false;
  const isDone = job !== null && job.scheduledForMs === dueAgainFor && job.finishedAtMs !== null;
  return !isDone || hasCrashed;
}

/** Not the time of its content: a file that was moved here, or made executable, is new as a script. */
function changedMs(path: string): number | null {
  try {
    return statSync(path).ctimeMs;
  } catch {
    return null;
  }
}
