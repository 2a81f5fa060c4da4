import { discoverNames } from '../../discovery/folder.ts';
import { findDisabled } from '../../discovery/not-run.ts';
import { UsageError } from '../../system/base/errors.ts';
import type { KnownTier } from './overview.ts';

/**
 * The scripts and handlers of `jobs/` by name; undefined: it cannot be read.
 *
 * @param tell gets what could not be read, and why, in a sentence each
 */
export function readKnownTiers(root: string, tell: (problem: string) => void = () => {}): KnownTier[] | undefined {
  try {
    const { tiers, unread } = discoverNames(root);
    const disabled = Map.groupBy(findDisabled(root), ({ tier }) => tier);
    for (const { reason } of unread) tell(reason);
    const names = new Set([...tiers.map(({ tier }) => tier), ...disabled.keys()]);
    const scriptsOf = (name: string) => tiers.find(({ tier }) => tier === name)?.scripts ?? [];
    const known = [...names].map((tier) => ({
      tier,
      scripts: scriptsOf(tier),
      disabled: (disabled.get(tier) ?? []).map(({ name }) => name),
    }));
    return [...known, ...unread.map(({ tier }) => ({ tier, scripts: [], isUnread: true }))];
  } catch (error) {
    if (!(error instanceof UsageError)) throw error;
    tell(`jobs/ could not be read. ${error.message}`);
    return undefined;
  }
}
