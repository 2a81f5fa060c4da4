import { describeDistrust } from '../config/describe-distrust.ts';
import { type Distrust, judgePath, judgeRoot } from '../config/file-trust.ts';
import type { Settings } from '../config/settings.ts';
import type { PatternMatcher } from './match-patterns.ts';
import { printableName } from './printable-name.ts';

/** A folder of a root, and what speaks against whatever lies in it. */
interface Place {
  readonly root: string;
  readonly settings: Settings;
  /** Who else could have written it: whoever can write a folder can replace what is in it. */
  readonly distrust: readonly string[];
}

/** What all tiers have in common. */
export interface JobsPlace extends Place {
  readonly matches: PatternMatcher;
}

/** What the handlers have instead of a tier. */
export const QUEUE_TIER = 'queue';

/** What all files of one folder of a tier have in common. */
export interface TierPlace extends JobsPlace {
  readonly tier: string;
}

export function enterRoot(root: string, settings: Settings): Place {
  const distrust = settings.allowUnsafe ? null : judgeRoot(root);
  return { root, settings, distrust: distrust === null ? [] : [describe(root, distrust)] };
}

/** The place that a folder of it is. */
export function enterFolder<In extends Place>(place: In, folder: string): In {
  return { ...place, distrust: [...place.distrust, ...distrustOf(place, folder)] };
}

/** Who else could have written a file or folder, in one sentence each; nobody, if it is allowed. */
export function distrustOf({ root, settings }: Place, path: string): readonly string[] {
  if (settings.allowUnsafe) return [];
  return judgePath(root, path).map((distrust) => describe(root, distrust));
}

function describe(root: string, distrust: Distrust): string {
  return printableName(describeDistrust(root, distrust));
}
