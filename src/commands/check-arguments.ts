import type { Command } from 'commander';
import { defaultSettings } from '../config/settings.ts';
import { findScript, findTier } from './find-tier.ts';
import { readBudget } from './read-budget.ts';
import { readWorkOptions } from './read-work-options.ts';

/**
 * Looks at what the parser leaves to the commands that cron may call: names, and the values of options.
 *
 * @param command parsed; the one without a parent is `runner <tier>`
 * @throws {UsageError} as the command itself would
 */
export async function checkArguments(root: string, command: Command): Promise<void> {
  const options = command.optsWithGlobals();
  const place = { root, settings: defaultSettings };
  const [name = ''] = command.args;
  readBudget(options.budget);
  if (command.parent === null) await findTier(place, name);
  if (command.name() === 'run') await findScript(place, name);
  if (command.name() === 'work') readWorkOptions(command.args, options);
}
