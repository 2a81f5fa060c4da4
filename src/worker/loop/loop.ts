import { isStoreFailure } from '../../store/failures.ts';
import type { Invocation } from '../invocation/invocation.ts';
import { reportStoreFailure } from '../invocation/with-store.ts';

/** Takes jobs and runs them, some after the others: scripts of a pass, or jobs of the queue. */
export interface Executor<Turn> {
  /** What is to be run next, claimed by this worker; null: nothing more is to be started. */
  next(): Promise<Turn | null>;
  /** Runs it to its end, which may be recorded in one commit with the claim of what comes next. */
  run(turn: Turn): Promise<void>;
  /** To be called when nothing runs, and nothing more is to: gives back what was claimed and has not begun. */
  giveBack(): Promise<void>;
}

/**
 * Lets executors work side by side, until none has anything more to do. Once one breaks off, for want of the log or
 * the disk, nothing more is started, and the others end what they run.
 *
 * @param name of what is aborted then
 * @returns why executors have broken off, the first one first; empty: all have come to their end
 */
export async function runExecutors<Turn>(
  call: Invocation,
  name: 'pass' | 'worker',
  executors: readonly Executor<Turn>[],
): Promise<readonly unknown[]> {
  const errors: unknown[] = [];
  const attempt = async (work: () => Promise<void>): Promise<void> => {
    try {
      await work();
    } catch (error) {
      errors.push(error);
      call.stop.startNothing(`the ${name} was aborted: ${String(error)}`);
      if (isStoreFailure(error)) reportStoreFailure(call, error);
    }
  };
  const runOne = async (executor: Executor<Turn>): Promise<void> => {
    await attempt(async () => {
      for (let turn = await executor.next(); turn !== null; turn = await executor.next()) await executor.run(turn);
    });
    await attempt(() => executor.giveBack());
  };
  await Promise.all(executors.map(runOne));
  return errors;
}
