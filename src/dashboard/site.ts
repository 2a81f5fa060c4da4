import { type Stats, statSync } from 'node:fs';
import { discoverNames } from '../discovery/discover.ts';
import type { KnownTier } from '../report/model/overview.ts';
import type { LogView } from '../report/model/run.ts';
import { checkStateFolder } from '../settings/access.ts';
import type { Pause, Store } from '../store/contract.ts';
import { toldPlainly } from '../store/describe-failure.ts';
import { StoreUnavailable } from '../store/failures.ts';
import { emptyQueries } from '../store/sqlite/dialect.ts';
import { openExistingStore } from '../store/sqlite/open.ts';
import { UsageError } from '../system/base/errors.ts';
import { trustedFallbacksOf } from '../system/place/fallback.ts';
import { type StateFolder, stateFolderOf } from '../system/place/state-folder.ts';

/** The root that is shown, and its log, whatever becomes of the file meanwhile. */
export interface Site {
  readonly root: string;
  readonly state: StateFolder;
  /** Where runs may be recorded: in the root, and where nothing can be written there. */
  readonly states: readonly StateFolder[];
  readonly env: NodeJS.ProcessEnv;
  /** This package's version. */
  readonly version: string;
  /** UTC epoch milliseconds. */
  readonly now: () => number;
  /** Lets the log be read as it is now. Nothing in it is changed by reading. */
  read<T>(use: (log: SiteLog) => Promise<T>): Promise<T>;
  /** The scripts and handlers of `jobs/` by name; undefined: it cannot be read. */
  knownTiers(): Promise<KnownTier[] | undefined>;
  close(): void;
}

/** What an answer is made of. */
export interface SiteLog {
  readonly nowMs: number;
  /** Null: nothing was ever recorded, or what was cannot be read. */
  readonly store: Store | null;
  /** Why there is a log that cannot be read; null: it can, or there is none. */
  readonly problem: string | null;
  /** Those in force. */
  readonly pauses: readonly Pause[];
  /** For reports; without rows where there is no log. */
  readonly view: LogView;
}

type SitePlace = Pick<Site, 'root' | 'env' | 'version' | 'now'>;

export function openSite(place: SitePlace): Site {
  const state = stateFolderOf(place.root);
  const log = keepOpen(place.root, state);
  return {
    ...place,
    state,
    states: [state, ...trustedFallbacksOf(place.root)],
    read: (use) =>
      log.use(({ store, problem }) =>
        toldPlainly(state, async () => {
          const nowMs = place.now();
          const pauses = (await store?.pauses.inForce(nowMs)) ?? [];
          const db = store === null ? emptyQueries() : await store.queries();
          return await use({ nowMs, store, problem, pauses, view: { db, state } });
        }),
      ),
    knownTiers: () => findKnownTiers(place.root),
    close: log.close,
  };
}

async function findKnownTiers(root: string): Promise<KnownTier[] | undefined> {
  try {
    const { tiers, unread } = await discoverNames(root);
    return [...tiers, ...unread.map(({ tier }) => ({ tier, scripts: [], isUnread: true }))];
  } catch (error) {
    if (error instanceof UsageError) return undefined;
    throw error;
  }
}

interface Opened {
  /** Which file it is; null: there is none. */
  readonly file: string | null;
  readonly log: Promise<Pick<SiteLog, 'store' | 'problem'>>;
  users: number;
  isRetired: boolean;
}

/**
 * Keeps the log open between requests, and opens it anew once another file is in its place: a broken log is
 * quarantined, a backup restored.
 */
function keepOpen(root: string, state: StateFolder) {
  let current: Opened | null = null;
  const retire = (opened: Opened): void => {
    opened.isRetired = true;
    if (opened.users === 0) void opened.log.then(({ store }) => store?.close());
  };
  const find = (): Opened => {
    const file = fileOf(state.database);
    if (current !== null && current.file === file && file !== null) return current;
    if (current !== null) retire(current);
    current = { file, log: openLog(root, state), users: 0, isRetired: false };
    return current;
  };
  const use = async <T>(work: (log: Awaited<Opened['log']>) => Promise<T>): Promise<T> => {
    const opened = find();
    opened.users += 1;
    try {
      const log = await opened.log;
      // It may be readable the next time.
      if (log.problem !== null && current === opened) current = null;
      return await work(log);
    } finally {
      opened.users -= 1;
      if (opened.isRetired) retire(opened);
    }
  };
  const close = (): void => {
    if (current !== null) retire(current);
    current = null;
  };
  return { use, close };
}

async function openLog(root: string, state: StateFolder): Promise<Awaited<Opened['log']>> {
  try {
    checkStateFolder(root, state);
    return { store: await openExistingStore(state), problem: null };
  } catch (error) {
    if (!(error instanceof StoreUnavailable || error instanceof UsageError)) throw error;
    return { store: null, problem: error.message };
  }
}

function fileOf(path: string): string | null {
  const found: Stats | undefined = statSync(path, { throwIfNoEntry: false });
  return found === undefined ? null : `${found.dev}:${found.ino}`;
}
