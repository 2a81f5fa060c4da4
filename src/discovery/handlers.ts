import { type Stats, statSync } from 'node:fs';
import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { type ScriptOptions, withoutParameters } from '../settings/readers.ts';
import type { Settings } from '../settings/settings.ts';
import { errorCode } from '../system/base/errors.ts';
import { compareBytes } from '../system/base/values.ts';
import { mergeOptions } from './build-script.ts';
import { readHandlers } from './folder.ts';
import { createPatternMatcher, enterJobs, type JobsPlace, QUEUE_TIER } from './place.ts';
import type { Script } from './script.ts';

/** The handlers in `jobs/queue/`, as they are now. */
export interface Handlers {
  /** Why there are none, where their folder could not be read at first; null: it could. */
  readonly problem: string | null;
  /**
   * The names of jobs that there are handlers for, refused ones included, sorted by bytes; the same
   * object as long as nothing changes.
   */
  names(): readonly string[];
  /**
   * The handler of jobs of this name, with or without its parameters; null: there is none here. It is
   * the same object as long as the handler is unchanged. A refused one says why.
   */
  find(name: string): Script | null;
  /** What is said of jobs of this name: by their handler, else by the settings alone. */
  optionsOf(name: string): ScriptOptions;
}

/** Folders and files are looked at no more often: a worker asks some times for each job. */
const FOLDERS_LOOK_MS = 500;
const FILE_LOOK_MS = 10;

/** Reads the handlers of a root, and reads them again when a folder or a file has changed. */
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

/** What is read may just be replaced by another version: for a moment nothing is there. */
function orNone(read: () => HandlerIndex): HandlerIndex {
  try {
    return read();
  } catch (error) {
    if (errorCode(error) !== 'ENOENT') throw error;
    return noHandlers;
  }
}

/** True for each thing once in so many milliseconds, the first time when they have passed. */
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

/** The handlers that were found, and by what it can be told that they are still those. */
interface HandlerIndex {
  /** Of jobs, sorted by bytes. */
  readonly names: readonly string[];
  /** Why their folder cannot be read. */
  readonly problem: string | null;
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
  const scripts = new Map(found.scripts.map((script) => [jobNameOf(script), script]));
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

/** Whether the same handlers would be found, be it with another content. */
export function isCurrent({ isSettled, folders, marks }: HandlerIndex): boolean {
  return isSettled && folders.every((folder) => marks.get(folder) === markOf(folder));
}

/** The new one, with the very objects of the old one for what is the same. */
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

/** `mail/welcome` of the script `queue/mail/welcome`. */
function jobNameOf({ name }: Script): string {
  return name.slice(QUEUE_TIER.length + 1);
}

/** What has changed only just may change again without another time stamp. */
const SETTLED_MS = 2_000;

/** Differs from the one before if a file or folder was changed or replaced, or its mode or owner was. */
export function markOf(path: string): string {
  const stats = statOf(path);
  if (stats === null) return '';
  const { dev, ino, size, mtimeMs, ctimeMs } = stats;
  return [dev, ino, size, mtimeMs, ctimeMs].join(' ');
}

/** Only then does its mark tell of every change since. */
export function isSettled(path: string): boolean {
  const stats = statOf(path);
  return stats === null || Date.now() - stats.ctimeMs > SETTLED_MS;
}

/** Null for what is not there, or cannot be looked at. */
function statOf(path: string): Stats | null {
  try {
    return statSync(path);
  } catch {
    return null;
  }
}
