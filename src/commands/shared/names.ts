import { listHandlerNames, lookIntoJobs } from '../../discovery/look-into-jobs.ts';
import type { Tier } from '../../discovery/script.ts';
import { matchGlob } from '../../queue/glob.ts';
import { readPatterns } from '../../queue/patterns.ts';
import { pauseNameOf, WHOLE_QUEUE } from '../../queue/pauses.ts';
import { withoutParameters } from '../../settings/readers.ts';
import { UsageError } from '../../system/base/errors.ts';
import { nearestName, nearestPath } from '../../system/base/suggest.ts';
import { printableLine } from '../../system/base/text.ts';
import { stateFolderOf } from '../../system/place/state-folder.ts';
import type { CommandContext } from './context.ts';

/** More would drown what was asked for. */
const MOST_NOTES = 10;

/** Tells of names that nothing here is for: another machine may have their handlers, or it is a slip. */
export async function noteUnhandled(context: CommandContext, root: string, names: readonly string[]): Promise<void> {
  const handlers = await listHandlerNames(root);
  const unhandled = names.filter((name) => !isHandled(name, handlers)).map(withoutParameters);
  for (const name of [...new Set(unhandled)].slice(0, MOST_NOTES))
    context.stderr.write(`${describeUnhandled(name, handlers)}\n`);
}

/** Tells of patterns that a worker here finds no handler for: it takes no job because of them. */
export async function noteUnfitting(context: CommandContext, root: string, patterns: readonly string[]): Promise<void> {
  const handlers = await listHandlerNames(root);
  const fits = (pattern: string) => handlers.some((handler) => matchGlob(pattern, handler));
  for (const pattern of patterns.slice(0, MOST_NOTES)) {
    if (fits(pattern) || fits(withoutParameters(pattern))) continue;
    const what = `no handler that matches ${printableLine(pattern)} here`;
    context.stderr.write(`Note: jobs/queue/ has ${what}, so no such job is claimed.\n`);
  }
}

function isHandled(name: string, handlers: readonly string[]): boolean {
  return handlers.includes(name) || handlers.includes(withoutParameters(name));
}

export function describeUnhandled(name: string, handlers: readonly string[]): string {
  const nearest = nearestPath(withoutParameters(name), handlers);
  const guess = nearest === null ? '.' : `; did you mean ${printableLine(nearest)}?`;
  return `Note: jobs/queue/ has no handler for ${printableLine(name)} here, so it waits for one${guess}`;
}

/** What there is to be paused. */
interface Pausables {
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
    `Patterns are for queue jobs: \`runner pause ${printableLine(tier)}\` pauses that tier, ` +
      `\`runner pause '${WHOLE_QUEUE}/${shown}'\` pauses jobs with names like ${shown}.`,
  );
}

function describeUnknown(word: string, names: readonly string[], meant: readonly string[]): string {
  const shown = printableLine(word);
  const quoted = JSON.stringify(shown);
  if (meant.length > 1) {
    const all = meant.map(printableLine).join(', ');
    return `${quoted} is ambiguous (${meant.length} matches): ${all}. Write one of them in full.`;
  }
  const nearest = nearestName(word, names);
  const guess = nearest === null ? '.' : `; did you mean ${printableLine(nearest)}?`;
  return (
    `There is no tier, no script, no handler and no waiting job ${quoted}${guess} ` +
    `\`runner list\` shows them all; use ${WHOLE_QUEUE}/${shown} for jobs that do not exist yet.`
  );
}

/** What can be paused: all that is in `jobs/`, and jobs that wait though their handlers are elsewhere. */
export async function readPausables(root: string): Promise<Pausables> {
  const { tiers, unread, handlers } = (await lookIntoJobs(root)).discovery;
  const named = [...tiers, ...unread.map(({ tier }) => ({ name: tier, scripts: [] }))];
  const names = handlers.map(({ name }) => name.slice(name.indexOf('/') + 1));
  return { tiers: named, jobNames: [...new Set([...names, ...(await readWaitingNames(root))])] };
}

async function readWaitingNames(root: string): Promise<string[]> {
  const { openExistingStore } = await import('../../store/sqlite/open.ts');
  const { countWaitingNames } = await import('../../report/model/status.ts');
  const { toldPlainly } = await import('../../store/describe-failure.ts');
  const state = stateFolderOf(root);
  const store = await openExistingStore(state);
  if (store === null) return [];
  const read = async () => await countWaitingNames(await store.queries(), 0);
  const counts = await toldPlainly(state, read).finally(() => store.close());
  return counts.map(({ name }) => name);
}
