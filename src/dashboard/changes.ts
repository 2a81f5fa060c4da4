import { type Stats, statSync } from 'node:fs';
import { type OpenQueueOptions, openSharedQueue, type SharedQueue } from '../queue/queue.ts';
import { settingsFilesOf } from '../settings/load.ts';
import { logIdentity } from '../store/shared/which-log.ts';
import { commandClock } from '../system/base/clock.ts';
import { parseExactly } from '../system/base/exact-json.ts';
import { stateFolderOf } from '../system/place/state-folder.ts';
import { keepOpen } from './keep-open.ts';

/** What changes the log, for all callers over one connection. */
export interface Changes {
  /** Lets the queue, and whatever else is in the log, be changed in the name of who asks. */
  use<T>(work: (shared: SharedQueue) => Promise<T>): Promise<T>;
  /** The log is closed only once this is over. */
  hold(work: Promise<unknown>): void;
  /** Tells whoever waits for a job to wait no longer. */
  readonly closing: AbortSignal;
  close(): Promise<void>;
}

/**
 * Opens the log when something is first changed, which makes it where there is none; and anew once another file is
 * in its place, or the settings have changed.
 */
export function openChanges({ root, env, now }: Required<Omit<OpenQueueOptions, 'cwd'>>): Changes {
  const state = stateFolderOf(root, env);
  const closing = new AbortController();
  const held = new Set<Promise<unknown>>();
  const queue = keepOpen({
    identity: () => [logIdentity(state), ...settingsFilesOf(root).map(stampOf)].join(),
    open: () => openSharedQueue({ root, env, now }, parseExactly, commandClock),
    close: (shared) => shared.close(),
  });
  const hold = (work: Promise<unknown>): void => {
    const settled: Promise<unknown> = work.catch(() => {}).finally(() => held.delete(settled));
    held.add(settled);
  };
  return {
    hold,
    closing: closing.signal,
    use: (work) => {
      const used = queue.use(work);
      hold(used);
      return used;
    },
    close: async () => {
      closing.abort();
      while (held.size > 0) await Promise.all(held);
      await queue.close();
    },
  };
}

function stampOf(path: string): string {
  const found: Stats | undefined = statSync(path, { throwIfNoEntry: false });
  return found === undefined ? '' : `${path} ${found.mtimeMs} ${found.size}`;
}
