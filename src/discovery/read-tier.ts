import { type Dirent, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { compareBytes } from './byte-order.ts';
import { reasonToIgnore } from './ignored-names.ts';
import { enterFolder, type TierPlace } from './jobs-place.ts';
import { describeUnread } from './read-failure.ts';
import {
  explainFailure,
  type Found,
  isScript,
  readScript,
  reasonAgainstEntry,
  withoutExtension,
} from './read-script.ts';
import { isExecutableFile } from './read-script-file.ts';
import { refuseRivals } from './refuse-rivals.ts';
import type { Ignored, Script, Unread } from './script.ts';

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

function readEntry(place: TierPlace, folder: string, entry: Dirent): readonly Found[] {
  const path = join(folder, entry.name);
  const reason = reasonAgainstEntry(entry);
  if (reason !== null) return [{ path, reason }];
  const found = entry.isDirectory()
    ? 'folder'
    : readScript(place, path, withoutExtension(entry.name));
  return found === 'folder' ? readScriptFolder(place, path, entry.name) : [found];
}

/** The `index.*` of a folder, else the executable that is called as the folder is. */
function readScriptFolder(tier: TierPlace, folder: string, label: string): readonly Found[] {
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
