import { UsageError } from '../../system/base/errors.ts';
import { runDue } from '../../worker/pass/run-due.ts';
import { asksForPlan, type Call } from '../shared/command.ts';
import { type CommandContext, openRunner } from '../shared/context.ts';
import type { Given } from '../table.ts';
import { runAndShow, runTierCommand } from './run-tier.ts';

/** `runner due`: one crontab line, of any interval, for all tiers. */
export async function due(context: CommandContext, options: Given<'due'>): Promise<void> {
  // Cron calls it each minute, and hardly anybody asks for the plan.
  if (asksForPlan(options)) return await (await import('./dry-run.ts')).planDue(context, options);
  const runner = await openRunner(context, options.root);
  await runAndShow(context, runner, { budgetMs: options.budget ?? null, isDue: true }, runDue);
}

/** `runner <tier>` with an option, or `runner` alone, which prints the help. */
export async function tier(context: CommandContext, options: Given<'tier'>, { printHelp }: Call): Promise<void> {
  const { tier: name, budget } = options;
  if (name === undefined && budget !== undefined) throw needsTier('--budget', '5m');
  const isPlan = asksForPlan(options);
  if (name !== undefined && isPlan) return await (await import('./dry-run.ts')).planTier(context, name, options);
  if (name !== undefined) return await runTierCommand(context, name, options);
  if (isPlan) throw needsTier('--dry-run');
  printHelp();
}

function needsTier(...option: readonly string[]): UsageError {
  const example = `npx folder-runner hourly ${option.join(' ')}`;
  return new UsageError(`${option[0]} needs a tier, such as \`${example}\`, or \`due\`.`);
}
