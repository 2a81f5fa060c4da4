import { nearestName } from '../config/near-miss.ts';
import { UsageError } from '../config/usage-error.ts';
import type { Tier } from '../discovery/script.ts';
import { printableLine } from '../report/printable.ts';

/**
 * The tier or script that was meant: `hourly`, `hourly/clean-tmp`, or only `clean-tmp` where no other
 * tier has one of that name.
 *
 * @throws {UsageError} that names the nearest one
 */
export function findPausable(word: string, tiers: readonly Tier[]): string {
  const scripts = tiers.flatMap((tier) => tier.scripts.map(({ name }) => name));
  const names = [...tiers.map(({ name }) => name), ...scripts];
  if (names.includes(word)) return word;
  const meant = scripts.filter((script) => script.endsWith(`/${word}`));
  const [only, ...others] = meant;
  if (only !== undefined && others.length === 0) return only;
  throw new UsageError(`${describeUnknown(word, names, meant)} \`runner list\` shows them all.`);
}

function describeUnknown(word: string, names: readonly string[], meant: readonly string[]): string {
  const quoted = JSON.stringify(printableLine(word));
  if (meant.length > 1) {
    return `${quoted} is the name of ${meant.length} scripts: ${meant.map(printableLine).join(', ')}.`;
  }
  const nearest = nearestName(word, names);
  const guess = nearest === null ? '.' : `; did you mean ${printableLine(nearest)}?`;
  return `There is no tier and no script ${quoted} in jobs/${guess}`;
}
