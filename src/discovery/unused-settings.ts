import { relative } from 'node:path';
import { nearestName } from '../base/suggest.ts';
import { type JobsPlace, QUEUE_TIER } from './place.ts';

import type { Script, Tier } from './script.ts';

/** Keys of the settings that fit no tier, or no script: they may be written wrong. */
export function warnOfUnusedSettings(
  place: JobsPlace,
  tiers: readonly Tier[],
  handlers: readonly Script[],
): readonly string[] {
  const { settings } = place;
  const names = [...tiers.map(({ name }) => name), ...(handlers.length > 0 ? [QUEUE_TIER] : [])];
  const scripts = [...tiers.flatMap((tier) => tier.scripts), ...handlers];
  return [
    ...Object.keys(settings.tiers)
      .filter((tier) => !names.includes(tier))
      .map((tier) => describeUnused('tiers', tier, 'tier', names)),
    ...Object.keys(settings.scripts)
      .filter((pattern) => !scripts.some((script) => fits(place, pattern, script)))
      .map((pattern) => describeUnused('scripts', pattern, 'script', scripts.map(nameOf))),
  ];
}

function fits({ root, matches }: JobsPlace, pattern: string, { name, path }: Script): boolean {
  return matches(pattern, name) || matches(pattern, relative(root, path).replace(/^jobs\//, ''));
}

function nameOf({ name }: Script): string {
  return name;
}

function describeUnused(
  setting: string,
  key: string,
  kind: string,
  names: readonly string[],
): string {
  const nearest = nearestName(key, names);
  const guess = nearest === null ? '' : `; did you mean ${nearest}?`;
  return `${setting}[${JSON.stringify(key)}] of the settings fits no ${kind} and has no effect${guess}`;
}
