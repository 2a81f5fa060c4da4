import { endJobs } from '../../queue/settle/settle.ts';
import type { ScriptJobRow } from '../../store/statements/script-jobs.ts';
import { isExecName } from '../../system/base/exec-name.ts';
import { machineName } from '../../system/process/identity.ts';
import type { StoreInvocation } from '../invocation/invocation.ts';
import { isHeld } from './collect-jobs.ts';

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
