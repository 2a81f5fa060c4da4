import { join } from 'node:path';
import { tierPeriodMs } from '../schedule/period.ts';
import { loadSettings } from '../settings/load.ts';
import { defaultSettings, type Runner, type Settings } from '../settings/settings.ts';
import { UsageError } from '../system/base/errors.ts';
import { EXEC, isExecName } from '../system/base/exec-name.ts';
import { nearestName } from '../system/base/suggest.ts';
import { compareBytes } from '../system/base/values.ts';
import type { FolderContent } from './folder.ts';
import {
  createPatternMatcher,
  enterJobs,
  type JobsPlace,
  matchableNames,
  namesNoScript,
  QUEUE_TIER,
  readJobsFolder,
  tierFolder,
} from './jobs-folder.ts';
import type { DisabledScript } from './not-run.ts';
import { type Discovery, type Ignored, linkKinds, type Script, shortNameOf, type Tier } from './script.ts';

interface DiscoverOptions {
  /** Reads only this tier's folder, as a pass needs it. */
  readonly tier?: string;
}

/**
 * Finds the scripts of all tiers and the handlers, or the scripts of one tier; also the entries under `jobs/` that are
 * no scripts, with the reasons.
 *
 * @throws {UsageError} if there is no tier of that name
 */
export async function discover(root: string, settings: Settings, { tier }: DiscoverOptions = {}): Promise<Discovery> {
  const matches = await createPatternMatcher(Object.keys(settings.scripts));
  const place = enterJobs(root, settings, matches);
  const found = tier === undefined ? await discoverAll(place) : await discoverTier(place, tier);
  return await withLinks(place, await withTimes(place, found), tier === undefined);
}

/** Loads the code that reads links, and looks into all tiers, only if a script waits for another one. */
async function withLinks(place: JobsPlace, found: Discovery, isAll: boolean): Promise<Discovery> {
  const isLinked = ({ options }: Script): boolean => linkKinds.some((kind) => options[kind] !== undefined);
  if (!found.tiers.some(({ scripts }) => scripts.some(isLinked))) return found;
  const { linkScripts } = await import('./links.ts');
  return await linkScripts(place, found, isAll ? found : await discoverAll(place));
}

/** Finds the tier with its scripts. An unknown name is wrong use; the error suggests the nearest one. */
export async function findTier(runner: Pick<Runner, 'root' | 'settings'>, name: string): Promise<Tier> {
  const { tiers, unread } = await discover(runner.root, runner.settings, { tier: name });
  for (const { reason } of unread) throw new UsageError(reason);
  return tiers[0] as Tier;
}

/** Loads the code that reads times only if a script has some. */
async function withTimes(place: JobsPlace, found: Discovery): Promise<Discovery> {
  const hasTimes = ({ options: { schedule, between, except } }: Script): boolean =>
    (schedule ?? between ?? except) !== undefined;
  if (!found.tiers.some(({ scripts }) => scripts.some(hasTimes))) return found;
  const { checkTimes } = await import('./check-times.ts');
  const check = (script: Script): Script => (hasTimes(script) ? checkTimes(script, place) : script);
  return { ...found, tiers: found.tiers.map((tier) => ({ ...tier, scripts: tier.scripts.map(check) })) };
}

async function discoverAll(place: JobsPlace): Promise<Discovery> {
  const { readHandlers } = await import('./folder.ts');
  const listed = readJobsFolder(place.root);
  const found = await Promise.all(listed.tiers.map((tier) => discoverTier(place, tier)));
  const tiers = found.flatMap((one) => one.tiers).toSorted(byPeriod);
  const queue = readHandlers(place);
  const ignored = [...listed.ignored, ...found.flatMap((one) => one.ignored), ...queue.ignored];
  return {
    tiers,
    unread: [...found.flatMap((one) => one.unread), ...queue.unread],
    handlers: queue.scripts,
    ignored: await listPlainFolders(ignored),
    elsewhere: [...found.flatMap((one) => one.elsewhere), ...queue.elsewhere],
    warnings: warnOfUnusedSettings(place, tiers, [...queue.scripts, ...queue.elsewhere]),
  };
}

/** The most frequent tiers first; tiers that only run by hand last. */
function byPeriod(one: Tier, other: Tier): number {
  const longest = Number.MAX_SAFE_INTEGER;
  return (one.periodMs ?? longest) - (other.periodMs ?? longest);
}

async function discoverTier(place: JobsPlace, tier: string): Promise<Discovery> {
  const folder = tierFolder(place.root, tier);
  const { scripts, elsewhere, ignored, unread } = await readTierIn(place, tier, folder);
  const found = { name: tier, periodMs: tierPeriodMs(tier), scripts, ...(elsewhere.length > 0 && { elsewhere }) };
  return { tiers: unread.length > 0 ? [] : [found], unread, handlers: [], ignored, elsewhere, warnings: [] };
}

/** An empty tier is read every few minutes, without loading the code that reads scripts. */
async function readTierIn(place: JobsPlace, tier: string, folder: string): Promise<Omit<FolderContent, 'folders'>> {
  const ignored = namesNoScript(folder);
  if (ignored !== null) return { scripts: [], elsewhere: [], ignored, unread: [] };
  const { readTier } = await import('./folder.ts');
  return readTier({ ...place, tier }, folder);
}

/** More would hide the rest of the list. */
const MOST_FILES_LISTED = 20;

/** A folder that is no script may contain files that were meant to be: names them, up to a number. */
async function listPlainFolders(ignored: readonly Ignored[]): Promise<readonly Ignored[]> {
  if (!ignored.some(({ isPlainFolder }) => isPlainFolder)) return ignored;
  // Loaded only on demand: a pass does without the glob library.
  const [{ globSync }, { PLAIN_FOLDER }] = await Promise.all([import('glob'), import('./folder.ts')]);
  return ignored.flatMap((one) => {
    if (!one.isPlainFolder) return [one];
    const within = { cwd: one.path, nodir: true, dot: true, ignore: '**/node_modules/**' };
    const files = globSync('**/*', within).toSorted(compareBytes);
    if (files.length > MOST_FILES_LISTED) {
      return [{ ...one, reason: `${PLAIN_FOLDER}; it contains ${files.length} files` }];
    }
    const reason = `it is in ${PLAIN_FOLDER}`;
    return [one, ...files.map((file) => ({ path: join(one.path, file), reason }))];
  });
}

/** Keys of the settings that match no tier or script: they may be misspelled. */
function warnOfUnusedSettings(
  place: JobsPlace,
  tiers: readonly Tier[],
  handlers: readonly Script[],
): readonly string[] {
  const { settings } = place;
  const names = [...tiers.map(({ name }) => name), ...(handlers.length > 0 ? [QUEUE_TIER] : [])];
  const scripts = [...tiers.flatMap((tier) => [...tier.scripts, ...(tier.elsewhere ?? [])]), ...handlers];
  const scriptNames = scripts.map(({ name }) => name);
  return [
    ...Object.keys(settings.tiers)
      .filter((tier) => !names.includes(tier) && tier !== EXEC)
      .map((tier) => describeUnused('tiers', tier, 'tier', names)),
    ...Object.keys(settings.scripts)
      // Only the crontab says which commands there are.
      .filter((pattern) => !isExecName(pattern) && !scripts.some((script) => fits(place, pattern, script)))
      .map((pattern) => describeUnused('scripts', pattern, 'script', scriptNames)),
  ];
}

function fits({ root, matches }: JobsPlace, pattern: string, { name, path }: Script): boolean {
  return matchableNames(root, name, path).some((each) => matches(pattern, each));
}

function describeUnused(setting: string, key: string, kind: string, names: readonly string[]): string {
  const nearest = nearestName(key, names);
  const guess = nearest === null ? '' : `; did you mean ${nearest}?`;
  return `${setting}[${JSON.stringify(key)}] in the settings matches no ${kind} and has no effect${guess}`;
}

/** The contents of `jobs/`, and the fault of the settings. */
export interface JobsContents {
  readonly discovery: Discovery;
  readonly disabled: readonly DisabledScript[];
  readonly settings: Settings;
  /** Null: the settings are correct; otherwise the defaults were used. */
  readonly settingsProblem: string | null;
}

/** For commands that run nothing: wrong settings do not prevent finding the scripts. */
export async function lookIntoJobs(root: string): Promise<JobsContents> {
  const { findDisabled } = await import('./not-run.ts');
  const disabled = findDisabled(root);
  try {
    const settings = await loadSettings(root);
    return { discovery: await discover(root, settings), disabled, settings, settingsProblem: null };
  } catch (error) {
    if (!(error instanceof UsageError)) throw error;
    const discovery = await discover(root, defaultSettings);
    return { discovery, disabled, settings: defaultSettings, settingsProblem: error.message };
  }
}

/** The names of jobs that have a handler in `jobs/queue/` here, sorted by bytes. */
export function handlerNames({ handlers }: Pick<Discovery, 'handlers'>): readonly string[] {
  return [...new Set(handlers.map(shortNameOf))].toSorted(compareBytes);
}
