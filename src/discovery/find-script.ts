import { basename, dirname, extname, join, relative, resolve, sep } from 'node:path';
import type { Runner } from '../settings/settings.ts';
import { NoSuchName } from '../system/base/errors.ts';
import { isExecName } from '../system/base/exec-name.ts';
import { nearestPath } from '../system/base/suggest.ts';
import { printableLine } from '../system/base/text.ts';
import { isFolder, listNames, printableName, shellWord } from '../system/base/values.ts';
import { cutScriptName } from './build-script.ts';
import { discover, findTier } from './discover.ts';
import { QUEUE_TIER, reasonToIgnore } from './jobs-folder.ts';
import { DISABLED, findDisabled } from './not-run.ts';
import { describeHosts, type Script, type Tier } from './script.ts';

type Place = Pick<Runner, 'root' | 'settings'>;

/** The folders that a file's name may be relative to. */
type PlaceOfCall = Place & { readonly cwd?: string };

interface Found {
  readonly tier: Tier;
  readonly script: Script;
}

/**
 * The script of that name or file, with its tier. The tier's name may be left out if only one tier has such a script.
 */
export async function findScriptToRun(runner: PlaceOfCall, word: string): Promise<Found> {
  const name = scriptNameOf(word, { cwd: runner.root, ...runner });
  const [tierName = '', ...rest] = name.split('/');
  if (rest.length === 0) return await findByShortName(runner, name);
  if (tierName === QUEUE_TIER) throw namesHandler(rest.join('/'));
  if (isExecName(name)) {
    throw new NoSuchName(
      `${name} is a command, which only its crontab line or its caller knows: ` +
        `\`npx folder-runner exec ${shellWord(rest.join('/'))} -- <command>\` runs it.`,
    );
  }
  const tier = await findTier(runner, tierName);
  const script = tier.scripts.find((each) => each.name === name);
  const other = tier.elsewhere?.find((each) => each.name === name);
  if (script === undefined && other !== undefined) {
    throw new NoSuchName(`${name} ${describeHosts(other)}. To run it here, change its tag or setting \`host\`.`);
  }
  if (script === undefined) await refuseDisabled(runner.root, name);
  const names = tier.scripts.map((each) => each.name);
  if (script === undefined) throw noSuchScript(name, names, ` in ${runner.root}/jobs`);
  return { tier, script };
}

/** Finds it by its whole name, or by its name within its tier. */
async function refuseDisabled(root: string, word: string): Promise<void> {
  const found = findDisabled(root).find(({ name, tier }) => name === word || name === `${tier}/${word}`);
  if (found === undefined) return;
  throw new NoSuchName(`${found.name} is disabled: \`npx folder-runner enable ${shellWord(found.name)}\` ends that.`);
}

function namesHandler(word: string): NoSuchName {
  const job = printableName(word);
  return new NoSuchName(
    `Files in jobs/queue are handlers of jobs: \`npx folder-runner add ${job}\` adds a job, \`npx folder-runner work ${job}\` processes it.`,
  );
}

async function findByShortName(runner: Place, word: string): Promise<Found> {
  const { tiers, handlers } = await discover(runner.root, runner.settings);
  const scripts = tiers.flatMap((tier) => tier.scripts.map((script) => ({ tier, script })));
  // Two files of one name in a tier are both refused, and either one says why.
  const matches = new Map(
    scripts.filter(({ tier, script }) => script.name === `${tier.name}/${word}`).map((each) => [each.tier.name, each]),
  );
  const [only, ...others] = matches.values();
  if (others.length > 0) {
    const names = [...matches.values()].map(({ script }) => script.name);
    throw severalNames(word, names);
  }
  if (only !== undefined) return only;
  if (handlers.some(({ name }) => name === `${QUEUE_TIER}/${word}`)) throw namesHandler(word);
  if (tiers.some(({ name }) => name === word)) {
    throw new NoSuchName(`${JSON.stringify(word)} is a tier, not a script: \`npx folder-runner ${word}\` runs it.`);
  }
  await refuseDisabled(runner.root, word);
  const names = scripts.map(({ script }) => script.name);
  throw noSuchScript(word, names, ` in ${runner.root}/jobs`);
}

interface Unknown {
  readonly what: string;
  /** ` in jobs/`; default: nothing. */
  readonly where?: string;
  /** The names that could have been meant. */
  readonly names: readonly string[];
  /** A sentence on where all names are shown. */
  readonly hint: string;
}

/** `There is no tier "houly" in jobs/; did you mean hourly?`, and the hint. */
export function noSuchName(word: string, { what, where = '', names, hint }: Unknown): NoSuchName {
  const nearest = nearestPath(word, names);
  const guess = nearest === null ? '.' : `; did you mean ${printableLine(nearest)}?`;
  return new NoSuchName(`There is no ${what} ${quoteName(word)}${where}${guess} ${hint}`);
}

/** `"mail" is ambiguous (2 matches): hourly/mail, daily/mail. Write one of them in full.` */
export function severalNames(word: string, names: readonly string[]): NoSuchName {
  const all = names.map(printableLine).join(', ');
  return new NoSuchName(
    `${quoteName(word)} is ambiguous (${names.length} matches): ${all}. Write one of them in full.`,
  );
}

export function quoteName(word: string): string {
  return JSON.stringify(printableLine(word));
}

/** @param where the places that were looked at */
export function noSuchScript(word: string, names: readonly string[], where: string): NoSuchName {
  const hint = '`npx folder-runner list` shows all scripts, and which files are ignored, and why.';
  return noSuchName(word, { what: 'script', where, names, hint });
}

interface From {
  readonly root: string;
  readonly cwd: string;
}

/**
 * The name of the script or handler of a file, seen from the current folder, the root or `jobs/`: `hourly/x` for
 * `jobs/hourly/x.sh`, `./x.sh`, or `x.sh` if only one tier has it. Any other word is returned unchanged.
 */
export function scriptNameOf(word: string, { root, cwd }: From): string {
  if (!/[/.]/.test(word)) return word;
  try {
    return cutScriptName(findName(word, { root, cwd }) ?? word);
  } catch {
    // The later look-up of the name reports a folder that cannot be read.
    return word;
  }
}

/** The parts of a script, a handler or a disabled script by which people name it. */
type Named = Pick<Script, 'name' | 'tier' | 'path'>;

/**
 * Those of the scripts that a word means, by the first of these that fits one: their name, their file or folder, the
 * name of such a file, the end of their name.
 */
export function scriptsMeant<Each extends Named>(word: string, from: From, scripts: readonly Each[]): readonly Each[] {
  const { root, cwd } = from;
  const paths = [cwd, root, join(root, 'jobs')]
    .map((folder) => resolve(folder, word))
    .flatMap((path) => [path, path + DISABLED]);
  const meant = scriptNameOf(word, from);
  const filesOf = (script: Named): readonly string[] => [script.path, entryOf(root, script)];
  const ways: readonly ((script: Named) => boolean)[] = [
    ({ name }) => name === word,
    (script) => filesOf(script).some((path) => paths.includes(path)),
    ({ name }) => name === meant,
    (script) => script.name.endsWith(`/${word}`) || filesOf(script).some((path) => basename(path) === word),
  ];
  for (const isMeant of ways) {
    const found = scripts.filter(isMeant);
    if (found.length > 0) return found;
  }
  return [];
}

/** The file or folder of a script directly in its tier: its path has as many parts there as its name. */
export function entryOf(root: string, { name, tier, path }: Named): string {
  const folder = join(root, 'jobs', tier);
  const depth = name.slice(tier.length + 1).split('/').length;
  return join(folder, ...relative(folder, path).split('/').slice(0, depth));
}

/** The scripts and handlers of that name, or in that file; their tier may be left out. */
export function scriptsCalled(word: string, from: From): readonly string[] {
  const jobs = join(from.root, 'jobs');
  try {
    const name = /[/.]/.test(word) ? findName(word, from) : null;
    return name === null ? listNames(jobs).flatMap((tier) => nameOfPath(jobs, join(jobs, tier, word)) ?? []) : [name];
  } catch {
    return [];
  }
}

function findName(word: string, { root, cwd }: From): string | null {
  const jobs = join(root, 'jobs');
  const paths = [cwd, root, jobs].map((folder) => resolve(folder, word));
  const [name] = paths.filter((path) => path.startsWith(jobs + sep)).flatMap((path) => nameOfPath(jobs, path) ?? []);
  return name ?? nameInTiers(jobs, word);
}

/** If several tiers have the file, the name that they share: the later look-up lists them. */
function nameInTiers(jobs: string, file: string): string | null {
  if (file.includes('/')) return null;
  const [name = null, ...others] = listNames(jobs).flatMap((tier) => nameOfPath(jobs, join(jobs, tier, file)) ?? []);
  return others.length === 0 ? name : basename(name as string);
}

/** Null: no script is there. */
function nameOfPath(jobs: string, path: string): string | null {
  const parts = relative(jobs, path).split(sep);
  if (parts.length < 2) return null;
  const [tier = ''] = parts;
  const folder = dirname(path);
  const names = listNames(folder).filter((name) => reasonToIgnore(withoutDisabled(name)) === null);
  const file = basename(path);
  const nameUpTo = (end: number, label = '') => printableName(join(...parts.slice(0, end), label));
  if (isFolder(path))
    return listNames(path).some((name) => isMain(tier, file, name)) ? nameUpTo(-1, withoutDisabled(file)) : null;
  if (!names.includes(file)) return names.some((name) => labelOf(name) === file) ? nameUpTo(-1, file) : null;
  return parts.length > 2 && isMain(tier, basename(folder), file) ? nameUpTo(-1) : nameUpTo(-1, labelOf(file));
}

/** Whether a file makes its folder one script; each other file in a folder of handlers is a separate script. */
function isMain(tier: string, folder: string, file: string): boolean {
  const isCalledAlike = tier !== QUEUE_TIER && [file, labelOf(file)].includes(withoutDisabled(folder));
  return isCalledAlike || labelOf(file) === 'index';
}

function labelOf(file: string): string {
  const name = withoutDisabled(file);
  return name.slice(0, name.length - extname(name).length);
}

function withoutDisabled(name: string): string {
  return name.endsWith(DISABLED) ? name.slice(0, -DISABLED.length) : name;
}
