import type { ScriptOptions } from '../config/script-options.ts';
import type { Settings, TierSettings } from '../config/settings.ts';
import type { PatternMatcher } from './match-patterns.ts';

/** Which options win: a script's tags, then globs (later ones first), then its tier, then the defaults. */
export function mergeOptions(
  settings: Settings,
  tier: string,
  names: readonly string[],
  tags: ScriptOptions,
  matches: PatternMatcher,
): ScriptOptions {
  const byPattern = Object.entries(settings.scripts)
    .filter(([pattern]) => names.some((name) => matches(pattern, name)))
    .map(([, options]) => options);
  return Object.assign({}, settings.defaults, ofTier(settings, tier), ...byPattern, tags);
}

/** What is said of the tier itself is no option of its scripts. */
function ofTier({ tiers }: Settings, tier: string): ScriptOptions {
  if (!Object.hasOwn(tiers, tier)) return {};
  const { concurrency: _, catchUp: __, ...options }: TierSettings = tiers[tier] ?? {};
  return options;
}
