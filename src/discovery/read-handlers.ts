import { type Dirent, statSync } from 'node:fs';
import { join } from 'node:path';
import { enterFolder, type JobsPlace, QUEUE_TIER, type TierPlace } from './place.ts';
import type { Ignored, Script, Unread } from './script.ts';
import {
  explainFailure,
  type FoundScript,
  isScript,
  readIndexes,
  readScript,
  reasonAgainstEntry,
  refuseRivals,
  sortedEntries,
  tryEntries,
  withoutExtension,
} from './tier.ts';

export interface HandlersContent {
  readonly scripts: readonly Script[];
  readonly ignored: readonly Ignored[];
  /** Their folder itself, where it cannot be read. */
  readonly unread: readonly Unread[];
  /** Every folder that was read, absolute. */
  readonly folders: readonly string[];
}

/** No job's name is longer. */
const LONGEST_NAME = 255;

/** Reads `jobs/queue/` with all folders in it. */
export function readHandlers(jobs: JobsPlace): HandlersContent {
  const folder = join(jobs.root, 'jobs', QUEUE_TIER);
  const folders: string[] = [];
  const found = readTop({ ...jobs, tier: QUEUE_TIER }, folder, folders);
  if ('reason' in found) return { scripts: [], ignored: [], unread: [found], folders };
  return {
    scripts: refuseRivals(jobs.root, found.filter(isScript)),
    ignored: found.filter((one): one is Ignored => !isScript(one)),
    unread: [],
    folders,
  };
}

/** There need not be one. */
function readTop(
  place: TierPlace,
  folder: string,
  folders: string[],
): readonly FoundScript[] | Unread {
  if (statSync(folder, { throwIfNoEntry: false }) === undefined) return [];
  const within: Within = { place: enterFolder(place, folder), prefix: '', above: [], folders };
  const entries = tryEntries(place, folder);
  return 'reason' in entries ? entries : readFolder(within, folder, entries);
}

/** Where in the tree a folder is. */
interface Within {
  readonly place: TierPlace;
  /** What the names of the handlers in it begin with: `mail/`. */
  readonly prefix: string;
  /** The folders on the way to it, as the file system knows them: a link may lead back to one. */
  readonly above: readonly string[];
  readonly folders: string[];
}

function readFolder(
  within: Within,
  folder: string,
  entries: readonly Dirent[],
): readonly FoundScript[] {
  within.folders.push(folder);
  return entries.flatMap((entry) => readEntry(within, folder, entry));
}

function readEntry(within: Within, folder: string, entry: Dirent): readonly FoundScript[] {
  const path = join(folder, entry.name);
  const reason = reasonAgainstEntry(entry) ?? reasonAgainstLength(within, entry);
  if (reason !== null) return [{ path, reason }];
  const { place, prefix } = within;
  const found = entry.isDirectory()
    ? 'folder'
    : readScript(place, path, prefix + withoutExtension(entry.name));
  return found === 'folder' ? readSubfolder(within, path, prefix + entry.name) : [found];
}

function reasonAgainstLength({ prefix }: Within, { name }: Dirent): string | null {
  const isTooLong = (prefix + withoutExtension(name)).length > LONGEST_NAME;
  return isTooLong ? `a job's name has at most ${LONGEST_NAME} characters` : null;
}

/** One handler if it has an `index.*`, whatever else it holds; else its files are. */
function readSubfolder(parent: Within, folder: string, label: string): readonly FoundScript[] {
  try {
    const place = enterFolder(parent.place, folder);
    const entries = sortedEntries(folder);
    const names = entries.filter((entry) => reasonAgainstEntry(entry) === null);
    const indexes = readIndexes(place, folder, label, names.map(nameOf));
    if (indexes.length > 0) {
      parent.folders.push(folder);
      return indexes;
    }
    return descend({ ...parent, place, prefix: `${label}/` }, folder, entries);
  } catch (error) {
    return [explainFailure(parent.place, folder, label, error)];
  }
}

function nameOf({ name }: Dirent): string {
  return name;
}

function descend(
  within: Within,
  folder: string,
  entries: readonly Dirent[],
): readonly FoundScript[] {
  const { dev, ino } = statSync(folder);
  const self = `${dev}:${ino}`;
  if (within.above.includes(self)) {
    return [{ path: folder, reason: 'a link that leads back to a folder above it' }];
  }
  return readFolder({ ...within, above: [...within.above, self] }, folder, entries);
}
