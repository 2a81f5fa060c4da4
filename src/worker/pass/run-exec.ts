import type { Script } from '../../discovery/script.ts';
import { endJobs } from '../../queue/settle/settle.ts';
import type { ScriptJobRow } from '../../store/statements/script-jobs.ts';
import { isExecName } from '../../system/base/exec-name.ts';
import { machineName } from '../../system/process/identity.ts';
import type { Invocation, StoreInvocation } from '../invocation/invocation.ts';
import { ifLogAllows, withStore } from '../invocation/with-store.ts';
import { isHeld } from './collect-jobs.ts';
import { runPass, withPings } from './run-pass.ts';
import type { CallSummary } from './run-tier.ts';

/** Runs a command of `runner exec` as a pass over a tier of its own, and makes its further tries itself. */
export async function runExec(call: Invocation, script: Script): Promise<CallSummary> {
  const tier = { name: script.tier, periodMs: null, scripts: [script] };
  const request = { kind: 'script' as const, tier, scripts: [script] };
  return await withStore(
    call,
    async (logged) => {
      await ifLogAllows(call, () => endLeftCommands(logged));
      const ends = await runPass(logged, request);
      await ifLogAllows(call, () => endLeftCommands(logged));
      return { ends };
    },
    async (reason) => {
      const { runWithoutLog } = await import('./run-without-store.ts');
      return { ends: await withPings(call, request, () => runWithoutLog(call, request, reason)) };
    },
  );
}

/**
 * Fails the open jobs of this machine's commands whose calls have ended before the command began, or before its next
 * try: nobody else knows the command, so that no later call could run it.
 */
export async function endLeftCommands({ store, runner }: StoreInvocation): Promise<void> {
  const isLeft = (job: ScriptJobRow): boolean =>
    isExecName(job.tier) && (job.host === null || job.host === machineName()) && !isHeld(job);
  if (!(await store.scriptJobs.open()).some(isLeft)) return;
  const at = runner.now();
  await store.transaction(async (session) => {
    const workers = await session.workers.running(undefined, store.fleet === null ? undefined : machineName());
    const left = (await session.scriptJobs.open()).filter(
      (job) => isLeft(job) && !workers.some(({ tier }) => tier === job.tier),
    );
    const ends = left.map((job) => {
      const reason = `its call ended before ${job.state === 'retrying' ? 'its next try' : 'it began'}`;
      return { job, transition: { kind: 'fail' as const }, at, reason, run: null };
    });
    await endJobs(session, ends, { missedCap: runner.settings.queue.missedCap });
  });
}
