import { buildQueue, type VerbQueue } from '../../queue/queue.ts';
import { commandClock } from '../../system/base/clock.ts';
import { parseExactly } from '../../system/base/exact-json.ts';
import type { CommandContext } from './context.ts';
import { rootOf } from './open.ts';

/** Opens the queue of a root, makes its log where there is none yet, and closes it whatever happens. */
export async function withQueue<T>(
  context: CommandContext,
  rootOption: string | undefined,
  use: (queue: VerbQueue, root: string) => Promise<T>,
): Promise<T> {
  const { env, cwd, now } = context;
  const root = rootOf(context, rootOption);
  // Data is only passed on here: to whoever claims a job, or looks at it.
  const queue = await buildQueue({ root, env, cwd, now }, parseExactly, commandClock);
  try {
    return await use(queue, root);
  } finally {
    await queue.close();
  }
}
