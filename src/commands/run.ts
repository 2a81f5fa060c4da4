import { Command } from 'commander';
import type { CommandContext } from './command-context.ts';

/** `runner run <tier>/<script>`: one script now, as cron would run it. */
export function runCommand(context: CommandContext): Command {
  return new Command('run')
    .description('run one script now, under its tier’s lock and in cron’s environment')
    .argument('<tier/script>', 'the name that `runner list` shows')
    .addHelpText('after', examples)
    .action(async (name: string, _options: unknown, command: Command) => {
      const { openRunner } = await import('./open-runner.ts');
      const { findScript } = await import('./find-tier.ts');
      const { runAndShow } = await import('./run-and-show.ts');
      const runner = await openRunner(context, command.optsWithGlobals().root);
      const { tier, script } = await findScript(runner, name);
      await notePause(context, runner.root, script.name);
      const { runTier } = await import('../worker/run-tier.ts');
      const request = { kind: 'script' as const, tier, scripts: [script] };
      const { ends } = await runAndShow(context, runner, { tellsSkips: true }, (call) =>
        runTier(call, request),
      );
      if (ends === null || ends.length === 0) context.setExitCode(1);
    });
}

/** Who names a script means it: a pause keeps only passes from it. */
async function notePause(context: CommandContext, root: string, script: string): Promise<void> {
  const { readPauses } = await import('./open-log.ts');
  const { findPause } = await import('../queue/pauses.ts');
  const pause = findPause(await readPauses(context, root), script);
  if (pause === null) return;
  const { createClock } = await import('../report/clock.ts');
  const { describePaused } = await import('../report/pause-text.ts');
  const { printableLine } = await import('../report/printable.ts');
  const what = describePaused(pause, '', createClock(context.now()));
  context.stderr.write(
    `Note: ${what}; ${printableLine(script)} is run all the same, as you named it.\n`,
  );
}

const examples = `
It waits for nobody: when a pass of the tier runs, it says so and exits 1.

Examples:
  runner run hourly/clean-tmp
  runner run daily/backup --root ~/site`;
