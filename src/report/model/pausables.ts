import { handlerNames, lookIntoJobs } from '../../discovery/discover.ts';
import type { Tier } from '../../discovery/script.ts';
import { readPatterns } from '../../queue/add/values.ts';
import { EVERYTHING, pausedPattern, pauseNameOf, WHOLE_QUEUE } from '../../queue/pauses.ts';
import { expectedDuration, parseDurationMs } from '../../settings/readers.ts';
import { toldPlainly } from '../../store/describe-failure.ts';
import { openExistingStore } from '../../store/open.ts';
import type { Pause } from '../../store/statements/pauses.ts';
import { UsageError } from '../../system/base/errors.ts';
import { nearestName } from '../../system/base/suggest.ts';
import { printableLine } from '../../system/base/text.ts';
import { stateFolderOf } from '../../system/place/state-folder.ts';
import { countWaitingNames } from './status.ts';

interface PauseWish {
  /** `2h`; undefined: until it is resumed. */
  readonly for?: string | undefined;
  /** What is due fails instead of waiting; only of jobs of the queue. */
  readonly fail?: boolean | undefined;
}

/**
 * What is to be paused from now on, by its names in the log.
 *
 * @throws {UsageError} if it has no such duration, or cannot fail
 */
export function toPauses(names: readonly string[], wish: PauseWish, at: number): Pause[] {
  const until = readEnd(wish.for, at);
  return names.map((name) => {
    if (wish.fail === true) assertQueued(name);
    return { name, kind: wish.fail === true ? 'fail-fast' : 'pause', until, createdAt: at };
  });
}

/** Scripts have no queue that fills up while they wait. */
function assertQueued(name: string): void {
  if (name !== EVERYTHING && pausedPattern(name) !== null) return;
  throw new UsageError(
    "--fail needs names of jobs of the queue, such as `npx folder-runner pause 'mail/*' --fail`, or " +
      '`npx folder-runner pause queue --fail` for all of them.',
  );
}

function readEnd(text: string | undefined, at: number): number | null {
  if (text === undefined) return null;
  const durationMs = parseDurationMs(text.trim());
  if (durationMs !== null) return at + durationMs;
  throw new UsageError(
    `--for must be ${expectedDuration(text, '30m, 2h or 7d')}, found ${JSON.stringify(text)}; ` +
      'without it the pause lasts until `npx folder-runner resume`.',
  );
}

/**
 * The names in the log of what was meant by these words.
 *
 * @throws {UsageError} that names the nearest one
 */
export async function findPausables(root: string, words: readonly string[]): Promise<readonly string[]> {
  const pausables = await readPausables(root);
  return [...new Set(words.map((word) => findPausable(word, pausables)))];
}

/** Whatever is paused can be resumed, be it in `jobs/` or not. */
export async function findPausedNames(
  root: string,
  words: readonly string[],
  pauses: readonly Pause[],
): Promise<readonly string[]> {
  const names = pauses.map(({ name }) => name);
  const found: string[] = [];
  for (const word of words) {
    const ways = [...(word === EVERYTHING ? [] : [word]), pauseNameOf(word)];
    found.push(ways.find((name) => names.includes(name)) ?? ((await findPausables(root, [word]))[0] as string));
  }
  return [...new Set(found)];
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
    `Patterns are for queue jobs: \`npx folder-runner pause ${printableLine(tier)}\` pauses that tier, ` +
      `\`npx folder-runner pause '${WHOLE_QUEUE}/${shown}'\` pauses jobs with names like ${shown}.`,
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
    `\`npx folder-runner list\` shows them all; use ${WHOLE_QUEUE}/${shown} for jobs that do not exist yet.`
  );
}

/** What can be paused: all that is in `jobs/`, and jobs that wait though their handlers are elsewhere. */
async function readPausables(root: string): Promise<Pausables> {
  const { tiers, unread, handlers } = (await lookIntoJobs(root)).discovery;
  const named = [...tiers, ...unread.map(({ tier }) => ({ name: tier, scripts: [] }))];
  const names = handlerNames({ handlers });
  return { tiers: named, jobNames: [...new Set([...names, ...(await readWaitingNames(root))])] };
}

async function readWaitingNames(root: string): Promise<string[]> {
  const state = stateFolderOf(root);
  const store = await openExistingStore(state);
  if (store === null) return [];
  const read = async () => await countWaitingNames(await store.queries(), 0);
  const counts = await toldPlainly(state, read).finally(() => store.close());
  return counts.map(({ name }) => name);
}
