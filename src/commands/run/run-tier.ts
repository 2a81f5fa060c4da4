import { findTier } from '../../discovery/discover.ts';
import { runTier } from '../../worker/pass/run-tier.ts';
import { type CommandContext, openRunner } from '../shared/context.ts';
import { runAndShow } from './live.ts';

interface RunTierOptions {
  readonly root?: string;
  /** Milliseconds. */
  readonly budget?: number;
}

/** `runner <tier>`: what cron calls. */
export async function runTierCommand(
  context: CommandContext,
  tierName: string,
  options: RunTierOptions,
): Promise<void> {
  const { budget: budgetMs = null } = options;
  const runner = await openRunner(context, options.root);
  const tier = await findTier(runner, tierName);
  if (tier.scripts.length === 0) context.asksLittle();
  await runAndShow(context, runner, { budgetMs }, (call) =>
    runTier(call, { kind: 'tier', tier, scripts: tier.scripts }),
  );
}
