import { findTier } from '../../discovery/discover.ts';
import { runTier } from '../../worker/pass/run-tier.ts';
import { type CommandContext, openRunner } from '../shared/context.ts';
import { runAndShow } from './live.ts';

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
  // Few calls have one: the others need not load how it is read.
  const { budget } = options;
  const budgetMs = budget === undefined ? null : (await import('../shared/budget.ts')).readBudget(budget);
  const runner = await openRunner(context, options.root);
  const tier = await findTier(runner, tierName);
  if (tier.scripts.length === 0) context.asksLittle();
  await runAndShow(context, runner, { budgetMs }, (call) =>
    runTier(call, { kind: 'tier', tier, scripts: tier.scripts }),
  );
}
