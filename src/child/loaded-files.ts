import { registerHooks } from 'node:module';
import { fileURLToPath } from 'node:url';
import { type FileState, readFileState } from './file-state.ts';

export interface LoadedFiles {
  /** Notes a file as it is now, before it is read. */
  note(path: string): void;
  /** What was noted since the last call; undefined: nothing. */
  take(): readonly FileState[] | undefined;
}

/**
 * Notes each file that is imported. Of installed packages, which are thousands of files, what `npm`
 * writes at their change stands for them.
 */
export function watchLoadedFiles(): LoadedFiles {
  const known = new Set<string>();
  let fresh: FileState[] = [];
  const note = (path: string): void => {
    if (known.has(path)) return;
    known.add(path);
    fresh.push(readFileState(path));
  };
  registerHooks({
    load: (url, context, nextLoad) => {
      if (url.startsWith('file:')) note(standFor(fileURLToPath(url)));
      return nextLoad(url, context);
    },
  });
  return {
    note,
    take: () => {
      if (fresh.length === 0) return undefined;
      const taken = fresh;
      fresh = [];
      return taken;
    },
  };
}

const PACKAGES = '/node_modules/';

function standFor(path: string): string {
  const index = path.indexOf(PACKAGES);
  return index === -1 ? path : `${path.slice(0, index)}${PACKAGES}.package-lock.json`;
}
