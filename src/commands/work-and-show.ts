import { join, resolve } from 'node:path';
import { setFlagsFromString } from 'node:v8';
import { workOffQueue } from '../worker/queue/work-off-queue.ts';
import type { WorkRequest } from '../worker/queue/work-request.ts';
import type { WorkerEvents } from '../worker/worker-events.ts';
import type { CommandContext } from './command-context.ts';
import { countRuns } from './count-runs.ts';
import { openRunner } from './open-runner.ts';
import { readWorkOptions, type WorkOptions } from './read-work-options.ts';
import { runAndShow } from './run-and-show.ts';

/** Works off the queue with a line of progress on a terminal, silently elsewhere. */
export async function workAndShow(
  context: CommandContext,
  patterns: readonly string[],
  options: WorkOptions,
): Promise<void> {
  const request = readWorkOptions(patterns, options);
  // A worker lives long and makes much that is soon garbage: unasked, V8 lets that space grow by 50 MB.
  setFlagsFromString('--semi-space-growth-factor=1');
  const runner = await openRunner(context, options.root);
  await tellUnfitting(context, runner.root, request);
  const watchedFiles = [
    join(runner.state.path, 'restart'),
    ...['ts', 'js', 'mjs', 'json'].map((kind) => join(runner.root, `runner.config.${kind}`)),
    join(context.distFolder, 'cli.cjs'),
    ...(options.watchFile === undefined ? [] : [resolve(context.cwd, options.watchFile)]),
  ];
  const isJson = options.json === true;
  const show = { isQueue: true, isSilent: isJson };
  await runAndShow(context, runner, show, async (call) => {
    const tell = isJson ? countForJson(call.events) : null;
    const worked = await workOffQueue(call, { ...request, watchedFiles });
    if (tell !== null) context.stdout.write(await tell());
    return worked;
  });
}

function countForJson(events: WorkerEvents): () => Promise<string> {
  const counts = countRuns(events);
  let skipped: string | null = null;
  events.on('pass-skipped', ({ reason }) => {
    skipped = reason;
  });
  return async () => (await import('../report/json.ts')).formatJson({ ...counts, skipped });
}

async function tellUnfitting(
  context: CommandContext,
  root: string,
  { patterns, failsUnknown }: Pick<WorkRequest, 'patterns' | 'failsUnknown'>,
): Promise<void> {
  if (patterns.length === 0 || failsUnknown) return;
  const { noteUnfitting } = await import('./note-unhandled.ts');
  await noteUnfitting(context, root, patterns);
}
