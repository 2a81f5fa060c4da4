import { usableStateFolder } from '../config/usable-state-folder.ts';
import type { Script } from '../discovery/script.ts';
import { findScriptProcess } from '../execution/find-run-process.ts';
import type { RunEnd } from '../execution/run-end.ts';
import { describeHolder } from '../lock/describe-holder.ts';
import { takeLockFile } from '../lock/lock-file.ts';
import type { WorkerRequest } from '../lock/tier-slot.ts';
import { createAdmission } from './admission.ts';
import { describeWorker } from './describe-worker.ts';
import { openSpool } from './open-spool.ts';
import type { Call } from './pass.ts';
import type { TierRequest } from './tier-request.ts';
import { workOff } from './work-off.ts';

/**
 * A pass that records its runs in the spool: scripts run, whatever becomes of the log. Only the lock
 * file guards the tier then, and what earlier passes have left is not known.
 *
 * @param reason why there is no log: what follows "because"
 * @param worker who it was in the log before that was lost
 * @returns null when another worker has the tier
 */
export async function runWithoutLog(
  call: Call,
  request: TierRequest,
  reason: string,
  worker = describeWorker(call, request),
): Promise<readonly RunEnd[] | null> {
  const { stop, events } = call;
  const { tier, self, startedAt } = worker;
  const state = usableStateFolder(call.runner.root);
  const holder = { ...self, since: startedAt };
  const lock = await takeLockFile(state.locks, tier, holder, (reason) =>
    stop.startNothing(`the lock of ${tier} was lost: ${reason}`),
  );
  if ('release' in lock) return await work(call, request, worker, reason).finally(lock.release);
  events.emit('pass-skipped', { tier, reason: `${tier} is held by ${describeHolder(lock)}` });
  return null;
}

async function work(
  call: Call,
  { scripts: wanted }: TierRequest,
  worker: WorkerRequest,
  reason: string,
): Promise<readonly RunEnd[]> {
  const { tier, scheduledFor } = worker;
  const { journal, close } = openSpool(call, worker, reason);
  const scripts = withoutRivals(wanted).filter((script) => !isRunning(call, script));
  const names = scripts.map(({ name }) => name);
  call.events.emit('pass-started', { tier, scripts: names, hasScripts: wanted.length > 0 });
  const admit = createAdmission(call, async () => null);
  const jobs = scripts.map((script) => ({ id: null, script, scheduledFor }));
  const { ends } = await workOff({ ...call, tier, journal, admit }, jobs).finally(close);
  call.events.emit('pass-finished', { tier });
  return ends;
}

/** It outlived its runner, which had no log either: it is not started a second time. */
function isRunning({ runner, events }: Call, { name }: Script): boolean {
  const pid = findScriptProcess(runner.root, name);
  if (pid !== null)
    events.emit('left', `${name} still runs (pid ${pid}), left by a runner that died`);
  return pid !== null;
}

/** Two files of one name are both refused: that is told once. */
function withoutRivals(scripts: readonly Script[]): readonly Script[] {
  return [...new Map(scripts.map((script) => [script.name, script])).values()];
}
