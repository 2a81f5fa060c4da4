import { hasOwnTimes, mayBeLeftOut, mayHaveToWait, type Script, type Tier } from '../../discovery/script.ts';
import type { KeptEnd } from '../../execution/result/result.ts';
import { periodStart } from '../../schedule/period.ts';
import { listSpoolFiles, type SpoolFile } from '../../store/spool/files.ts';
import { readSpool, type SpoolHeader } from '../../store/spool/read.ts';
import { isExecName } from '../../system/base/exec-name.ts';
import { takeLockFile } from '../../system/lock/lock-file.ts';
import { trustedFallbacksOf, usableStateFolder } from '../../system/place/fallback.ts';
import type { StateFolder } from '../../system/place/state-folder.ts';
import { releaseReserve } from '../../system/place/state-folder.ts';
import { describeWorker, type Invocation, type TierRequest } from '../invocation/invocation.ts';
import { createAdmission } from '../loop/limits.ts';
import { PassRecorder } from '../loop/pass-recorder.ts';
import type { PassJob } from '../loop/recorder.ts';
import { workOff } from '../loop/script-executor.ts';
import { describeWaiting, mayRunAlone, SpoolRecorder } from '../loop/spool-recorder.ts';
import { findScriptProcess } from '../recovery/sweep.ts';
import { describeHeld, type WorkerRequest } from '../recovery/tier-lock.ts';

/**
 * A pass that records its runs in the spool: scripts run, whatever happens to the log. Only the lock file guards the
 * tier then, and leftovers of earlier passes are unknown.
 *
 * @param reason why there is no log: the words after "because"
 * @param worker the worker's identity in the log, from before the log was lost
 * @returns null if another worker has the tier, or all of its scripts wait until there is a log again
 */
export async function runWithoutLog(
  call: Invocation,
  request: TierRequest,
  reason: string,
  worker = describeWorker(call, request),
): Promise<readonly KeptEnd[] | null> {
  const { stop, events } = call;
  const chosen = await chooseScripts(call, request, worker);
  const waiting = [...chosen.keys()].filter((script) => !mayRunAlone(script));
  if (waiting.length > 0) events.emit('problem', describeWaiting(waiting.map(({ name }) => name)));
  if (waiting.length > 0 && waiting.length === chosen.size) return null;
  const { tier, host, bootId, pid, startTicks, startedAt } = worker;
  const holder = { host, bootId, pid, startTicks, since: startedAt };
  // On a full disk the reserve is the only room.
  releaseReserve(call.runner.state);
  const lock = await takeWhereUsable(call.runner.root, (state) =>
    takeLockFile(state.locks, tier, holder, (reason) => stop.startNothing(`the lock of ${tier} was lost: ${reason}`)),
  );
  if ('release' in lock) return await work(call, chosen, worker, reason).finally(lock.release);
  events.emit('pass-skipped', { tier, reason: describeHeld(tier, lock, 'is') });
  return null;
}

/** Whether some of its scripts wait until there is a log again. */
export function leavesSome({ scripts }: TierRequest): boolean {
  return !scripts.every(mayRunAlone);
}

/** A file that another user has put into the folder of the locks may prevent a lock there. */
async function takeWhereUsable<T>(root: string, take: (state: StateFolder) => Promise<T>): Promise<T> {
  const state = usableStateFolder(root);
  try {
    return await take(state);
  } catch (error) {
    return await take(usableStateFolder(root, { [state.path]: (error as Error).message }));
  }
}

async function work(
  call: Invocation,
  chosen: ChosenScripts,
  worker: WorkerRequest,
  reason: string,
): Promise<readonly KeptEnd[]> {
  const { tier } = worker;
  const recorder = new PassRecorder({ call, worker }, new SpoolRecorder(call, worker, reason));
  const scripts = withoutRivals([...chosen.keys()]).filter((script) => mayRunAlone(script) && !isRunning(call, script));
  const names = scripts.map(({ name }) => name);
  call.events.emit('pass-started', { tier, scripts: names, hasScripts: chosen.size > 0 });
  const admit = isExecName(tier) ? null : createAdmission(call, async () => null);
  const each = scripts.map((script) => ({ id: null, script, scheduledFor: chosen.get(script) ?? null, attempt: 1 }));
  const jobs = await linkOwn(call, each, worker);
  const { ends } = await workOff({ ...call, tier, worker, recorder, admit }, jobs).finally(() => recorder.close());
  call.events.emit('pass-finished', { tier });
  return ends;
}

/** Without the log, a script can wait only for scripts of the same pass. Any other one that has to wait is left out. */
async function linkOwn({ events }: Invocation, jobs: readonly PassJob[], { kind, startedAt }: WorkerRequest) {
  if (kind === 'script' || !jobs.some(({ script }) => mayHaveToWait(script))) return jobs;
  const { withoutShut, withoutStrange } = await import('./links.ts');
  const { open, shut } = await withoutShut(jobs, startedAt);
  for (const text of shut) events.emit('deferred', text);
  const { linked, strange } = withoutStrange(open);
  for (const { name } of strange) {
    events.emit(
      'problem',
      `${name} waits for scripts whose ends only the log knows: it is left out until there is a log.`,
    );
  }
  return linked;
}

/** A script that outlived its runner, which had no log either, is not started a second time. */
function isRunning({ runner, events }: Invocation, { name }: Script): boolean {
  const pid = findScriptProcess(runner.root, name);
  if (pid !== null) events.emit('deferred', `${name} is still running (pid ${pid}), left by a runner that died`);
  return pid !== null;
}

/** Two files of one name are both refused, and reported once. */
function withoutRivals(scripts: readonly Script[]): readonly Script[] {
  return [...new Map(scripts.map((script) => [script.name, script])).values()];
}

/**
 * Scripts with their own times run only if one has come since the last call. Only the log and the spool know that call:
 * so it is assumed to be one period ago, or as long ago as `runner due` looks back.
 */
async function chooseScripts(
  call: Invocation,
  { kind, tier, scripts, isDue }: TierRequest,
  { startedAt: at, scheduledFor }: WorkerRequest,
): Promise<ChosenScripts> {
  if (kind !== 'tier' || !scripts.some((each) => hasOwnTimes(each) || mayBeLeftOut(each))) {
    return new Map(scripts.map((each) => [each, scheduledFor]));
  }
  const { withoutLeftOut } = await import('./slots.ts');
  const due = await findDueScripts(call, tier, { at, periodMs: isDue === true ? RECENT_MS : tier.periodMs });
  const ofToday = await withoutLeftOut(scripts, at);
  const wanted = ofToday.filter((script) => !hasOwnTimes(script) || due.has(script));
  return new Map(wanted.map((script) => [script, due.get(script) ?? scheduledFor]));
}

/** The time for which each script runs. */
type ChosenScripts = ReadonlyMap<Script, number | null>;

interface Since {
  readonly at: number;
  readonly periodMs: number | null;
}

async function findDueScripts(call: Invocation, tier: Tier, { at, periodMs }: Since): Promise<ChosenScripts> {
  const { dueTime, ruleOf } = await import('../../schedule/script-times.ts');
  const passAt = readPasses(call).findLast((pass) => pass.tier === tier.name)?.startedAt ?? null;
  const due = new Map<Script, number>();
  for (const script of tier.scripts) {
    const rule = ruleOf(script.options);
    const times = { queuedFor: at - (periodMs ?? RECENT_MS), passAt, changedAt: null, periodMs, nowMs: at };
    const time = rule === null ? null : await dueTime(rule, times);
    if (time !== null) due.set(script, time);
  }
  return due;
}

/** A period that began longer ago has most likely had its pass; only the log knows. */
const RECENT_MS = 3_600_000;

/**
 * Tiers to run while the log cannot be read: those whose period began within the last hour, if the spool has no pass of
 * them since. For other tiers: the scripts whose own time has come meanwhile.
 */
export async function findDueWithoutLog(
  call: Invocation,
  tiers: readonly Tier[],
): Promise<readonly Pick<TierRequest, 'tier' | 'scripts'>[]> {
  const at = call.runner.now();
  const passes = readPasses(call);
  const due: Pick<TierRequest, 'tier' | 'scripts'>[] = [];
  for (const tier of tiers) {
    const start = periodStart(tier.name, at);
    const isDue = start !== null && at - start <= RECENT_MS;
    const isDone = isDue && passes.some((pass) => pass.tier === tier.name && pass.startedAt >= start);
    if (isDue && !isDone) due.push({ tier, scripts: tier.scripts });
    else if (tier.scripts.some(hasOwnTimes)) {
      const scripts = await findDueScripts(call, tier, { at, periodMs: RECENT_MS });
      if (scripts.size > 0) due.push({ tier, scripts: [...scripts.keys()] });
    }
  }
  return due;
}

/** Passes that the spool records, the oldest first. */
function readPasses({ runner }: Invocation): readonly SpoolHeader[] {
  const spools = [runner.state, ...trustedFallbacksOf(runner.root)].flatMap(listReadable);
  const passes = spools.flatMap(({ path }) => readHeader(path) ?? []).filter(({ kind }) => kind === 'tier');
  return passes.toSorted((one, other) => one.startedAt - other.startedAt);
}

/** A spool that cannot be read tells nothing. */
function listReadable(state: StateFolder): readonly SpoolFile[] {
  try {
    return listSpoolFiles(state);
  } catch {
    return [];
  }
}

function readHeader(path: string): SpoolHeader | null {
  try {
    for (const line of readSpool(path)) return line.type === 'worker' ? line : null;
  } catch {
    // The file is another user's, or was just taken in: it tells nothing.
  }
  return null;
}
