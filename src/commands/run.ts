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
      const { runTier } = await import('../worker/run-tier.ts');
      const request = { kind: 'script' as const, tier, scripts: [script] };
      const { ends } = await runAndShow(context, runner, { tellsSkips: true }, (call) =>
        runTier(call, request),
      );
      if (ends === null) context.setExitCode(1);
    });
}

const examples = `
It waits for nobody: when a pass of the tier runs, it says so and exits 1.

Examples:
  runner run hourly/clean-tmp
  runner run daily/backup --root ~/site`;
