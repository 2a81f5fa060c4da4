import { join } from 'node:path';
import { errorCode } from '../config/error-code.ts';
import { withoutParameters } from '../config/job-name.ts';
import type { Settings } from '../config/settings.ts';
import { markOf } from './file-mark.ts';
import {
  type HandlerBook,
  isCurrent,
  keepUnchanged,
  noHandlers,
  readHandlerBook,
} from './handler-book.ts';
import { enterFolder, enterRoot } from './jobs-place.ts';
import { createPatternMatcher } from './match-patterns.ts';
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
}

/** Folders and files are looked at no more often: a worker asks some times for each job. */
const FOLDERS_LOOK_MS = 500;
const FILE_LOOK_MS = 10;

/** Reads the handlers of a root, and reads them again when a folder or a file has changed. */
export async function openHandlers(root: string, settings: Settings): Promise<Handlers> {
  const matches = await createPatternMatcher(Object.keys(settings.scripts));
  const read = () =>
    orNone(() =>
      readHandlerBook(enterFolder({ ...enterRoot(root, settings), matches }, join(root, 'jobs'))),
    );
  let book = read();
  const isFoldersTurn = createTurns(FOLDERS_LOOK_MS);
  const isFileTurn = createTurns(FILE_LOOK_MS);
  const readAgain = () => {
    book = keepUnchanged(book, read());
  };
  const look = (): HandlerBook => {
    if (isFoldersTurn('') && !isCurrent(book)) readAgain();
    return book;
  };
  const lookAt = ({ path }: Script): void => {
    if (isFileTurn(path) && book.marks.get(path) !== markOf(path)) readAgain();
  };
  return {
    problem: book.unread[0]?.reason ?? null,
    names: () => look().names,
    find: (name) => {
      const script = findIn(look(), name);
      if (script === null) return null;
      lookAt(script);
      return findIn(book, name);
    },
  };
}

function findIn({ scripts }: HandlerBook, name: string): Script | null {
  return scripts.get(name) ?? scripts.get(withoutParameters(name)) ?? null;
}

/** What is read may just be replaced by another version: for a moment nothing is there. */
function orNone(read: () => HandlerBook): HandlerBook {
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
