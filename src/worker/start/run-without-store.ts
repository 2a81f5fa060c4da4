import type { Script, Tier } from '../../discovery/script.ts';
import type { RunEnd } from '../../execution/result/result.ts';
import { periodStart } from '../../schedule/period.ts';
import { listSpoolFiles, type SpoolFile } from '../../store/spool/files.ts';
import type { SpoolHeader } from '../../store/spool/format.ts';
import { readSpool } from '../../store/spool/read.ts';
import { releaseReserve } from '../../store/sqlite/reserve.ts';
import { describeHolder } from '../../system/lock/holder.ts';
import { takeLockFile } from '../../system/lock/lock-file.ts';
import { trustedFallbacksOf } from '../../system/place/fallback.ts';
import type { StateFolder } from '../../system/place/state-folder.ts';
import { usableStateFolder } from '../../system/place/usable.ts';
import { describeWorker, type Invocation, type TierRequest } from '../invocation/invocation.ts';
import { reportStoreFailure } from '../invocation/with-store.ts';
import type { WorkerRequest } from '../lock/registry.ts';
import { createAdmission } from '../loop/limits.ts';
import { closeAll, workOff } from '../loop/script-executor.ts';
import { createFailoverRecorder } from '../record/run-recorder.ts';
import { type OpenSpool, openSpool } from '../record/spool-recorder.ts';
import { findScriptProcess } from '../recovery/sweep.ts';

/**
 * A pass that records its runs in the spool: scripts run, whatever becomes of the log. Only the lock
 * file guards the tier then, and what earlier passes have left is not known.
 *
 * @param reason why there is no log: what follows "because"
 * @param worker who it was in the log before that was lost
 * @returns null when another worker has the tier
 */
export async function runWithoutLog(
  call: Invocation,
  request: TierRequest,
  reason: string,
  worker = describeWorker(call, request),
): Promise<readonly RunEnd[] | null> {
  const { stop, events } = call;
  const { tier, host, bootId, pid, startTicks, startedAt } = worker;
  const holder = { host, bootId, pid, startTicks, since: startedAt };
  // On a full disk there is no other room than what was kept for this.
  releaseReserve(call.runner.state);
  const lock = await takeWhereUsable(call.runner.root, (state) =>
    takeLockFile(state.locks, tier, holder, (reason) => stop.startNothing(`the lock of ${tier} was lost: ${reason}`)),
  );
  if ('release' in lock) return await work(call, request, worker, reason).finally(lock.release);
  events.emit('pass-skipped', {
    tier,
    reason: `another pass of ${tier} is running: ${describeHolder(lock)}`,
  });
  return null;
}

/** What another user has put into the folder of the locks may stand in the way of one. */
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
  { scripts: wanted }: TierRequest,
  worker: WorkerRequest,
  reason: string,
): Promise<readonly RunEnd[]> {
  const { tier, scheduledFor } = worker;
  const spools = [openSpool(call, worker, reason)];
  const recorder = createFailoverRecorder({
    first: (spools[0] as OpenSpool).recorder,
    replace: async (error) => {
      const spool = openSpool(call, worker, reportStoreFailure(call, error));
      spools.push(spool);
      return spool.recorder;
    },
  });
  const scripts = withoutRivals(wanted).filter((script) => !isRunning(call, script));
  const names = scripts.map(({ name }) => name);
  call.events.emit('pass-started', { tier, scripts: names, hasScripts: wanted.length > 0 });
  const admit = createAdmission(call, async () => null);
  const jobs = scripts.map((script) => ({ id: null, script, scheduledFor, attempt: 1 }));
  const { ends } = await workOff({ ...call, tier, recorder, admit }, jobs).finally(() => closeAll(spools));
  call.events.emit('pass-finished', { tier });
  return ends;
}

/** It outlived its runner, which had no log either: it is not started a second time. */
function isRunning({ runner, events }: Invocation, { name }: Script): boolean {
  const pid = findScriptProcess(runner.root, name);
  if (pid !== null) events.emit('deferred', `${name} is still running (pid ${pid}), left by a runner that died`);
  return pid !== null;
}

/** Two files of one name are both refused: that is told once. */
function withoutRivals(scripts: readonly Script[]): readonly Script[] {
  return [...new Map(scripts.map((script) => [script.name, script])).values()];
}

/** A period that began longer ago has had its pass, most likely: only the log knows. */
const RECENT_MS = 3_600_000;

/**
 * Tiers to be run while nobody can ask the log: those whose period began within the last hour, and
 * that the spool knows no pass of since.
 */
export function findDueWithoutLog({ runner }: Invocation, tiers: readonly Tier[]): readonly Tier[] {
  const at = runner.now();
  const passes = [runner.state, ...trustedFallbacksOf(runner.root)].flatMap((state) =>
    listReadable(state).flatMap(({ path }) => readHeader(path) ?? []),
  );
  return tiers.filter(({ name }) => {
    const start = periodStart(name, at);
    if (start === null || at - start > RECENT_MS) return false;
    return !passes.some(({ kind, tier, startedAt }) => kind === 'tier' && tier === name && startedAt >= start);
  });
}

/** What cannot be read tells nothing. */
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
    // Another user's, or just taken in: it tells nothing.
  }
  return null;
}
