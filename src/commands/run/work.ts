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
Handlers are scripts in jobs/queue/: jobs/queue/mail/welcome.ts processes the jobs named mail/welcome.
Jobs with the highest priority run first. Any number of workers may overlap; each job goes to one of
them. Without --for and --wait a worker ends when nothing is due.

On SIGTERM or Ctrl-C, a worker finishes the jobs in hand and claims no more; a second signal ends them
and puts them back into the queue. Workers also finish when runner.config or the runner has changed,
or after \`touch .runner/restart\`.

Examples:
  runner work                               all jobs that are due now
  runner work --for 55s                     called by cron each minute, see runner cron --work
  runner work 'mail/*' --for 14m            only jobs with a matching name
  runner work --for 55s --concurrency 2     two at the same time
  runner work --max-load 4 --adaptive --concurrency 8 --for 14m`;

/** `runner work`: works jobs of the queue off. */
export function workCommand(context: CommandContext): Command {
  const command = new Command('work');
  return command
    .description('process jobs of the queue')
    .argument('[pattern...]', 'globs over job names (default: all with a handler here)')
    .option('--for <duration>', 'wait for new jobs until this time is over, then claim no more')
    .option('--wait <duration>', 'how long to wait for a job when none is due')
    .option('--max-jobs <n>', 'stop after this many jobs')
    .option(
      '--max-memory <size>',
      'claim no more once the worker and its children use more than this',
    )
    .option('--max-load <n>', 'claim none while the load average is higher')
    .option('--concurrency <n>', 'how many jobs at the same time, 1 to 64 (default: 1)')
    .option('--adaptive', 'find the best number of jobs at the same time, up to --concurrency')
    .option('--fail-unknown', 'fail jobs without a handler here instead of leaving them')
    .option('--watch-file <path>', 'finish when this file changes (as for .runner/restart)')
    .option('--json', 'print at the end how many succeeded, failed and were released, as JSON')
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
      call.events.emit('problem', 'no queue job was run: they are only in the log');
      return { ends: [], isBroken: true };
    },
  );
}
