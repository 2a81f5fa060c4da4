import { fileChangedMs, hasWindow, mayBeLeftOut, mayHaveToWait, type Script } from '../../discovery/script.ts';
import type { Site } from '../../discovery/site.ts';
import { findPause } from '../../queue/pauses.ts';
import type { CrashPolicy } from '../../settings/settings.ts';
import type { ContentChange } from '../../store/statements/monitor/usual.ts';
import type { Pause } from '../../store/statements/pauses.ts';
import { isExecName } from '../../system/base/exec-name.ts';
import { type NextTime, readNextTimes } from '../model/next/next-times.ts';
import { type RunningRun, type RunRecord, selectRunning, tierOf } from '../model/runs/run.ts';
import { selectChange, selectNewestRun } from '../model/runs/runs.ts';
import { type Rises, readRisesOf } from '../model/runs/script.ts';
import {
  findHolders,
  readTierState,
  type ScriptJob,
  type SkippedPass,
  selectLastCall,
  selectScriptJob,
  selectSkippedPass,
  selectWaiting,
  type TierState,
  type WaitingScriptJob,
} from '../model/tier.ts';

/** The scripts and times that keep a script, in words, and since when it is queued. */
interface LinkFacts {
  readonly text: string;
  /** When it was queued, or is tried again; null: it does not wait now. */
  readonly sinceMs: number | null;
  /** When its own times let it begin; null: they do now. */
  readonly untilMs: number | null;
  /** Whether it waits for other scripts at all. */
  readonly hasLinks: boolean;
  readonly hasWindow: boolean;
}

/** Facts of the log and the file system about one script. */
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
  /** Null: it never waits for other scripts, or for its time of day. */
  readonly links: LinkFacts | null;
  readonly lastRun: RunRecord | null;
  /** The change of content since it last succeeded, if the last run failed. */
  readonly change: ContentChange | null;
  readonly lastSuccess: RunRecord | null;
  readonly rises: Rises;
  /** Its job, where that was given up. */
  readonly droppedJob: ScriptJob | null;
  /** The newest pass of its tier, where that was left out. */
  readonly skippedPass: SkippedPass | null;
  /** Passes leave it out until then, by its dates; null: they do not. */
  readonly leftOutUntilMs: number | null;
  /** When it runs next; null: it has no times of its own. */
  readonly next: NextTime | null;
}

/** @param file null: only the log knows the script */
export async function readWhyFacts(site: Site, script: string, file: Script | null): Promise<WhyFacts> {
  const { nowMs } = site;
  const log = await site.view();
  const { db } = log;
  const tier = isExecName(script) ? script : tierOf(script);
  const holders = await findHolders(site, [tier]);
  const tierState = await readTierState(site, tier, holders);
  const ofScript = (each: { readonly script: string }): boolean => each.script === script;
  const job = await selectScriptJob(db, script);
  const lastRun = await selectNewestRun(log, script, { untilMs: nowMs + 1 });
  return {
    script,
    nowMs,
    fileChangedMs: file === null ? null : fileChangedMs(file),
    tries: file === null ? null : 1 + (file.options.retries ?? 0),
    onCrash: file?.options.onCrash ?? null,
    tier: tierState,
    lastCallByHandMs: (await selectLastCall(db, tier, { isByHand: true }))?.atMs ?? null,
    isDueAgain: isLeft(tierState, job, hasPassCrashed(file, lastRun)),
    pause: findPause(await site.pauses(), script),
    running: (await selectRunning(log)).find(ofScript) ?? null,
    waiting: (await selectWaiting(db, holders)).find(ofScript) ?? null,
    links: file === null || !mayHaveToWait(file) ? null : await readLinks(site, file),
    lastRun,
    change: lastRun && (await selectChange(log, lastRun)),
    lastSuccess: await selectNewestRun(log, script, { outcomes: ['succeeded'] }),
    rises: await readRisesOf(site, script),
    droppedJob: job?.state === 'cancelled' ? job : null,
    skippedPass: await selectSkippedPass(db, tier),
    leftOutUntilMs: file === null || !mayBeLeftOut(file) ? null : await readLeftOut(site, file),
    next: await readNext(site, file, tierState),
  };
}

async function readLinks(site: Site, file: Script): Promise<LinkFacts | null> {
  const { readWordedStand } = await import('../../queue/links.ts');
  const stand = await readWordedStand(site, file);
  return stand && { ...stand, hasLinks: file.links !== undefined, hasWindow: hasWindow(file) };
}

async function readLeftOut({ nowMs }: Site, { options }: Script): Promise<number | null> {
  const { leftOutUntil } = await import('../../schedule/script-times.ts');
  return await leftOutUntil(options, nowMs);
}

async function readNext(site: Site, file: Script | null, tier: TierState): Promise<NextTime | null> {
  if (file === null) return null;
  const ofScript = { name: tier.tier, periodMs: tier.periodMs, scripts: [file] };
  const [next = null] = await readNextTimes(site, [ofScript], [tier]);
  return next;
}

/** Whether the last run crashed and was not to be followed by another try: then the pass died, not the script. */
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
