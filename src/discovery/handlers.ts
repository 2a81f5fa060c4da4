import { join } from 'node:path';
import type { Settings } from '../config/settings.ts';
import { markOf } from './file-mark.ts';
import { type HandlerBook, isCurrent, keepUnchanged, readHandlerBook } from './handler-book.ts';
import { enterFolder, enterRoot } from './jobs-place.ts';
import { createPatternMatcher } from './match-patterns.ts';
import type { Script } from './script.ts';

/** The handlers in `jobs/queue/`, as they are now. */
export interface Handlers {
  /**
   * The names of jobs that there are handlers for, refused ones included, sorted by bytes; the same
   * object as long as nothing changes.
   */
  names(): readonly string[];
  /**
   * The handler of jobs of this name; null: there is none here. It is the same object as long as the
   * handler is unchanged. A refused one says why.
   */
  find(name: string): Script | null;
}

/** The folders are looked at no more often: a worker asks before each job. */
const LOOK_MS = 500;

/** Reads the handlers of a root, and reads them again when a folder or a file has changed. */
export async function openHandlers(root: string, settings: Settings): Promise<Handlers> {
  const matches = await createPatternMatcher(Object.keys(settings.scripts));
  const read = () =>
    readHandlerBook(enterFolder({ ...enterRoot(root, settings), matches }, join(root, 'jobs')));
  let book = read();
  let lookedAtMs = performance.now();
  const readAgain = () => {
    book = keepUnchanged(book, read());
  };
  const look = (): HandlerBook => {
    if (performance.now() - lookedAtMs < LOOK_MS) return book;
    if (!isCurrent(book)) readAgain();
    lookedAtMs = performance.now();
    return book;
  };
  return {
    names: () => look().names,
    find: (name) => {
      const script = look().scripts.get(name);
      if (script === undefined) return null;
      if (book.marks.get(script.path) !== markOf(script.path)) readAgain();
      return book.scripts.get(name) ?? null;
    },
  };
}
