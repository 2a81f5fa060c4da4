import { constants } from 'node:os';
import type { ClaimedJob, ClaimOptions, Queue } from '../../queue/api.ts';
import { formatJson } from '../../report/json.ts';
import { claimedJobRecord } from '../../report/model/jobs.ts';
import { openTextOutput } from '../../report/terminal/screen.ts';
import { UsageError } from '../../system/base/errors.ts';
import { numberIn, withoutUndefined } from '../shared/command.ts';
import type { CommandContext } from '../shared/context.ts';
import { withQueue } from '../shared/queue.ts';
import type { Given } from '../table.ts';

/** `runner claim`: takes a job, for workers outside of the runner. */
export async function claim(context: CommandContext, options: Given<'claim'>): Promise<void> {
  const { pattern: names, count = null, wait, lease } = options;
  if (options.job !== undefined) return await claimNumbered(context, options.job, options);

  const patterns = names.length === 0 ? ['*'] : names;
  if (options.for !== undefined && options.follow !== true) {
    throw new UsageError('--for goes with --follow; without it, --wait says how long to wait for a job.');
  }
  const minPriority = numberIn(options.minPriority);
  const how = withoutUndefined({ lease, minPriority }) as ClaimOptions;
  const stop = stopBySignal();
  await withQueue(context, options.root, async (queue, root) => {
    if (options.follow === true) {
      const { follow } = await import('./follow.ts');
      return await follow(context, queue, { root, patterns, count: count ?? 1, how, stop, wait, forMs: options.for });
    }
    const holding = options.holding?.map((id) => numberIn(id) as number);
    const once = withoutUndefined({ ...how, wait, holding, signal: stop.signal });
    const jobs = await queue.claimMany(patterns, count ?? 1, once);
    if (jobs.length === 0) context.setExitCode(stop.exitCode() ?? 1);
    else await handOut(context, queue, { jobs, isList: count !== null });
  }).finally(stop.end);
}

async function claimNumbered(
  context: CommandContext,
  word: string,
  { pattern: names, lease, root }: Given<'claim'>,
): Promise<void> {
  if (names.length > 0)
    throw new UsageError('`npx folder-runner claim --job <id>` takes no names: it claims that job only.');
  await withQueue(context, root, async (queue) => {
    const job = await queue.claimJob(numberIn(word) as number, withoutUndefined({ lease }));
    await handOut(context, queue, { jobs: [job], isList: false });
  });
}

interface Claimed {
  readonly jobs: readonly ClaimedJob[];
  readonly isList: boolean;
}

/**
 * Prints the claimed jobs. If the output cannot be written, no worker got them: they go back to the queue with their
 * tries unchanged.
 */
async function handOut(
  { stdout, setExitCode }: CommandContext,
  queue: Queue,
  { jobs, isList }: Claimed,
): Promise<void> {
  const told = jobs.map(claimedJobRecord.toJson);
  // The one that there is would end the process before the job is given back.
  stdout.removeAllListeners('error');
  const isRead = await openTextOutput(stdout).write(formatJson(isList ? { jobs: told } : (told[0] as object)));
  if (isRead) return;
  await queue.requeue(
    jobs.map(({ id }) => id),
    { forgetTry: true },
  );
  setExitCode(1);
}

const signals = ['SIGTERM', 'SIGINT', 'SIGHUP'] as const;

/** A wait that is broken off has claimed nothing. */
function stopBySignal() {
  const [abort, again] = [new AbortController(), new AbortController()];
  let code: number | null = null;
  const listeners = signals.map((signal) => {
    const listener = (): void => {
      code = 128 + constants.signals[signal];
      if (abort.signal.aborted) again.abort();
      abort.abort();
    };
    process.on(signal, listener);
    return () => process.off(signal, listener);
  });
  return {
    signal: abort.signal,
    again: again.signal,
    exitCode: () => code,
    end: () => {
      for (const remove of listeners) remove();
    },
  };
}
