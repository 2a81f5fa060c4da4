import { type Stats, statSync } from 'node:fs';
import { join } from 'node:path';
import { type OpenQueueOptions, openSharedQueue, type SharedQueue } from '../queue/queue.ts';
import { parseExactly } from '../system/base/exact-json.ts';
import { type StateFolder, stateFolderOf } from '../system/place/state-folder.ts';

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

interface Opened {
  /** Which log it is, and by which settings; null: it is being opened. */
  key: string | null;
  readonly shared: Promise<SharedQueue>;
  users: number;
  isRetired: boolean;
}

/**
 * Opens the log when something is first changed, which makes it where there is none; and anew once another file is
 * in its place, or the settings have changed.
 */
export function openChanges({ root, env, now }: Required<Omit<OpenQueueOptions, 'cwd'>>): Changes {
  const state = stateFolderOf(root);
  const closing = new AbortController();
  const held = new Set<Promise<unknown>>();
  let current: Opened | null = null;
  const retire = (opened: Opened): void => {
    opened.isRetired = true;
    if (opened.users === 0) hold(opened.shared.then((shared) => shared.close()));
  };
  const hold = (work: Promise<unknown>): void => {
    const settled: Promise<unknown> = work.catch(() => {}).finally(() => held.delete(settled));
    held.add(settled);
  };
  const open = (): Opened => {
    const opened: Opened = {
      key: null,
      shared: openSharedQueue({ root, env, now }, parseExactly),
      users: 0,
      isRetired: false,
    };
    opened.shared.then(
      () => {
        opened.key = keyOf(root, state);
      },
      () => {
        if (current === opened) current = null;
      },
    );
    return opened;
  };
  const find = (): Opened => {
    if (current !== null && (current.key === null || current.key === keyOf(root, state))) return current;
    if (current !== null) retire(current);
    current = open();
    return current;
  };
  return {
    hold,
    closing: closing.signal,
    use: (work) => {
      const opened = find();
      opened.users += 1;
      const used = (async () => work(await opened.shared))().finally(() => {
        opened.users -= 1;
        if (opened.isRetired) retire(opened);
      });
      hold(used);
      return used;
    },
    close: async () => {
      closing.abort();
      while (held.size > 0) await Promise.all(held);
      if (current !== null) retire(current);
      current = null;
      await Promise.all(held);
    },
  };
}

function keyOf(root: string, state: StateFolder): string {
  const settings = ['ts', 'js', 'mjs', 'json'].map((kind) => join(root, `runner.config.${kind}`));
  return [state.database, ...settings].map(stampOf).join();
}

/** Of a log only which file it is: it changes all the time. */
function stampOf(path: string, index: number): string {
  const found: Stats | undefined = statSync(path, { throwIfNoEntry: false });
  if (found === undefined) return '';
  return index === 0 ? `${found.dev}:${found.ino}` : `${path} ${found.mtimeMs} ${found.size}`;
}
