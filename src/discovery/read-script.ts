import type { Dirent } from 'node:fs';
import { extname } from 'node:path';
import { buildScript, fileName, isNotUtf8, refuse } from './build-script.ts';
import { reasonToIgnore } from './ignored-names.ts';
import type { TierPlace } from './jobs-place.ts';
import { describeReadFailure } from './read-failure.ts';
import { readScriptFile } from './read-script-file.ts';
import type { Ignored, Script } from './script.ts';

/** What a file turns out to be. */
export type Found = Script | Ignored;

const special = 'not a file: a pipe, a socket or a device';

export function isScript(found: Found): found is Script {
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
export function readScript(place: TierPlace, path: string, label: string): Found | 'folder' {
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
): Found {
  const file = fileName(place, path);
  const failure = describeReadFailure(path, file, error);
  const isGone = failure === null && !isNotUtf8(path);
  if (isGone) return { path, reason: 'it vanished while the folder was read' };
  return refuse(place, path, label, failure);
}
