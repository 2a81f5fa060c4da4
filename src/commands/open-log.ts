import { checkStateFolder } from '../config/check-place.ts';
import { findRoot } from '../config/root.ts';
import { type StateFolder, stateFolderOf } from '../config/state-folder.ts';
import { UsageError } from '../config/usage-error.ts';
import type { Discovery } from '../discovery/script.ts';
import { WHOLE_QUEUE } from '../queue/pause-names.ts';
import type { Pause } from '../queue/pauses.ts';
import type { KnownTier } from '../report/overview.ts';
import type { Database, Store } from '../store/open-store.ts';
import { StoreUnavailable } from '../store/store-unavailable.ts';
import type { CommandContext } from './command-context.ts';

/** What a command reads from. */
export interface OpenLog {
  readonly root: string;
  readonly state: StateFolder;
  /** Without rows where there is no log: reading does not make one. */
  readonly db: Database;
  readonly hasLog: boolean;
  /** Why there is a log that cannot be read; null: it can, or there is none. */
  readonly problem: string | null;
}

/**
 * Opens the log for reading, lets what died be recorded and the log be used, and closes it whatever
 * happens.
 *
 * @throws {StoreUnavailable} when there is a log that cannot be read
 */
export async function withLog<T>(
  context: CommandContext,
  rootOption: string | undefined,
  use: (log: OpenLog) => Promise<T>,
): Promise<T> {
  const root = rootOf(context, rootOption);
  return await useStore(context, root, { store: await openLog(root), problem: null }, use);
}

/** The same, for what has something to say without a log, too: then a note tells why there is none. */
export async function withLogIfAny<T>(
  context: CommandContext,
  rootOption: string | undefined,
  use: (log: OpenLog) => Promise<T>,
): Promise<T> {
  const root = rootOf(context, rootOption);
  return await useStore(context, root, await openLogOrTell(context, root), use);
}

/** The pauses in force; none, and a note, where the log cannot be read. */
export async function readPauses(context: CommandContext, root: string): Promise<Pause[]> {
  const { selectPauses } = await import('../queue/pauses.ts');
  const { store } = await openLogOrTell(context, root);
  if (store === null) return [];
  return await selectPauses(store.db, context.now()).finally(() => store.close());
}

async function openLog(root: string): Promise<Store | null> {
  const state = stateFolderOf(root);
  checkStateFolder(root, state);
  const { openExistingStore } = await import('../store/open-store.ts');
  return await openExistingStore(state);
}

interface OpenedLog {
  readonly store: Store | null;
  readonly problem: string | null;
}

async function openLogOrTell(context: CommandContext, root: string): Promise<OpenedLog> {
  try {
    return { store: await openLog(root), problem: null };
  } catch (error) {
    if (!(error instanceof StoreUnavailable)) throw error;
    context.stderr.write(`Note: the activity log was not read. ${error.message}\n`);
    return { store: null, problem: error.message };
  }
}

async function useStore<T>(
  context: CommandContext,
  root: string,
  { store, problem }: OpenedLog,
  use: (log: OpenLog) => Promise<T>,
): Promise<T> {
  try {
    if (store !== null) await reconcileLog(context, root, store);
    const db = store?.db ?? (await import('../report/empty-log.ts')).openEmptyLog();
    const state = stateFolderOf(root);
    const { toldPlainly } = await import('../store/describe-store-failure.ts');
    return await toldPlainly(state, () =>
      use({ root, state, db, hasLog: store !== null, problem }),
    );
  } finally {
    await store?.close();
  }
}

/** Loaded only where something may be lost: mostly nothing runs when somebody looks. */
async function reconcileLog(context: CommandContext, root: string, store: Store): Promise<void> {
  const { mayNeedReconciling } = await import('../worker/may-need-reconciling.ts');
  const reconciler = { root, state: stateFolderOf(root) };
  if (!(await mayNeedReconciling(reconciler, store.db))) return;
  const { reconcileForReader } = await import('./reconcile-for-reader.ts');
  await reconcileForReader(context, reconciler, store);
}

export function rootOf(context: CommandContext, option: string | undefined): string {
  return findRoot({ option, variable: context.env.RUNNER_ROOT, cwd: context.cwd });
}

export async function discoverScripts(root: string): Promise<Discovery> {
  const { loadSettings } = await import('../config/load-settings.ts');
  const { discover } = await import('../discovery/discover.ts');
  return await discover(root, await loadSettings(root));
}

/**
 * The scripts of `jobs/` by name; undefined, and a note, where they cannot be read: wrong settings
 * must not keep anybody from reading the log.
 */
export async function findKnownTiers(
  context: CommandContext,
  root: string,
): Promise<KnownTier[] | undefined> {
  try {
    const discovery = await discoverScripts(root);
    for (const { reason } of discovery.unread) context.stderr.write(`Note: ${reason}\n`);
    return toKnownTiers(discovery);
  } catch (error) {
    if (!(error instanceof UsageError)) throw error;
    context.stderr.write(`Note: jobs/ was not looked at. ${error.message}\n`);
    return undefined;
  }
}

/** The queue stands beside the tiers where there are handlers: their runs are reported as scripts' are. */
function toKnownTiers({ tiers, unread, handlers }: Discovery): KnownTier[] {
  const queue = { name: WHOLE_QUEUE, scripts: handlers };
  const read = [...tiers, ...(handlers.length > 0 ? [queue] : [])];
  return [
    ...read.map(({ name, scripts }) => ({
      tier: name,
      scripts: scripts.map((script) => script.name),
    })),
    ...unread.map(({ tier }) => ({ tier, scripts: [], isUnread: true })),
  ];
}
