import { basename, dirname, extname, join, resolve, sep } from 'node:path';
import { UsageError } from '../../base/errors.ts';
import { nearestName } from '../../base/suggest.ts';
import { printableLine } from '../../base/text.ts';
import { QUEUE_TIER } from '../../discovery/place.ts';
import type { Discovery, Ignored, Script } from '../../discovery/script.ts';

/** What somebody meant who asked about a script, by its name or by its file. */
export type Target =
  | { readonly kind: 'script'; readonly script: Script }
  /** Only the log knows it. */
  | { readonly kind: 'gone'; readonly name: string }
  | { readonly kind: 'ignored'; readonly ignored: Ignored }
  | { readonly kind: 'unknown'; readonly nearest: string | null };

interface TargetQuery {
  readonly word: string;
  readonly cwd: string;
  readonly root: string;
  readonly discovery: Discovery;
  /** Every script that ever ran. */
  readonly logged: readonly string[];
}

/** @throws {UsageError} when it names nothing, a tier or a folder above, a handler, or several scripts */
export function findTarget(query: TargetQuery): Target {
  const { word, discovery, logged } = query;
  const scripts = discovery.tiers.flatMap((tier) => tier.scripts);
  if (word.trim() === '') {
    throw new UsageError('`runner why` expects the name of a script, or a file in jobs/.');
  }
  const tiers = [
    ...discovery.tiers.map(({ name }) => name),
    ...discovery.unread.map(({ tier }) => tier),
  ];
  const found = tiers.includes(word) ? null : findScript(query, scripts);
  if (found !== null) return { kind: 'script', script: found };
  const folder = describeFolder({ ...query, paths: pathsOf(query), tiers });
  if (folder !== null) throw new UsageError(`${quote(word)} ${folder}`);
  assertNoHandler(query);
  const ignored = findIgnored(query);
  if (ignored !== null) return { kind: 'ignored', ignored };
  const gone = onlyOne(
    word,
    logged.filter((name) => name === word || endsWith(name, word)),
  );
  if (gone !== null) return { kind: 'gone', name: gone };
  return { kind: 'unknown', nearest: nearestOf(word, scripts) };
}

function findScript(query: TargetQuery, scripts: readonly Script[]): Script | null {
  const { word } = query;
  const paths = pathsOf(query);
  const isPath = ({ path }: Script): boolean => paths.includes(path) || isIndexOf(path, paths);
  const isCalled = ({ name, path }: Script): boolean =>
    endsWith(name, word) || basename(path) === word;
  const exact = scripts.find(({ name }) => name === word) ?? scripts.find(isPath);
  const name =
    exact?.name ??
    onlyOne(
      word,
      scripts.filter(isCalled).map((each) => each.name),
    );
  return scripts.find((script) => script.name === name) ?? null;
}

/** Where a file of that name might be meant to be: here, in the root, in `jobs/`. */
function pathsOf({ word, cwd, root }: TargetQuery): readonly string[] {
  return [cwd, root, join(root, 'jobs')].map((folder) => resolve(folder, word));
}

/** A folder that is a script by the `index.*` in it. */
function isIndexOf(path: string, folders: readonly string[]): boolean {
  return folders.includes(dirname(path)) && basename(path, extname(path)) === 'index';
}

/** By its path or its name; by the name that it would have as a script; or as part of an ignored folder. */
function findIgnored(query: TargetQuery): Ignored | null {
  const { word, discovery } = query;
  const paths = pathsOf(query);
  const ways: readonly ((path: string) => boolean)[] = [
    (path) => paths.includes(path),
    (path) => namesOf(path).some((name) => paths.includes(join(dirname(path), name))),
    (path) => namesOf(path).includes(word),
    (path) => paths.some((each) => each.startsWith(path + sep)),
  ];
  for (const isMeant of ways) {
    const found = discovery.ignored.find(({ path }) => isMeant(path));
    if (found !== undefined) return found;
  }
  return null;
}

/** By what a file may be meant: `_x.sh.disabled` also by `_x`, `x.sh.disabled`, `x.sh` and `x`. */
function namesOf(path: string): readonly string[] {
  const name = basename(path);
  return [name, name.replace(/^[._]+|~$/g, '')].flatMap(withShorter);
}

/** A name, and what is left of it without its extensions. */
function withShorter(name: string): readonly string[] {
  const extension = extname(name);
  return extension === '' ? [name] : [name, ...withShorter(basename(name, extension))];
}

function endsWith(name: string, label: string): boolean {
  return name.endsWith(`/${label}`);
}

function onlyOne(word: string, names: readonly string[]): string | null {
  const [first, ...others] = new Set(names);
  if (others.length === 0) return first ?? null;
  throw new UsageError(
    `${quote(word)} is the name of ${others.length + 1} scripts: ` +
      `${[...new Set(names)].map(printableLine).join(', ')}. Name one of them with its tier.`,
  );
}

function nearestOf(word: string, scripts: readonly Script[]): string | null {
  const names = scripts.map(({ name }) => name);
  const labels = new Map(names.map((name) => [name.slice(name.indexOf('/') + 1), name]));
  const label = nearestName(word, labels.keys());
  return nearestName(word, names) ?? (label === null ? null : (labels.get(label) as string));
}

/** A handler is run for jobs: whether and when is to be asked of one of these. */
function assertNoHandler(query: TargetQuery): void {
  const handler = findScript(query, query.discovery.handlers);
  if (handler === null) return;
  const name = printableLine(handler.name.slice(handler.name.indexOf('/') + 1));
  const refusals = handler.refusals.map((refusal) => ` It is refused: ${printableLine(refusal)}.`);
  throw new UsageError(
    `${quote(query.word)} is the handler of jobs called ${name}: \`runner jobs ${name}\` lists them, ` +
      `\`runner status\` shows the state of the queue.${refusals.join('')}`,
  );
}

function quote(word: string): string {
  return JSON.stringify(printableLine(word));
}

interface FolderQuery {
  readonly root: string;
  readonly word: string;
  /** What the word may stand for. */
  readonly paths: readonly string[];
  readonly tiers: readonly string[];
}

/** What to ask instead, where `jobs/` or one of its folders is meant; null: none of them is. */
function describeFolder({ root, word, paths, tiers }: FolderQuery): string | null {
  const isMeant = (name: string): boolean =>
    name === word || paths.includes(join(root, 'jobs', name));
  const tier = tiers.find(isMeant);
  if (tier !== undefined) return describeTier(tier);
  if (isMeant(QUEUE_TIER)) return QUEUE;
  return isMeant('') ? 'contains the tiers: `runner list` shows them.' : null;
}

function describeTier(tier: string): string {
  return (
    'is a tier: `runner status` shows its state. To ask about a script, name it: ' +
    `${printableLine(tier)}/<script>.`
  );
}

const QUEUE =
  'contains the handlers of queued jobs: `runner jobs` lists these jobs, `runner status` shows the ' +
  'queue stands.';
