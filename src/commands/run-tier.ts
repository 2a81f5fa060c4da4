import type { CommandContext } from './command-context.ts';
import { findTier } from './find-tier.ts';
import { openRunner } from './open-runner.ts';
import { runAndShow } from './run-and-show.ts';

/** `runner <tier>`: what cron calls. */
export async function runTierCommand(
  context: CommandContext,
  tierName: string,
  rootOption: string | undefined,
): Promise<void> {
  const runner = await openRunner(context, rootOption);
  const tier = await findTier(runner, tierName);
  await runAndShow(context, runner, { kind: 'tier', tier, scripts: tier.scripts });
}
