import { resolve } from 'node:path';
import { setFlagsFromString } from 'node:v8';
import { Command } from 'commander';
import { UsageError } from '../../system/base/errors.ts';
import { shellWord } from '../../system/base/values.ts';
import type { WorkerEvents } from '../../worker/invocation/events.ts';
import type { Invocation } from '../../worker/invocation/invocation.ts';
import type { WorkRequest } from '../../worker/loop/queue-limits.ts';
import type { CallSummary } from '../../worker/pass/run-tier.ts';
import type { CommandContext } from '../shared/context.ts';
import { asksForPlan, type DryRunOptions } from '../shared/dry-run-options.ts';
import type { WorkOptions } from '../shared/work-options.ts';
import type { RunTierOptions } from './run-tier.ts';

interface RunOptions extends DryRunOptions {
  readonly root?: string;
  readonly quiet?: true;
  readonly alert?: boolean;
}

/** `runner run <script>`: one script now, as cron would run it. */
export function runCommand(context: CommandContext): Command {
  const command = new Command('run');
  return command
    .description('run one script now, with its tier’s lock and cron’s environment')
    .argument('<script>', 'its name, where the tier may be left out, or its file')
    .argument('[args...]', 'after --: arguments for the script')
    .option('--quiet', 'on a terminal: show how it ends, but not its output')
    .option('--alert', 'tell of a failure as passes do, also on a terminal')
    .option('--no-alert', 'tell nobody of a failure, also without a terminal')
    .option('--dry-run', 'show what would run, and how; run nothing')
    .option('--json', 'with --dry-run: as JSON')
    .addHelpText('after', RUN_HELP)
    .action(async (name: string, words: readonly string[]) => {
      const args = argumentsAfterDashes(command, words);
      await runScript(context, name, args, command.optsWithGlobals<RunOptions>());
    });
}

/** Two names are more likely a slip than a script and its argument. */
function argumentsAfterDashes({ parent }: Command, words: readonly string[]): readonly string[] {
  const { rawArgs = [] } = (parent ?? {}) as { readonly rawArgs?: readonly string[] };
  if (words.length === 0 || rawArgs.includes('--')) return words[0] === '--' ? words.slice(1) : words;
  throw new UsageError(
    `\`run\` runs one script, found also ${words.map((word) => JSON.stringify(word)).join(' ')}. ` +
      'Put arguments for the script after `--`.',
  );
}

async function runScript(
  context: CommandContext,
  name: string,
  args: readonly string[],
  options: RunOptions,
): Promise<void> {
  const isPlan = asksForPlan(options);
  const { root, quiet, alert: isTold } = options;
  const { openRunner } = await import('../shared/context.ts');
  const { findScript } = await import('../../discovery/find-script.ts');
  const runner = await openRunner(context, root);
  const { tier, script } = await findScript({ ...runner, cwd: context.cwd }, name);
  const request = { kind: 'script' as const, tier, scripts: [script] };
  if (isPlan) {
    const { showPlan } = await import('./dry-run.ts');
    return await showPlan(context, runner, [request], { ...options, args });
  }
  await notePause(context, runner.root, script.name);
  const { runAndShow } = await import('./live.ts');
  const { runTier } = await import('../../worker/pass/run-tier.ts');
  const show = { isAwaited: true, isTold, isLive: quiet !== true, ...(args.length > 0 && { args }) };
  const { ends } = await runAndShow(context, runner, show, async (call) => {
    const isExplained = noteExplanation(call.events);
    const summary = await runTier(call, request);
    if (summary.ends?.length === 0 && !isExplained()) tellNotRun(context, script.name, call.stop.reason);
    return summary;
  });
  if (ends === null || ends.length === 0) context.setExitCode(1);
}

/** @returns whether something has been told that explains why nothing was run */
function noteExplanation(events: WorkerEvents): () => boolean {
  let isExplained = false;
  for (const event of ['problem', 'pass-skipped', 'deferred'] as const) {
    events.on(event, () => {
      isExplained = true;
    });
  }
  return () => isExplained;
}

/** @param stopped why the call was to begin nothing; null: somebody else was quicker, or the log was away just then */
function tellNotRun(context: CommandContext, script: string, stopped: string | null): void {
  const reason =
    stopped ?? 'another call or machine has taken it over, or the log could not be reached at its beginning';
  const cure = `\`npx folder-runner why ${shellWord(script)}\` tells how it stands`;
  context.stderr.write(`runner: ${script} was not run: ${reason}; ${cure}.\n`);
}

/** Who names a script means it: a pause keeps only passes from it. */
async function notePause(context: CommandContext, root: string, script: string): Promise<void> {
  const { readPauses } = await import('../shared/open.ts');
  const { findPause } = await import('../../queue/pauses.ts');
  const pause = findPause(await readPauses(context, root), script);
  if (pause === null) return;
  const { createClock } = await import('../../report/text/clock.ts');
  const { describePaused } = await import('../../report/text/words.ts');
  const { printableLine } = await import('../../system/base/text.ts');
  const what = describePaused(pause, '', createClock(context.now()));
  context.stderr.write(`Note: ${what}; ${printableLine(script)} runs all the same, because you named it.\n`);
}

const RUN_HELP = `
On a terminal you see the script's output as it comes, and nobody else is told if it fails: there is no alert,
and no incident opens. A success ends an open incident. If a pass of the tier is already running, the
command says so and exits with 1. A run with arguments is not retried, and the log does not keep its arguments.

Examples:
  runner run clean-tmp                       the tier may be left out if only one has such a script
  runner run hourly/import -- --since 2026-11-01 orders.csv
  runner run clean-tmp --dry-run             its command, its environment and its limits; nothing is run
  runner run daily/backup --root ~/site`;

const DUE_HELP = `
A tier is due when a new period has begun since its last pass: a new hour, a new day. It runs once,
however many periods were missed. With \`catchUp: 'skip'\` in a tier's settings, a pass that is more
than an hour late is left out. A pass that was killed is due again. A script with a @schedule also runs
when its time has come.

Examples:
  runner due                   run all tiers that are due: one crontab line is enough
  runner due --budget 55s      start no script that usually takes longer than the time left;
                               these come first in the next call
  0 * * * *  …/runner due      for a host that allows one line, once an hour`;

/** `runner due`: one crontab line, of any interval, for all tiers. */
export function dueCommand(context: CommandContext): Command {
  const command = new Command('due');
  return command
    .description('run all tiers that are due (one crontab line is enough)')
    .option('--budget <duration>', 'total time for this call; scripts that would exceed it wait for the next call')
    .option('--dry-run', 'show what would run, in which order and how; run nothing')
    .option('--json', 'with --dry-run: as JSON')
    .addHelpText('after', DUE_HELP)
    .action(() => due(context, command.optsWithGlobals<RunTierOptions & DryRunOptions>()));
}

async function due(context: CommandContext, options: RunTierOptions & DryRunOptions): Promise<void> {
  const { readBudget } = await import('../shared/budget.ts');
  const { openRunner } = await import('../shared/context.ts');
  const { runAndShow } = await import('./live.ts');
  const { runDue } = await import('../../worker/pass/run-due.ts');
  const budgetMs = readBudget(options.budget);
  if (asksForPlan(options)) return await (await import('./dry-run.ts')).planDue(context, options);
  const runner = await openRunner(context, options.root);
  await runAndShow(context, runner, { budgetMs, isDue: true }, runDue);
}

const WORK_HELP = `
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
    .argument('[pattern...]', 'names: mail/welcome, or patterns such as "mail/*" (default: all with a handler here)')
    .option('--for <duration>', 'wait for new jobs until this time is over, then claim no more')
    .option('--wait <duration>', 'how long to wait for a job when none is due')
    .option('--max-jobs <n>', 'stop after this many jobs')
    .option('--max-memory <size>', 'claim no more once the worker and its children use more than this')
    .option('--max-load <n>', 'claim none while the load average is higher')
    .option('--concurrency <n>', 'how many jobs at the same time, 1 to 64 (default: 1)')
    .option('--adaptive', 'find the best number of jobs at the same time, up to --concurrency')
    .option('--fail-unknown', 'fail jobs without a handler here instead of leaving them')
    .option('--watch-file <path>', 'finish when this file changes, as with .runner/restart')
    .option('--json', 'print at the end how many succeeded, failed and were released, as JSON')
    .addHelpText('after', WORK_HELP)
    .action(async (patterns: string[]) => {
      await workAndShow(context, patterns, command.optsWithGlobals());
    });
}

/** Works off the queue with a line of progress on a terminal, silently elsewhere. */
async function workAndShow(context: CommandContext, patterns: readonly string[], options: WorkOptions): Promise<void> {
  const { openRunner } = await import('../shared/context.ts');
  const { filesOfDeploy, readWorkOptions } = await import('../shared/work-options.ts');
  const { runAndShow } = await import('./live.ts');
  const request = readWorkOptions(patterns, options);
  // A worker lives long and makes much that is soon garbage: unasked, V8 lets that space grow by 50 MB.
  setFlagsFromString('--semi-space-growth-factor=1');
  const runner = await openRunner(context, options.root);
  await tellUnfitting(context, runner.root, request);
  const watchedFiles = [
    ...filesOfDeploy(context, runner.root),
    ...(options.watchFile === undefined ? [] : [resolve(context.cwd, options.watchFile)]),
  ];
  const isJson = options.json === true;
  const show = { isQueue: true, isSilent: isJson };
  await runAndShow(context, runner, show, async (call) => {
    const tell = isJson ? await countForJson(call.events) : null;
    const worked = await workOffQueue(call, { ...request, watchedFiles });
    if (tell !== null) context.stdout.write(await tell());
    return worked;
  });
}

async function countForJson(events: WorkerEvents): Promise<() => Promise<string>> {
  const { countRuns } = await import('./progress.ts');
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
  const { withStore } = await import('../../worker/invocation/with-store.ts');
  const { workQueue } = await import('../../worker/pass/work-queue.ts');
  return await withStore(
    call,
    async (logged) => await workQueue(logged, request),
    async () => {
      call.events.emit('problem', 'no queue job was run: jobs are in the log, which cannot be used');
      return { ends: [], isBroken: true };
    },
  );
}
