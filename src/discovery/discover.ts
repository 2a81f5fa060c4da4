import type { Settings } from '../config/settings.ts';
import type { TierPlace } from './build-script.ts';
import { createPatternMatcher } from './match-patterns.ts';
import { readTier } from './read-tier.ts';
import type { Discovery, Tier } from './script.ts';
import { tierFolder } from './tier-folders.ts';
import { tierPeriodMs } from './tier-period.ts';

export interface DiscoverOptions {
  /** Only this tier's folder is read: what a pass needs. */
  readonly tier?: string;
}

/**
 * Finds the scripts of all tiers, or of one, and what under `jobs/` is no script, and why.
 *
 * @throws {UsageError} if there is no tier of that name
 */
export async function discover(
  root: string,
  settings: Settings,
  { tier }: DiscoverOptions = {},
): Promise<Discovery> {
  const matches = await createPatternMatcher(Object.keys(settings.scripts));
  if (tier !== undefined) return discoverTier({ root, tier, settings, matches });
  return discoverAll((name) => discoverTier({ root, tier: name, settings, matches }), root);
}

/** Loaded only here: a pass does without the glob library. */
async function discoverAll(discoverOne: (tier: string) => Discovery, root: string) {
  const { listJobsFolder, listPlainFolder } = await import('./list-jobs-folder.ts');
  const listed = listJobsFolder(root);
  const found = listed.tiers.map(discoverOne);
  return {
    tiers: found.flatMap((one) => one.tiers).toSorted(byPeriod),
    ignored: [...listed.ignored, ...found.flatMap((one) => one.ignored)].flatMap(listPlainFolder),
  };
}

/** The most frequent first; tiers that only run by hand last. */
function byPeriod(one: Tier, other: Tier): number {
  const longest = Number.MAX_SAFE_INTEGER;
  return (one.periodMs ?? longest) - (other.periodMs ?? longest);
}

function discoverTier(place: TierPlace): Discovery {
  const { scripts, ignored } = readTier(place, tierFolder(place.root, place.tier));
  return {
    tiers: [{ name: place.tier, periodMs: tierPeriodMs(place.tier), scripts }],
    ignored,
  };
}
