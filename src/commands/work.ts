import { Command } from 'commander';
import type { CommandContext } from './command-context.ts';

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
      const { workAndShow } = await import('./work-and-show.ts');
      await workAndShow(context, patterns, command.optsWithGlobals());
    });
}
