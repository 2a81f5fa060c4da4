import { type FSWatcher, watch } from 'node:fs';
import { basename } from 'node:path';
import type { StateFolder } from '../config/state-folder.ts';

/** What is told of the files of a log. */
export interface FileEvents {
  /** Somebody writes to it: a commit is under way, or done. */
  readonly onWrite: () => void;
  /** The log, or its folder, was moved away or deleted. */
  readonly onMoved: () => void;
  /** Nothing more will be told. */
  readonly onFailure: () => void;
}

/**
 * Watches the files of the log until it is closed; null where that cannot be: the user's watches are
 * used up (ENOSPC, EMFILE), say. All watches of a process share one inotify instance.
 */
export function watchFiles(folder: StateFolder, events: FileEvents): FSWatcher | null {
  const log = basename(folder.database);
  const moved = [log, basename(folder.path)];
  try {
    const watcher = watch(folder.path, (event, name) => {
      if (event === 'rename' && moved.includes(name ?? '')) events.onMoved();
      else if (name === null || name.startsWith(log)) events.onWrite();
    });
    return watcher.on('error', events.onFailure);
  } catch {
    return null;
  }
}
