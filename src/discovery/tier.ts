import { type Dirent, readdirSync } from 'node:fs';
import { extname, join, relative } from 'node:path';
import { compareBytes, printableName } from '../base/values.ts';
import { buildScript, fileName, isNotUtf8, refuseScript } from './build-script.ts';
import {
  describeReadFailure,
  describeUnread,
  enterFolder,
  reasonToIgnore,
  type TierPlace,
} from './place.ts';
import type { Ignored, Script, Unread } from './script.ts';
import { isExecutableFile, readScriptFile } from './script-file.ts';

interface TierContent {
  readonly scripts: readonly Script[];
  readonly ignored: readonly Ignored[];
}

export const plainFolder = 'a folder without an index file or an executable of its own name';

/** Reads one tier's folder: one `readdir`, and one `read` for each script. */
export function readTier(place: TierPlace, folder: string): TierContent | Unread {
  const entries = tryEntries(place, folder);
  if ('reason' in entries) return entries;
  const found = entries.flatMap((entry) => readEntry(place, folder, entry));
  return {
    scripts: refuseRivals(place.root, found.filter(isScript)),
    ignored: found.filter((one): one is Ignored => !isScript(one)),
  };
}

/** What is in the folder of a tier or of the handlers. */
export function tryEntries({ tier }: TierPlace, folder: string): readonly Dirent[] | Unread {
  try {
    return sortedEntries(folder);
  } catch (error) {
    return describeUnread(folder, tier, error);
  }
}

export function sortedEntries(folder: string): readonly Dirent[] {
  const entries = readdirSync(folder, { withFileTypes: true });
  return entries.toSorted((one, other) => compareBytes(one.name, other.name));
}

function readEntry(place: TierPlace, folder: string, entry: Dirent): readonly FoundScript[] {
  const path = join(folder, entry.name);
  const reason = reasonAgainstEntry(entry);
  if (reason !== null) return [{ path, reason }];
  const found = entry.isDirectory()
    ? 'folder'
    : readScript(place, path, withoutExtension(entry.name));
  return found === 'folder' ? readScriptFolder(place, path, entry.name) : [found];
}

/** The `index.*` of a folder, else the executable that is called as the folder is. */
function readScriptFolder(tier: TierPlace, folder: string, label: string): readonly FoundScript[] {
  try {
    const place = enterFolder(tier, folder);
    const names = readdirSync(folder).filter((name) => reasonToIgnore(name) === null);
    const scripts = readIndexes(place, folder, label, names);
    if (scripts.length > 0) return scripts;
    const own = readScripts(place, folder, label, executablesCalled(label, folder, names));
    return own.length > 0 ? own : [{ path: folder, reason: plainFolder }];
  } catch (error) {
    return [explainFailure(tier, folder, label, error)];
  }
}

/** The scripts by which a folder of these files is one script: more than one are rivals. */
export function readIndexes(
  place: TierPlace,
  folder: string,
  label: string,
  names: readonly string[],
): readonly Script[] {
  const indexes = names.filter((name) => withoutExtension(name) === 'index');
  return readScripts(place, folder, label, indexes);
}

function readScripts(
  place: TierPlace,
  folder: string,
  label: string,
  names: readonly string[],
): readonly Script[] {
  return names
    .toSorted(compareBytes)
    .map((name) => readScript(place, join(folder, name), label))
    .filter((found) => found !== 'folder')
    .filter(isScript);
}

function executablesCalled(
  label: string,
  folder: string,
  names: readonly string[],
): readonly string[] {
  return names.filter((name) => {
    const isCalledSo = name === label || withoutExtension(name) === label;
    return isCalledSo && isExecutableFile(join(folder, name));
  });
}

/** What a file turns out to be. */
export type FoundScript = Script | Ignored;

const special = 'not a file: a pipe, a socket or a device';

export function isScript(found: FoundScript): found is Script {
  return 'launch' in found;
}

/** Why an entry of a folder is no script, as far as can be said without opening it. */
export function reasonAgainstEntry(entry: Dirent): string | null {
  return reasonToIgnore(entry.name) ?? reasonAgainstKind(entry);
}

/** A device is not even opened: that alone rewinds a tape. */
function reasonAgainstKind(entry: Dirent): string | null {
  return entry.isFile() || entry.isDirectory() || entry.isSymbolicLink() ? null : special;
}

export function withoutExtension(name: string): string {
  return name.slice(0, name.length - extname(name).length);
}

/** Reads what may be a script, or says that it is a folder, behind a link perhaps. */
export function readScript(place: TierPlace, path: string, label: string): FoundScript | 'folder' {
  try {
    const content = readScriptFile(path);
    if (content === 'folder') return content;
    if (content === 'special') return { path, reason: special };
    return buildScript(place, path, label, content);
  } catch (error) {
    return explainFailure(place, path, label, error);
  }
}

export function explainFailure(
  place: TierPlace,
  path: string,
  label: string,
  error: unknown,
): FoundScript {
  const file = fileName(place, path);
  const failure = describeReadFailure(path, file, error);
  const isGone = failure === null && !isNotUtf8(path);
  if (isGone) return { path, reason: 'it vanished while the folder was read' };
  return refuseScript(place, path, label, failure);
}

/** Two files with one script name: which one is meant is not for the runner to guess, so none runs. */
export function refuseRivals(root: string, scripts: readonly Script[]): readonly Script[] {
  return scripts.map((script) => {
    const rivals = scripts.filter((other) => other !== script && other.name === script.name);
    if (rivals.length === 0) return script;
    return { ...script, refusals: [...script.refusals, describeRivals(root, script, rivals)] };
  });
}

function describeRivals(root: string, script: Script, rivals: readonly Script[]): string {
  const [file, ...others] = [script, ...rivals].map(({ path }) =>
    printableName(relative(root, path)),
  );
  return `${file}: its script name ${script.name} is also that of ${others.join(' and ')}; rename one of them`;
}
