import { type Dirent, readdirSync, realpathSync, statSync } from 'node:fs';
import { dirname, extname, join, relative } from 'node:path';
import { defaultSettings } from '../settings/settings.ts';
import { matchAny } from '../system/base/glob.ts';
import { compareBytes, printableName } from '../system/base/values.ts';
import { machineName } from '../system/process/identity.ts';
import { buildScript, isNotUtf8, refuseScript, scriptName } from './build-script.ts';
import {
  describeReadFailure,
  enterFolder,
  enterJobs,
  fileName,
  type JobsPlace,
  QUEUE_TIER,
  reasonToIgnore,
  type TierPlace,
  tierNames,
} from './jobs-folder.ts';
import { findDisabled } from './not-run.ts';
import { type Ignored, type KnownTier, LONGEST_NAME, type Script, type Unread } from './script.ts';
import { isExecutableFile, isScriptExtension, readScriptFile } from './script-file.ts';

/** The contents of a tier's folder, or of the handlers' folder. */
export interface FolderContent {
  readonly scripts: readonly Script[];
  /** Scripts that name other machines to run on. */
  readonly elsewhere: readonly Script[];
  readonly ignored: readonly Ignored[];
  /** The folder itself, if it cannot be read. */
  readonly unread: readonly Unread[];
  /** All folders that were read, as absolute paths. */
  readonly folders: readonly string[];
}

/** The result of reading a file or a folder. */
type Found = Script | Ignored;

export const PLAIN_FOLDER = 'a folder without an index.* file';

/** Names of folders with code for scripts: their `index.*` is meant to be imported. */
const codeFolders =
  /^(?:lib|libs|library|src|inc|include|includes|shared|util|utils|utilities|helper|helpers|common|vendor|modules|types|test|tests|__tests__|fixtures|mocks|__mocks__)$/i;

function describeCodeFolder(name: string): string {
  return `a folder of code that scripts share, by its name; if it is a script, give it another name than ${name}`;
}

const special = 'not a file: a pipe, a socket or a device';

/** Reads `jobs/queue/` with all its folders; it may be missing. */
export function readHandlers(jobs: JobsPlace): FolderContent {
  const folder = join(jobs.root, 'jobs', QUEUE_TIER);
  const isThere = statSync(folder, { throwIfNoEntry: false }) !== undefined;
  return isThere ? readTier({ ...jobs, tier: QUEUE_TIER }, folder) : nothing;
}

const nothing: FolderContent = { scripts: [], elsewhere: [], ignored: [], unread: [], folders: [] };

/** Reads one tier's folder: one `readdir`, and one `read` per script. */
export function readTier(outside: TierPlace, folder: string): FolderContent {
  const place = enterFolder(outside, folder);
  const entries = tryEntries(place, folder);
  if ('reason' in entries) return { ...nothing, unread: [entries] };
  const folders: string[] = [];
  const above = place.tier === QUEUE_TIER ? listAncestors(folder) : [];
  const found = readEntries({ place, prefix: '', above, folders, walk: { left: MOST_ENTRIES } }, folder, entries);
  const scripts = found.filter(isScript);
  return {
    scripts: rejectDuplicates(place.root, scripts.filter(isForHere)),
    elsewhere: scripts.filter((script) => !isForHere(script)),
    ignored: found.filter((one): one is Ignored => !isScript(one)),
    unread: [],
    folders,
  };
}

/** The contents of `jobs/`, from names only. */
interface DiscoveredNames {
  /** Names of scripts by tier; handlers, if there are any, count as a tier `queue`. */
  readonly tiers: readonly { readonly tier: string; readonly scripts: readonly string[] }[];
  readonly unread: readonly Unread[];
}

/** For readers of the log: it opens hardly any file and reads no settings. */
export function discoverNames(root: string): DiscoveredNames {
  const place = enterJobs(root, { ...defaultSettings, allowUnsafe: true }, () => false);
  const folders = tierNames(root).map((tier) => {
    const names = readScriptNames({ ...place, tier }, join(root, 'jobs', tier));
    return 'reason' in names ? names : { tier, scripts: names };
  });
  const queue = readHandlers(place);
  const handlers = { tier: QUEUE_TIER, scripts: queue.scripts.map(({ name }) => name) };
  return {
    tiers: [...folders.filter((folder) => 'scripts' in folder), ...(handlers.scripts.length > 0 ? [handlers] : [])],
    unread: [...folders.filter((folder) => 'reason' in folder), ...queue.unread],
  };
}

/**
 * The tiers with the names of their scripts and handlers, disabled ones too.
 *
 * @param note gets the reason why a folder cannot be read
 * @throws {UsageError} if `jobs/` itself cannot be read
 */
export function readKnownTiers(root: string, note: (problem: string) => void): readonly KnownTier[] {
  const { tiers, unread } = discoverNames(root);
  const disabled = Map.groupBy(findDisabled(root), ({ tier }) => tier);
  for (const { reason } of unread) note(reason);
  const scripts = new Map(tiers.map((tier) => [tier.tier, tier.scripts]));
  return [
    ...[...new Set([...scripts.keys(), ...disabled.keys()])].map((tier) => ({
      tier,
      scripts: scripts.get(tier) ?? [],
      disabled: (disabled.get(tier) ?? []).map(({ name }) => name),
    })),
    ...unread.map(({ tier }) => ({ tier, scripts: [], isUnread: true })),
  ];
}

/** The names of a tier's scripts; it does not even open files with a script's extension. */
function readScriptNames(place: TierPlace, folder: string): readonly string[] | Unread {
  const entries = tryEntries(place, folder);
  if ('reason' in entries) return entries;
  const within = { place, prefix: '', above: [], folders: [], walk: { left: MOST_ENTRIES } };
  const names = entries.flatMap((entry) =>
    isPlainlyScript(entry)
      ? scriptName(place, withoutExtension(entry.name))
      : readEntry(within, folder, entry).flatMap((found) => (isScript(found) ? found.name : [])),
  );
  return [...new Set(names)];
}

function isPlainlyScript(entry: Dirent): boolean {
  const isWanted = entry.isFile() && reasonToIgnore(entry.name) === null;
  return isWanted && isScriptExtension(extname(entry.name));
}

function tryEntries({ tier }: TierPlace, folder: string): readonly Dirent[] | Unread {
  try {
    return sortedEntries(folder);
  } catch (error) {
    const name = `jobs/${tier}`;
    return { tier, reason: describeReadFailure(folder, name, error) ?? `${name}: it vanished` };
  }
}

function sortedEntries(folder: string): readonly Dirent[] {
  const entries = readdirSync(folder, { withFileTypes: true });
  return entries.toSorted((one, other) => compareBytes(one.name, other.name));
}

function isScript(found: Found): found is Script {
  return 'launch' in found;
}

function isForHere({ options: { host } }: Script): boolean {
  return host === undefined || matchAny(host, machineName());
}

/** The place of a folder in the tree. */
interface Within {
  readonly place: TierPlace;
  /** The beginning of the names of its scripts: `mail/`. */
  readonly prefix: string;
  /** The folders above it, by device and inode: a link may lead back to one. */
  readonly above: readonly string[];
  readonly folders: string[];
  /** How many more entries of folders may be read. */
  readonly walk: { left: number };
}

/** Most entries in the folders of `jobs/queue` together: a link may lead to a disk full of files. */
const MOST_ENTRIES = 5_000;

/** The folder and all folders above it, by device and inode. */
function listAncestors(folder: string): string[] {
  const path = realpathSync(folder);
  const parent = dirname(path);
  return [identify(path), ...(parent === path ? [] : listAncestors(parent))];
}

function identify(folder: string): string {
  const { dev, ino } = statSync(folder);
  return `${dev}:${ino}`;
}

function readEntries(within: Within, folder: string, entries: readonly Dirent[]): readonly Found[] {
  within.folders.push(folder);
  return entries.flatMap((entry) => readEntry(within, folder, entry));
}

function readEntry(within: Within, folder: string, entry: Dirent): readonly Found[] {
  const path = join(folder, entry.name);
  const label = within.prefix + withoutExtension(entry.name);
  const reason = reasonAgainst(entry) ?? reasonAgainstLength(label);
  if (reason !== null) return [{ path, reason }];
  const found = entry.isDirectory() ? 'folder' : readScript(within.place, path, label);
  const isCode = found === 'folder' && within.place.tier !== QUEUE_TIER && codeFolders.test(entry.name);
  if (isCode) return [{ path, reason: describeCodeFolder(entry.name) }];
  return found === 'folder' ? readSubfolder(within, path, within.prefix + entry.name) : [found];
}

/** Why an entry of a folder is no script, without opening it: opening alone can rewind a tape. */
function reasonAgainst(entry: Dirent): string | null {
  const mayBeScript = entry.isFile() || entry.isDirectory() || entry.isSymbolicLink();
  return reasonToIgnore(entry.name) ?? (mayBeScript ? null : special);
}

function reasonAgainstLength(label: string): string | null {
  return label.length > LONGEST_NAME ? `a job's name has at most ${LONGEST_NAME} characters` : null;
}

function withoutExtension(name: string): string {
  return name.slice(0, name.length - extname(name).length);
}

/** Reads a possible script, or says that it is a folder, perhaps behind a link. */
function readScript(place: TierPlace, path: string, label: string): Found | 'folder' {
  try {
    const content = readScriptFile(path);
    if (content === 'folder') return content;
    if (content === 'special') return { path, reason: special };
    return buildScript(place, path, label, content);
  } catch (error) {
    return explainFailure(place, path, label, error);
  }
}

function explainFailure(place: TierPlace, path: string, label: string, error: unknown): Found {
  const failure = describeReadFailure(path, fileName(place, path), error);
  const isGone = failure === null && !isNotUtf8(path);
  if (isGone) return { path, reason: 'it vanished while the folder was read' };
  return refuseScript(place, path, label, failure);
}

/**
 * A folder with an `index.*` is one script, whatever else it contains. Otherwise each file in it is a handler; in a
 * tier, only the executable with the folder's name is a script.
 */
function readSubfolder(parent: Within, folder: string, label: string): readonly Found[] {
  try {
    const place = enterFolder(parent.place, folder);
    const entries = sortedEntries(folder);
    const names = entries.filter((entry) => reasonAgainst(entry) === null).map(({ name }) => name);
    const readNamed = (isWanted: (name: string) => boolean): readonly Script[] =>
      names
        .filter(isWanted)
        .map((name) => readScript(place, join(folder, name), label))
        .filter((found) => found !== 'folder')
        .filter(isScript);
    const indexes = readNamed((name) => withoutExtension(name) === 'index');
    if (place.tier === QUEUE_TIER && indexes.length === 0) {
      return descend({ ...parent, place, prefix: `${label}/` }, folder, entries);
    }
    parent.folders.push(folder);
    if (indexes.length > 0) return indexes;
    const own = readNamed((name) => isCalled(label, name) && isExecutableFile(join(folder, name)));
    return own.length > 0 ? own : [{ path: folder, reason: PLAIN_FOLDER, isPlainFolder: true }];
  } catch (error) {
    return [explainFailure(parent.place, folder, label, error)];
  }
}

function isCalled(label: string, name: string): boolean {
  return name === label || withoutExtension(name) === label;
}

function descend(within: Within, folder: string, entries: readonly Dirent[]): readonly Found[] {
  const self = identify(folder);
  if (within.above.includes(self)) {
    return [{ path: folder, reason: 'a link that leads back to a folder above it' }];
  }
  within.walk.left -= entries.length;
  if (within.walk.left < 0) {
    return [
      { path: folder, reason: `with it the folders in jobs/queue have more than ${MOST_ENTRIES} entries in all` },
    ];
  }
  return readEntries({ ...within, above: [...within.above, self] }, folder, entries);
}

/** Two files have one script name. The runner must not guess which one is meant, so none runs. */
function rejectDuplicates(root: string, scripts: readonly Script[]): readonly Script[] {
  const byName = Map.groupBy(scripts, ({ name }) => name);
  return scripts.map((script) => {
    const others = byName.get(script.name)?.filter((other) => other !== script) ?? [];
    if (others.length === 0) return script;
    return { ...script, refusals: [...script.refusals, describeDuplicates(root, script, others)] };
  });
}

function describeDuplicates(root: string, script: Script, duplicates: readonly Script[]): string {
  const [file, ...others] = [script, ...duplicates].map(({ path }) => printableName(relative(root, path)));
  return `${file}: it has the same script name (${script.name}) as ${others.join(' and ')}; rename one of them`;
}
