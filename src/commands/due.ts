import { Command } from 'commander';
import type { CommandContext } from './command-context.ts';
import type { RunTierOptions } from './run-tier.ts';

const EXAMPLES = `
A tier is due when a new period has begun since its last pass: a new hour, a new day. However many
periods were missed, it runs once; with the setting \`catchUp: 'skip'\` of a tier, a pass that is more
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
    .description('run each tier that is due: for hosts where cron cannot have a line for each')
    .option('--budget <duration>', 'start no script that would take longer than this in all')
    .addHelpText('after', EXAMPLES)
    .action(() => due(context, command.optsWithGlobals<RunTierOptions>()));
}

async function due(context: CommandContext, options: RunTierOptions): Promise<void> {
  const { readBudget } = await import('./read-budget.ts');
  const { openRunner } = await import('./open-runner.ts');
  const { runAndShow } = await import('./run-and-show.ts');
  const { runDue } = await import('../worker/run-due.ts');
  const budgetMs = readBudget(options.budget);
  const runner = await openRunner(context, options.root);
  await runAndShow(context, runner, { budgetMs, isDue: true }, runDue);
}
