import { runTier } from '../worker/run-tier.ts';
import type { CommandContext } from './command-context.ts';
import { findTier } from './find-tier.ts';
import { openRunner } from './open-runner.ts';
import { readBudget } from './read-budget.ts';
import { runAndShow } from './run-and-show.ts';

export interface RunTierOptions {
  readonly root?: string;
  readonly budget?: string;
}

/** `runner <tier>`: what cron calls. */
export async function runTierCommand(
  context: CommandContext,
  tierName: string,
  options: RunTierOptions,
): Promise<void> {
  const budgetMs = readBudget(options.budget);
  const runner = await openRunner(context, options.root);
  const tier = await findTier(runner, tierName);
  await runAndShow(context, runner, { budgetMs }, (call) =>
    runTier(call, { kind: 'tier', tier, scripts: tier.scripts }),
  );
}
