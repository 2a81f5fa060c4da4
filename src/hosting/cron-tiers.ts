import { join } from 'node:path';
import { UsageError } from '../config/usage-error.ts';
import { tierFolder, tierNames } from '../discovery/tier-folders.ts';
import { tierPeriodMs } from '../discovery/tier-period.ts';

/** The tiers that `--tiers` names, or all that have a period; each is a folder under `jobs/`. */
export function chooseCronTiers(root: string, option: string | undefined): readonly string[] {
  if (option !== undefined) return namedTiers(root, option);
  const tiers = periodicTiers(root);
  if (tiers.length > 0) return tiers;
  throw new UsageError(
    `No folder in ${join(root, 'jobs')} has a period for a name (15min, hourly, daily …), ` +
      'so cron has nothing to run. Make them with `runner init`.',
  );
}

/** The tiers that have a period. */
export function periodicTiers(root: string): readonly string[] {
  return tierNames(root).filter((tier) => tierPeriodMs(tier) !== null);
}

function namedTiers(root: string, option: string): readonly string[] {
  const names = option
    .split(',')
    .map((name) => name.trim())
    .filter((name) => name !== '');
  if (names.length === 0) {
    throw new UsageError(
      `--tiers ${JSON.stringify(option)} names no tier: expected names with commas between them, ` +
        'such as 15min,hourly.',
    );
  }
  for (const name of names) tierFolder(root, name);
  return names;
}
