import { type Stats, statSync } from 'node:fs';
import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import type { ScriptOptions, Settings } from '../settings/settings.ts';
import { errorCode } from '../system/base/errors.ts';
import { compareBytes } from '../system/base/values.ts';
import { mergeOptions } from './build-script.ts';
import { readHandlers } from './folder.ts';
import { createPatternMatcher, enterJobs, type JobsPlace, QUEUE_TIER } from './jobs-folder.ts';
import { type Script, shortNameOf, withoutParameters } from './script.ts';

/** The present handlers in `jobs/queue/`. */
export interface Handlers {
  /** Why there are none, if their folder could not be read at first; null: it could. */
  readonly problem: string | null;
  /**
   * The names of jobs that have a handler, including refused ones, sorted by bytes. It is the same object as long as
   * nothing changes.
   */
  names(): readonly string[];
  /**
   * The handler of jobs of this name, with or without its parameters; null: none here. It is the same object as long as
   * the handler is unchanged. A refused one says why.
   */
  find(name: string): Script | null;
  /** The options of jobs of this name: from their handler, otherwise from the settings alone. */
  optionsOf(name: string): ScriptOptions;
}

/** Shortest time between two looks at folders and files, in milliseconds: a worker asks several times per job. */
const FOLDERS_LOOK_MS = 500;
const FILE_LOOK_MS = 10;

/** Reads the handlers of a root, and reads them again after a folder or a file has changed. */
export async function openHandlers(root: string, settings: Settings): Promise<Handlers> {
  const matches = await createPatternMatcher(Object.keys(settings.scripts));
  const read = () => orNone(() => readHandlerIndex(enterJobs(root, settings, matches)));
  let index = read();
  const isFoldersTurn = createTurns(FOLDERS_LOOK_MS);
  const isFileTurn = createTurns(FILE_LOOK_MS);
  const readAgain = () => {
    index = keepUnchanged(index, read());
  };
  const look = (): HandlerIndex => {
    if (isFoldersTurn('') && !isCurrent(index)) readAgain();
    return index;
  };
  const lookAt = ({ path }: Script): void => {
    if (isFileTurn(path) && index.marks.get(path) !== markOf(path)) readAgain();
  };
  const find = (name: string): Script | null => {
    const script = findIn(look(), name);
    if (script === null) return null;
    lookAt(script);
    return findIn(index, name);
  };
  return {
    problem: index.problem,
    names: () => look().names,
    find,
    optionsOf: (name) => {
      const named = [`${QUEUE_TIER}/${withoutParameters(name)}`];
      return find(name)?.options ?? mergeOptions(settings, QUEUE_TIER, named, {}, matches);
    },
  };
}

function findIn({ scripts }: HandlerIndex, name: string): Script | null {
  return scripts.get(name) ?? scripts.get(withoutParameters(name)) ?? null;
}

/** The files may be replaced at this moment by another version: for an instant nothing is there. */
function orNone(read: () => HandlerIndex): HandlerIndex {
  try {
    return read();
  } catch (error) {
    if (errorCode(error) !== 'ENOENT') throw error;
    return noHandlers;
  }
}

/** True once per `everyMs` milliseconds for each thing; the first time after they have passed. */
function createTurns(everyMs: number): (what: string) => boolean {
  const openedMs = performance.now();
  const lastMs = new Map<string, number>();
  return (what) => {
    const nowMs = performance.now();
    if (nowMs - (lastMs.get(what) ?? openedMs) < everyMs) return false;
    lastMs.set(what, nowMs);
    return true;
  };
}

/** The handlers that were found, and marks that show whether they are unchanged. */
interface HandlerIndex {
  /** Names of jobs, sorted by bytes. */
  readonly names: readonly string[];
  /** Why their folder cannot be read; null: it can. */
  readonly problem: string | null;
  /** The handlers by the names of their jobs. */
  readonly scripts: ReadonlyMap<string, Script>;
  /** The folders that decide which handlers exist, and whether they are trusted. */
  readonly folders: readonly string[];
  /** The marks of all folders and of the handlers' files. */
  readonly marks: ReadonlyMap<string, string>;
  /** False: something changed so recently that it must be read again. */
  readonly isSettled: boolean;
}

/** Must be read again soon. */
const noHandlers: HandlerIndex = {
  names: [],
  problem: null,
  scripts: new Map(),
  folders: [],
  marks: new Map(),
  isSettled: false,
};

export function readHandlerIndex(place: JobsPlace): HandlerIndex {
  const jobs = join(place.root, 'jobs');
  const found = readHandlers(place);
  const folders = [...new Set([place.root, jobs, join(jobs, QUEUE_TIER), ...found.folders])];
  const scripts = new Map(found.scripts.map((script) => [shortNameOf(script), script]));
  const paths = [...folders, ...found.scripts.map(({ path }) => path)];
  return {
    names: [...scripts.keys()].toSorted(compareBytes),
    problem: found.unread[0]?.reason ?? null,
    scripts,
    folders,
    marks: new Map(paths.map((path) => [path, markOf(path)])),
    isSettled: paths.every(isSettled),
  };
}

/** Whether a new search would find the same handlers, perhaps with other contents. */
export function isCurrent({ isSettled, folders, marks }: HandlerIndex): boolean {
  return isSettled && folders.every((folder) => marks.get(folder) === markOf(folder));
}

/** The new index, with the old index's objects for unchanged parts. */
function keepUnchanged(old: HandlerIndex, index: HandlerIndex): HandlerIndex {
  const keep = (name: string, script: Script): Script => {
    const before = old.scripts.get(name);
    return isDeepStrictEqual(before, script) ? (before as Script) : script;
  };
  return {
    ...index,
    names: isDeepStrictEqual(old.names, index.names) ? old.names : index.names,
    scripts: new Map([...index.scripts].map(([name, script]) => [name, keep(name, script)])),
  };
}

/** A recent change may be followed by another one with the same time stamp. */
const SETTLED_MS = 2_000;

/** A text that changes when a file or folder is changed or replaced, or gets another mode or owner. */
export function markOf(path: string): string {
  const stats = statOf(path);
  if (stats === null) return '';
  const { dev, ino, size, mtimeMs, ctimeMs } = stats;
  return [dev, ino, size, mtimeMs, ctimeMs].join(' ');
}

/** Only a settled file's mark shows every later change. */
export function isSettled(path: string): boolean {
  const stats = statOf(path);
  return stats === null || Date.now() - stats.ctimeMs > SETTLED_MS;
}

/** Null if the path is missing or cannot be read. */
function statOf(path: string): Stats | null {
  try {
    return statSync(path);
  } catch {
    return null;
  }
}
