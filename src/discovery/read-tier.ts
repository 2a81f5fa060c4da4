import { type Dirent, readdirSync } from 'node:fs';
import { extname, join } from 'node:path';
import { buildScript, fileName, isNotUtf8, refuse } from './build-script.ts';
import { compareBytes } from './byte-order.ts';
import { reasonToIgnore } from './ignored-names.ts';
import { enterFolder, type TierPlace } from './jobs-place.ts';
import { describeReadFailure } from './read-failure.ts';
import { isExecutableFile, readScriptFile } from './read-script-file.ts';
import { refuseRivals } from './refuse-rivals.ts';
import type { Ignored, Script } from './script.ts';

export interface TierContent {
  readonly scripts: readonly Script[];
  readonly ignored: readonly Ignored[];
}

type Found = Script | Ignored;

export const plainFolder = 'a folder without an index file or an executable of its own name';
const special = 'not a file: a pipe, a socket or a device';

/** Reads one tier's folder: one `readdir`, and one `read` for each script. */
export function readTier(place: TierPlace, folder: string): TierContent {
  const entries = readdirSync(folder, { withFileTypes: true });
  const found = entries
    .toSorted((one, other) => compareBytes(one.name, other.name))
    .flatMap((entry) => readEntry(place, folder, entry));
  return {
    scripts: refuseRivals(place.root, found.filter(isScript)),
    ignored: found.filter((one): one is Ignored => !isScript(one)),
  };
}

function isScript(found: Found): found is Script {
  return 'launch' in found;
}

function readEntry(place: TierPlace, folder: string, entry: Dirent): readonly Found[] {
  const path = join(folder, entry.name);
  const reason = reasonToIgnore(entry.name) ?? reasonAgainstKind(entry);
  if (reason !== null) return [{ path, reason }];
  const found = entry.isDirectory()
    ? 'folder'
    : readFile(place, path, withoutExtension(entry.name));
  return found === 'folder' ? readScriptFolder(place, path, entry.name) : [found];
}

/** A device is not even opened: that alone rewinds a tape. */
function reasonAgainstKind(entry: Dirent): string | null {
  return entry.isFile() || entry.isDirectory() || entry.isSymbolicLink() ? null : special;
}

function withoutExtension(name: string): string {
  return name.slice(0, name.length - extname(name).length);
}

function readFile(place: TierPlace, path: string, label: string): Found | 'folder' {
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
  const file = fileName(place, path);
  const failure = describeReadFailure(path, file, error);
  const isGone = failure === null && !isNotUtf8(path);
  if (isGone) return { path, reason: 'it vanished while the folder was read' };
  return refuse(place, path, label, failure);
}

/** The `index.*` of a folder, else the executable that is called as the folder is. */
function readScriptFolder(tier: TierPlace, folder: string, label: string): readonly Found[] {
  try {
    const place = enterFolder(tier, folder);
    const names = readdirSync(folder).filter((name) => reasonToIgnore(name) === null);
    const indexes = names.filter((name) => withoutExtension(name) === 'index');
    const scripts = readScripts(place, folder, label, indexes);
    if (scripts.length > 0) return scripts;
    const own = readScripts(place, folder, label, executablesCalled(label, folder, names));
    return own.length > 0 ? own : [{ path: folder, reason: plainFolder }];
  } catch (error) {
    return [explainFailure(tier, folder, label, error)];
  }
}

function readScripts(
  place: TierPlace,
  folder: string,
  label: string,
  names: readonly string[],
): readonly Script[] {
  return names
    .toSorted(compareBytes)
    .map((name) => readFile(place, join(folder, name), label))
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
