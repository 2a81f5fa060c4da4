import { nearestName } from '../config/near-miss.ts';
import { UsageError } from '../config/usage-error.ts';
import type { Tier } from '../discovery/script.ts';
import { readPatterns } from '../queue/name-patterns.ts';
import { pauseNameOf, WHOLE_QUEUE } from '../queue/pause-names.ts';
import { printableLine } from '../report/printable.ts';

/** What there is to be paused. */
export interface Pausables {
  readonly tiers: readonly Pick<Tier, 'name' | 'scripts'>[];
  /** Of handlers, and of jobs that wait. */
  readonly jobNames: readonly string[];
}

/**
 * The name in the log of what was meant: a tier, `hourly`; a script, `hourly/clean-tmp`, or only
 * `clean-tmp` where nothing else has that name; `queue`; jobs of a name or of a pattern, `mail/*`.
 *
 * @throws {UsageError} that names the nearest one
 */
export function findPausable(word: string, { tiers, jobNames }: Pausables): string {
  const scripts = tiers.flatMap((tier) => tier.scripts.map(({ name }) => name));
  const tierNames = tiers.map(({ name }) => name);
  if ([...tierNames, ...scripts].includes(word)) return word;
  if (word === WHOLE_QUEUE) return word;
  if (word.startsWith(`${WHOLE_QUEUE}/`)) return nameOfJobs(word.slice(WHOLE_QUEUE.length + 1));
  if (isPattern(word)) return patternName(word, tierNames);
  const short = scripts.filter((script) => script.endsWith(`/${word}`));
  const isJob = jobNames.includes(word);
  const meant = [...short, ...(isJob ? [pauseNameOf(word)] : [])];
  const [only, ...others] = meant;
  if (only !== undefined && others.length === 0) return only;
  const names = [...tierNames, ...scripts, ...jobNames];
  throw new UsageError(describeUnknown(word, names, meant));
}

function isPattern(word: string): boolean {
  return /[*?[]/.test(word);
}

/** @throws {QueueError} where no name could ever fit: that would be a pause of nothing */
function nameOfJobs(pattern: string): string {
  readPatterns(pattern);
  return pauseNameOf(pattern);
}

/** Who writes `hourly/*` means the tier's scripts, mostly. */
function patternName(word: string, tierNames: readonly string[]): string {
  const tier = tierNames.find((name) => word.startsWith(`${name}/`));
  if (tier === undefined) return nameOfJobs(word);
  const shown = printableLine(word);
  throw new UsageError(
    `Patterns are for jobs of the queue: \`runner pause ${printableLine(tier)}\` pauses that tier, ` +
      `\`runner pause '${WHOLE_QUEUE}/${shown}'\` jobs whose names are like ${shown}.`,
  );
}

function describeUnknown(word: string, names: readonly string[], meant: readonly string[]): string {
  const shown = printableLine(word);
  const quoted = JSON.stringify(shown);
  if (meant.length > 1) {
    const all = meant.map(printableLine).join(', ');
    return `${quoted} can be ${meant.length} things: ${all}. Name one of them in full.`;
  }
  const nearest = nearestName(word, names);
  const guess = nearest === null ? '.' : `; did you mean ${printableLine(nearest)}?`;
  return (
    `There is no tier, no script, no handler and no waiting job ${quoted}${guess} ` +
    `\`runner list\` shows them all; ${WHOLE_QUEUE}/${shown} names jobs that are yet to come.`
  );
}
