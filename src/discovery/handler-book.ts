import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { compareBytes } from './byte-order.ts';
import { isSettled, markOf } from './file-mark.ts';
import { type JobsPlace, QUEUE_TIER } from './jobs-place.ts';
import { readHandlers } from './read-handlers.ts';
import type { Script, Unread } from './script.ts';

/** The handlers that were found, and by what it can be told that they are still those. */
export interface HandlerBook {
  /** Of jobs, sorted by bytes. */
  readonly names: readonly string[];
  /** Their folder, where it cannot be read. */
  readonly unread: readonly Unread[];
  /** By the names of their jobs. */
  readonly scripts: ReadonlyMap<string, Script>;
  /** What decides which handlers there are, and whether they are trusted. */
  readonly folders: readonly string[];
  /** Of all folders and of the handlers' files. */
  readonly marks: ReadonlyMap<string, string>;
  /** False: something was changed so shortly before that it must be read again. */
  readonly isSettled: boolean;
}

/** To be read again before long. */
export const noHandlers: HandlerBook = {
  names: [],
  unread: [],
  scripts: new Map(),
  folders: [],
  marks: new Map(),
  isSettled: false,
};

export function readHandlerBook(place: JobsPlace): HandlerBook {
  const jobs = join(place.root, 'jobs');
  const found = readHandlers(place);
  const folders = [...new Set([place.root, jobs, join(jobs, QUEUE_TIER), ...found.folders])];
  const scripts = new Map(found.scripts.map((script) => [jobNameOf(script), script]));
  const paths = [...folders, ...found.scripts.map(({ path }) => path)];
  return {
    names: [...scripts.keys()].toSorted(compareBytes),
    unread: found.unread,
    scripts,
    folders,
    marks: new Map(paths.map((path) => [path, markOf(path)])),
    isSettled: paths.every(isSettled),
  };
}

/** Whether the same handlers would be found, be it with another content. */
export function isCurrent({ isSettled, folders, marks }: HandlerBook): boolean {
  return isSettled && folders.every((folder) => marks.get(folder) === markOf(folder));
}

/** The new one, with the very objects of the old one for what is the same. */
export function keepUnchanged(old: HandlerBook, book: HandlerBook): HandlerBook {
  const keep = (name: string, script: Script): Script => {
    const before = old.scripts.get(name);
    return isDeepStrictEqual(before, script) ? (before as Script) : script;
  };
  return {
    ...book,
    names: isDeepStrictEqual(old.names, book.names) ? old.names : book.names,
    scripts: new Map([...book.scripts].map(([name, script]) => [name, keep(name, script)])),
  };
}

/** `mail/welcome` of the script `queue/mail/welcome`. */
function jobNameOf({ name }: Script): string {
  return name.slice(QUEUE_TIER.length + 1);
}
