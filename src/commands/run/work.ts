import { join, resolve } from 'node:path';
import { setFlagsFromString } from 'node:v8';
import { Command } from 'commander';
import type { WorkerEvents } from '../../worker/invocation/events.ts';
import type { Invocation } from '../../worker/invocation/invocation.ts';
import { withStore } from '../../worker/invocation/with-store.ts';
import type { WorkRequest } from '../../worker/loop/queue-limits.ts';
import type { CallSummary } from '../../worker/start/run-tier.ts';
import { workQueue } from '../../worker/start/work-queue.ts';
import { type CommandContext, openRunner } from '../shared/context.ts';
import { readWorkOptions, type WorkOptions } from '../shared/work-options.ts';
import { runAndShow } from './live.ts';
import { countRuns } from './progress.ts';

const EXAMPLES = `
Handlers are scripts in jobs/queue/: jobs/queue/mail/welcome.ts works off the jobs called mail/welcome.
A worker takes one job after the other, the highest priority first. Any number of workers may
overlap; each job goes to one of them. Without --for and --wait it ends when nothing is due.

SIGTERM or Ctrl-C: the jobs in hand are finished, no more are taken; a second one ends them, and they
are given back. A changed runner.config or runner, or \`touch .runner/restart\`, has workers finish, too.

Examples:
  runner work                               all that is due now
  runner work --for 55s                     called by cron each minute, see runner cron --work
  runner work 'mail/*' --for 14m            only jobs of these names
  runner work --for 55s --concurrency 2     two at the same time
  runner work --max-load 4 --adaptive --concurrency 8 --for 14m`;

/** `runner work`: works jobs of the queue off. */
export function workCommand(context: CommandContext): Command {
  const command = new Command('work');
  return command
    .description('work off jobs of the queue')
    .argument('[pattern...]', 'globs over job names (default: all that have a handler here)')
    .option('--for <duration>', 'take no more jobs after this, and wait for new ones until then')
    .option('--wait <duration>', 'how long to wait for a job when none is due')
    .option('--max-jobs <n>', 'take so many at most')
    .option('--max-memory <size>', 'take no more once it and its children hold more than this')
    .option('--max-load <n>', 'take none while the load average is higher')
    .option('--concurrency <n>', 'how many at the same time, 1 to 64 (default: 1)')
    .option('--adaptive', 'find out how many at the same time are good, up to --concurrency')
    .option('--fail-unknown', 'let jobs fail that have no handler here, instead of leaving them')
    .option('--watch-file <path>', 'finish when this file changes, besides .runner/restart')
    .option('--json', 'in the end, how many succeeded, failed and were given back, as JSON')
    .addHelpText('after', EXAMPLES)
    .action(async (patterns: string[]) => {
      await workAndShow(context, patterns, command.optsWithGlobals());
    });
}

/** Works off the queue with a line of progress on a terminal, silently elsewhere. */
async function workAndShow(
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
  return async () => (await import('../../report/json.ts')).formatJson({ ...counts, skipped });
}

async function tellUnfitting(
  context: CommandContext,
  root: string,
  { patterns, failsUnknown }: Pick<WorkRequest, 'patterns' | 'failsUnknown'>,
): Promise<void> {
  if (patterns.length === 0 || failsUnknown) return;
  const { noteUnfitting } = await import('../shared/names.ts');
  await noteUnfitting(context, root, patterns);
}

/** A whole call that works off the queue. Unlike scripts, jobs are nowhere but in the log. */
async function workOffQueue(call: Invocation, request: WorkRequest): Promise<CallSummary> {
  return await withStore(
    call,
    async (logged) => await workQueue(logged, request),
    async () => {
      call.events.emit('problem', 'no job of the queue was taken: there are none but in the log');
      return { ends: [], isBroken: true };
    },
  );
}
