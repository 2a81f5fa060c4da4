import { Command } from 'commander';
import type { CommandContext } from '../shared/context.ts';
import type { RunTierOptions } from './run-tier.ts';

/** `runner run <tier>/<script>`: one script now, as cron would run it. */
export function runCommand(context: CommandContext): Command {
  return new Command('run')
    .description('run one script now, with its tier’s lock and cron’s environment')
    .argument('<tier/script>', 'the name that `runner list` shows')
    .addHelpText('after', examples)
    .action(async (name: string, _options: unknown, command: Command) => {
      const { openRunner } = await import('../shared/context.ts');
      const { findScript } = await import('../shared/tiers.ts');
      const { runAndShow } = await import('./live.ts');
      const runner = await openRunner(context, command.optsWithGlobals().root);
      const { tier, script } = await findScript(runner, name);
      await notePause(context, runner.root, script.name);
      const { runTier } = await import('../../worker/start/run-tier.ts');
      const request = { kind: 'script' as const, tier, scripts: [script] };
      const { ends } = await runAndShow(context, runner, { tellsSkips: true }, (call) =>
        runTier(call, request),
      );
      if (ends === null || ends.length === 0) context.setExitCode(1);
    });
}

/** Who names a script means it: a pause keeps only passes from it. */
async function notePause(context: CommandContext, root: string, script: string): Promise<void> {
  const { readPauses } = await import('../shared/open.ts');
  const { findPause } = await import('../../queue/pauses.ts');
  const pause = findPause(await readPauses(context, root), script);
  if (pause === null) return;
  const { createClock } = await import('../../report/text/format.ts');
  const { describePaused } = await import('../../report/text/words.ts');
  const { printableLine } = await import('../../base/text.ts');
  const what = describePaused(pause, '', createClock(context.now()));
  context.stderr.write(
    `Note: ${what}; ${printableLine(script)} runs all the same, because you named it.\n`,
  );
}

const examples = `
If a pass of the tier is already running, it says so and exits 1.

Examples:
  runner run hourly/clean-tmp
  runner run daily/backup --root ~/site`;

const EXAMPLES = `
A tier is due when a new period has begun since its last pass: a new hour, a new day. It runs once,
however many periods were missed. With \`catchUp: 'skip'\` in a tier's settings, a pass that is more
than an hour late is left out. A pass that was killed is due again.

Examples:
  runner due                   run every tier that is due: one crontab line for all of them
  runner due --budget 55s      start nothing that usually takes longer than what is left of 55 seconds;
                               the rest comes first in the next call
  0 * * * *  …/runner due      where a host allows one line, once an hour`;

/** `runner due`: one crontab line, of any interval, for all tiers. */
export function dueCommand(context: CommandContext): Command {
  const command = new Command('due');
  return command
    .description('run each tier that is due: one crontab line for hosts that allow only a few')
    .option(
      '--budget <duration>',
      'total time for this call; scripts that would exceed it wait for the next call',
    )
    .addHelpText('after', EXAMPLES)
    .action(() => due(context, command.optsWithGlobals<RunTierOptions>()));
}

async function due(context: CommandContext, options: RunTierOptions): Promise<void> {
  const { readBudget } = await import('../shared/tiers.ts');
  const { openRunner } = await import('../shared/context.ts');
  const { runAndShow } = await import('./live.ts');
  const { runDue } = await import('../../worker/start/run-due.ts');
  const budgetMs = readBudget(options.budget);
  const runner = await openRunner(context, options.root);
  await runAndShow(context, runner, { budgetMs, isDue: true }, runDue);
}
