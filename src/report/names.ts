import { handlerNames } from '../discovery/discover.ts';
import { noSuchName, noSuchScript, quoteName, scriptNameOf, severalNames } from '../discovery/find-script.ts';
import { withoutParameters } from '../discovery/script.ts';
import type { LogView, Site } from '../discovery/site.ts';
import { readPatterns } from '../queue/add/values.ts';
import { EVERYTHING, pauseNameOf, WHOLE_QUEUE } from '../queue/pauses.ts';
import { incidentsOf } from '../store/statements/monitor/incidents.ts';
import { NoSuchName, UsageError } from '../system/base/errors.ts';
import { EXEC, isExecLabel, isExecName } from '../system/base/exec-name.ts';
import { matchGlob } from '../system/base/glob.ts';
import { printableLine } from '../system/base/text.ts';
import { tierOf } from './model/runs/run.ts';
import { type RunWithOutput, selectHighestRunId, selectRun, selectScriptNames } from './model/runs/runs.ts';
import { countWaitingNames } from './model/status.ts';

/** The names that a word can mean here: those in `jobs/`, and those that only the log knows. */
type SiteOfNames = Pick<Site, 'root' | 'view' | 'known'>;

/** The folder to which a file's name may be relative, and the folder in which it must be. */
interface Wanted {
  /** Default: the root. */
  readonly cwd?: string;
  /** Only scripts of this tier. */
  readonly tier?: string | undefined;
}

/**
 * The script that a word means, in `jobs/`, disabled or not, or in the log: `hourly/clean-tmp`, or only `clean-tmp` if
 * no other tier has one of that name, or its file; of `mail/welcome?user=7` the handler.
 *
 * @throws {NoSuchName} with the nearest name
 */
export async function findScript(site: SiteOfNames, word: string, { cwd, tier }: Wanted = {}): Promise<string> {
  const names = await readScriptNames(site);
  const inTier = names.filter((name) => tier === undefined || tierOf(name) === tier);
  return chooseScript(scriptNameOf(word, { root: site.root, cwd: cwd ?? site.root }), inTier);
}

/** The scripts that a pattern fits, with or without their tier: `hourly/*`, `mail/*`; or the one that a word means. */
export async function findScripts(site: SiteOfNames, word: string): Promise<readonly string[]> {
  if (!isPattern(word)) return [await findScript(site, word)];
  const names = await readScriptNames(site);
  return names.filter((name) => matchGlob(word, name) || matchGlob(word, withoutTier(name)));
}

/** The names of all scripts and handlers in `jobs/` or in the log. */
export async function readScriptNames({ view, known }: Pick<Site, 'view' | 'known'>): Promise<string[]> {
  const logged = await selectScriptNames((await view()).db);
  const inJobs = ((await known()) ?? []).flatMap(({ scripts, disabled = [] }) => [...scripts, ...disabled]);
  return [...new Set([...inJobs, ...logged])];
}

function chooseScript(word: string, scripts: readonly string[]): string {
  if (scripts.includes(word)) return word;
  const matches = scripts.filter((script) => withoutTier(script) === word);
  const [only, ...others] = matches;
  if (others.length > 0) throw severalNames(word, matches);
  if (only !== undefined) return only;
  const handler = withoutParameters(word);
  if (handler !== word) return chooseScript(handler, scripts);
  const tier = scripts.some((script) => script.startsWith(`${word}/`));
  if (!tier) throw noSuchScript(word, scripts, ' in jobs/ or in the log');
  const command = `npx folder-runner report --tier ${printableLine(word)}`;
  throw new NoSuchName(`${quoteName(word)} is a tier, not a script: \`${command}\` shows it.`);
}

/** `clean-tmp` of `hourly/clean-tmp`. */
function withoutTier(script: string): string {
  return script.slice(script.indexOf('/') + 1);
}

/** A tier, `queue`, or a script: whatever has metrics. */
export async function findSubject(site: SiteOfNames, word: string, wanted: Wanted): Promise<string> {
  const tiers = ((await site.known()) ?? []).map(({ tier }) => tier);
  const isTier = [...tiers, WHOLE_QUEUE, ...(await readScriptNames(site)).map(tierOf)].includes(word);
  return isTier ? word : await findScript(site, word, wanted);
}

export function noSuchTier(word: string, tiers: readonly string[]): NoSuchName {
  const hint = '`npx folder-runner list` shows all tiers.';
  return noSuchName(word, { what: 'tier', where: ' in jobs/ or in the log', names: tiers, hint });
}

/** @throws {NoSuchName} with the number of the newest run */
export async function findRun(view: LogView, id: number): Promise<RunWithOutput> {
  const run = await selectRun(view, id);
  if (run !== null) return run;
  const newest = await selectHighestRunId(view.db);
  const hint = newest === null ? 'nothing has run yet' : `the newest is ${newest}`;
  throw new NoSuchName(
    `There is no run ${id} in the log: ${hint}; \`npx folder-runner report <script>\` lists a script's runs.`,
  );
}

/**
 * The names in the log of what is to be paused: a tier, `hourly`; a script, `hourly/clean-tmp`, or only `clean-tmp` if
 * nothing else has that name; `queue`; jobs of a name or of a pattern, `mail/*`.
 *
 * @throws {NoSuchName} with the nearest name
 */
export async function findPausables(site: Site, words: readonly string[], { cwd }: Wanted = {}): Promise<string[]> {
  const { tiers, unread, handlers } = (await site.jobs()).discovery;
  const waiting = await countWaitingNames((await site.view()).db, 0);
  const logged = await selectScriptNames((await site.view()).db);
  const pausables: Pausables = {
    tiers: [EXEC, ...[...tiers, ...unread].map((each) => ('name' in each ? each.name : each.tier))],
    scripts: [...tiers.flatMap(({ scripts }) => scripts.map(({ name }) => name)), ...logged.filter(isExecName)],
    jobNames: [...new Set([...handlerNames({ handlers }), ...waiting.map(({ name }) => name)])],
  };
  const from = { root: site.root, cwd: cwd ?? site.root };
  return [...new Set(words.map((word) => choosePausable(scriptNameOf(word, from), pausables)))];
}

/** Finds the pauses to resume, whether their names are in `jobs/` or not. */
export async function findPaused(site: Site, words: readonly string[], wanted: Wanted = {}): Promise<string[]> {
  const names = (await site.pauses()).map(({ name }) => name);
  const from = { root: site.root, cwd: wanted.cwd ?? site.root };
  const found: string[] = [];
  for (const word of words) {
    const meant = scriptNameOf(word, from);
    const ways = [...(meant === EVERYTHING ? [] : [meant]), pauseNameOf(meant)];
    const name = ways.find((each) => names.includes(each));
    found.push(...(name === undefined ? await findPausables(site, [meant]) : [name]));
  }
  return [...new Set(found)];
}

interface Pausables {
  readonly tiers: readonly string[];
  readonly scripts: readonly string[];
  /** Names of handlers, and of waiting jobs. */
  readonly jobNames: readonly string[];
}

function choosePausable(word: string, { tiers, scripts, jobNames }: Pausables): string {
  if ([...tiers, ...scripts, WHOLE_QUEUE].includes(word)) return word;
  // It may be paused before its first call.
  if (isExecName(word) && isExecLabel(word.slice(EXEC.length + 1))) return word;
  if (word.startsWith(`${WHOLE_QUEUE}/`)) return nameOfJobs(word.slice(WHOLE_QUEUE.length + 1));
  if (isPattern(word)) return nameOfPattern(word, tiers);
  const short = scripts.filter((script) => script.endsWith(`/${word}`));
  const meant = [...short, ...(jobNames.includes(word) ? [pauseNameOf(word)] : [])];
  const [only, ...others] = meant;
  if (others.length > 0) throw severalNames(word, meant);
  if (only !== undefined) return only;
  throw noSuchName(word, {
    what: 'tier, no script, no handler and no waiting job',
    names: [...tiers, ...scripts, ...jobNames],
    hint: `\`npx folder-runner list\` shows them all; use ${WHOLE_QUEUE}/${printableLine(word)} for jobs that do not exist yet.`,
  });
}

export function isPattern(word: string): boolean {
  return /[*?[]/.test(word);
}

/** @throws {QueueError} if no name could ever fit: that would be a pause of nothing */
function nameOfJobs(pattern: string): string {
  readPatterns(pattern);
  return pauseNameOf(pattern);
}

/** A user who writes `hourly/*` mostly means the tier's scripts. */
function nameOfPattern(word: string, tiers: readonly string[]): string {
  const tier = tiers.find((name) => word.startsWith(`${name}/`));
  if (tier === undefined) return nameOfJobs(word);
  const shown = printableLine(word);
  throw new UsageError(
    `Patterns are for queue jobs: \`npx folder-runner pause ${printableLine(tier)}\` pauses that tier, ` +
      `\`npx folder-runner pause '${WHOLE_QUEUE}/${shown}'\` pauses jobs with names like ${shown}.`,
  );
}

/** Subjects of incidents that are neither scripts nor tiers. */
const OTHER_SUBJECTS = [WHOLE_QUEUE, 'log', 'disk', 'alerts'];

/**
 * A name that no subject of incidents has is a slip. A pattern may be meant for what is to come.
 *
 * @throws {NoSuchName} with the nearest name
 */
export async function refuseUnknownMutes({ store, known, view }: Site, mutes: readonly string[]): Promise<void> {
  const names = mutes.filter((name) => !isPattern(name));
  const tiers = await known();
  if (names.length === 0 || tiers === undefined) return;
  const open = store === null ? [] : await incidentsOf(store.statements).current();
  const scripts = tiers.flatMap((tier) => [...tier.scripts, ...(tier.disabled ?? [])]);
  const logged = store === null ? [] : await selectScriptNames((await view()).db);
  const subjects = [
    ...tiers.map(({ tier }) => tier),
    ...[EXEC, ...logged.filter(isExecName)],
    ...scripts,
    ...scripts.filter((name) => tierOf(name) === WHOLE_QUEUE).map(withoutTier),
    ...open.map(({ subject }) => subject),
  ];
  // A mute of `mail` is one of `mail/welcome`, too.
  const isSubject = (name: string): boolean =>
    [...subjects, ...OTHER_SUBJECTS].includes(name) || subjects.some((each) => each.startsWith(`${name}/`));
  const unknown = names.find((name) => !isSubject(name));
  if (unknown === undefined) return;
  const hint = '`npx folder-runner list` shows all scripts.';
  throw noSuchName(unknown, { what: 'script, handler or tier', names: subjects, hint });
}
