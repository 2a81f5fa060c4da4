import { findReplaced } from '../../execution/start/start-failure.ts';
import type { Runner } from '../../settings/settings.ts';
import type { StopRequest } from '../invocation/stop.ts';

/** Takes jobs and runs them one after the other: scripts of a pass, or jobs of the queue. */
export interface Executor<Turn> {
  /** The next turn, claimed by this worker; null: nothing more starts. */
  next(): Promise<Turn | null>;
  /** Runs a turn to its end, which may be recorded in one commit with the next claim. */
  run(turn: Turn): Promise<void>;
  /** Call it when nothing runs or will run any more: gives back claims that have not begun. */
  giveBack(): Promise<void>;
}

/** The pass or worker that executors work for. */
interface Employer {
  readonly name: 'pass' | 'worker';
  readonly stop: StopRequest;
  /** Used to start its children. */
  readonly runner: Pick<Runner, 'probePath'>;
  /** Called at once with the error that breaks an executor off. */
  readonly onBroken?: (error: unknown) => void;
}

/**
 * Lets executors work side by side until none has anything left to do. If one breaks off, because the log or the disk
 * fails, nothing more starts, and the others finish their jobs.
 *
 * @returns the errors of executors that broke off, the first one first; empty: all have come to their end
 */
export async function runExecutors<Turn>(
  executors: readonly Executor<Turn>[],
  { name, stop, runner, onBroken }: Employer,
): Promise<readonly unknown[]> {
  const errors: unknown[] = [];
  const attempt = async (work: () => Promise<void>): Promise<void> => {
    try {
      await work();
    } catch (error) {
      errors.push(error);
      stop.startNothing(`the ${name} was aborted: ${String(error)}`);
      onBroken?.(error);
    }
  };
  const next = async (executor: Executor<Turn>): Promise<Turn | null> => {
    const replaced = findReplaced(runner.probePath);
    if (replaced !== null) stop.startNothing(replaced.failure, 'replaced');
    return await executor.next();
  };
  const runOne = async (executor: Executor<Turn>): Promise<void> => {
    await attempt(async () => {
      for (let turn = await next(executor); turn !== null; turn = await next(executor)) await executor.run(turn);
    });
    await attempt(() => executor.giveBack());
  };
  await Promise.all(executors.map(runOne));
  return errors;
}
