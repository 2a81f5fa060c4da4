import { findReplaced } from '../../execution/start/start-failure.ts';
import type { Runner } from '../../settings/settings.ts';
import type { StopRequest } from '../invocation/stop.ts';

/** Takes jobs and runs them, some after the others: scripts of a pass, or jobs of the queue. */
export interface Executor<Turn> {
  /** What is to be run next, claimed by this worker; null: nothing more is to be started. */
  next(): Promise<Turn | null>;
  /** Runs it to its end, which may be recorded in one commit with the claim of what comes next. */
  run(turn: Turn): Promise<void>;
  /** To be called when nothing runs, and nothing more is to: gives back what was claimed and has not begun. */
  giveBack(): Promise<void>;
}

/** For whom executors work. */
interface Employer {
  readonly name: 'pass' | 'worker';
  readonly stop: StopRequest;
  /** For what it starts its children with. */
  readonly runner: Pick<Runner, 'probePath'>;
  /** Told at once why an executor breaks off. */
  readonly onBroken?: (error: unknown) => void;
}

/**
 * Lets executors work side by side, until none has anything more to do. Once one breaks off, for want of the log or
 * the disk, nothing more is started, and the others end what they run.
 *
 * @returns why executors have broken off, the first one first; empty: all have come to their end
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
    if (replaced !== null) stop.startNothing(replaced);
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
