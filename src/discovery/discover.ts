import { join } from 'node:path';
import { tierPeriodMs } from '../schedule/period.ts';
import type { Settings } from '../settings/settings.ts';
import {
  createPatternMatcher,
  enterFolder,
  enterRoot,
  type JobsPlace,
  tierFolder,
} from './place.ts';
import type { Discovery, Tier } from './script.ts';
import { readTier } from './tier.ts';

export interface DiscoverOptions {
  /** Only this tier's folder is read: what a pass needs. */
  readonly tier?: string;
}

/**
 * Finds the scripts of all tiers and the handlers, or the scripts of one tier, and what under `jobs/` is
 * no script, and why.
 *
 * @throws {UsageError} if there is no tier of that name
 */
export async function discover(
  root: string,
  settings: Settings,
  { tier }: DiscoverOptions = {},
): Promise<Discovery> {
  const matches = await createPatternMatcher(Object.keys(settings.scripts));
  const place = enterFolder({ ...enterRoot(root, settings), matches }, join(root, 'jobs'));
  if (tier !== undefined) return discoverTier(place, tier);
  return discoverAll(place);
}

/** Loaded only here: a pass does without the glob library. */
async function discoverAll(place: JobsPlace): Promise<Discovery> {
  const { listJobsFolder, listPlainFolder } = await import('./jobs-folder.ts');
  const { warnOfUnusedSettings } = await import('./unused-settings.ts');
  const listed = listJobsFolder(place.root);
  const { readHandlers } = await import('./read-handlers.ts');
  const found = listed.tiers.map((tier) => discoverTier(place, tier));
  const tiers = found.flatMap((one) => one.tiers).toSorted(byPeriod);
  const queue = readHandlers(place);
  const ignored = [...listed.ignored, ...found.flatMap((one) => one.ignored), ...queue.ignored];
  return {
    tiers,
    unread: [...found.flatMap((one) => one.unread), ...queue.unread],
    handlers: queue.scripts,
    ignored: ignored.flatMap(listPlainFolder),
    warnings: warnOfUnusedSettings(place, tiers, queue.scripts),
  };
}

/** The most frequent first; tiers that only run by hand last. */
function byPeriod(one: Tier, other: Tier): number {
  const longest = Number.MAX_SAFE_INTEGER;
  return (one.periodMs ?? longest) - (other.periodMs ?? longest);
}

function discoverTier(place: JobsPlace, tier: string): Discovery {
  const folder = tierFolder(place.root, tier);
  const nothing = { tiers: [], unread: [], handlers: [], ignored: [], warnings: [] };
  const content = readTier(enterFolder({ ...place, tier }, folder), folder);
  if ('reason' in content) return { ...nothing, unread: [content] };
  const { scripts, ignored } = content;
  return { ...nothing, tiers: [{ name: tier, periodMs: tierPeriodMs(tier), scripts }], ignored };
}
