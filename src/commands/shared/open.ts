import { existsSync } from 'node:fs';
import { UsageError } from '../../base/errors.ts';
import { discover } from '../../discovery/discover.ts';
import type { Discovery } from '../../discovery/script.ts';
import { findRoot } from '../../place/root.ts';
import { createStateFolder, type StateFolder, stateFolderOf } from '../../place/state-folder.ts';
import { type Pause, WHOLE_QUEUE } from '../../queue/pauses.ts';
import type { KnownTier } from '../../report/model/overview.ts';
import { checkStateFolder, checkWritable } from '../../settings/access.ts';
import { loadSettings } from '../../settings/load.ts';
import { defaultSettings } from '../../settings/settings.ts';
import { StoreUnavailable } from '../../store/failures.ts';
import type { Database, Store } from '../../store/store.ts';
import type { CommandContext } from './context.ts';

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
  const { selectPauses } = await import('../../queue/pauses.ts');
  const { store } = await openLogOrTell(context, root);
  if (store === null) return [];
  return await selectPauses(store.db, context.now()).finally(() => store.close());
}

async function openLog(root: string): Promise<Store | null> {
  const state = stateFolderOf(root);
  checkStateFolder(root, state);
  const { openExistingStore } = await import('../../store/sqlite/open.ts');
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
    context.stderr.write(`Note: the activity log could not be read. ${error.message}\n`);
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
    const db = store?.db ?? (await import('../../store/empty.ts')).openEmptyLog();
    const state = stateFolderOf(root);
    const { toldPlainly } = await import('../../store/describe-failure.ts');
    return await toldPlainly(state, () =>
      use({ root, state, db, hasLog: store !== null, problem }),
    );
  } finally {
    await store?.close();
  }
}

/** Loaded only where something may be lost: mostly nothing runs when somebody looks. */
async function reconcileLog(context: CommandContext, root: string, store: Store): Promise<void> {
  const { mayNeedReconciling } = await import('../../recovery/needed.ts');
  const reconciler = { root, state: stateFolderOf(root) };
  if (!(await mayNeedReconciling(reconciler, store.db))) return;
  const { reconcileForReader } = await import('./reconcile.ts');
  await reconcileForReader(context, reconciler, store);
}

export function rootOf(context: CommandContext, option: string | undefined): string {
  return findRoot({ option, variable: context.env.RUNNER_ROOT, cwd: context.cwd });
}

export async function discoverScripts(root: string): Promise<Discovery> {
  const { loadSettings } = await import('../../settings/load.ts');
  const { discover } = await import('../../discovery/discover.ts');
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
    context.stderr.write(`Note: jobs/ could not be read. ${error.message}\n`);
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

/**
 * Opens the log of a root for a command that writes, makes it where there is none, and closes it.
 *
 * @throws {StoreUnavailable} when it cannot be opened, or written
 */
export async function withWritableLog<T>(
  context: CommandContext,
  rootOption: string | undefined,
  use: (db: Database) => Promise<T>,
): Promise<T> {
  const root = rootOf(context, rootOption);
  const { openStore } = await import('../../store/sqlite/open.ts');
  const { toldPlainly } = await import('../../store/describe-failure.ts');
  const state = stateFolderOf(root);
  await checkWritable(root, state, context.env);
  createStateFolder(state);
  const store = await openStore(state);
  if (store.setAside !== null) context.stderr.write(`runner: ${store.setAside}\n`);
  return await toldPlainly(state, () => use(store.db)).finally(() => store.close());
}

/** The same where there is a log; where nothing has ever been recorded none is made, and the answer is null. */
export async function withWritableLogIfAny<T>(
  context: CommandContext,
  rootOption: string | undefined,
  use: (db: Database) => Promise<T>,
): Promise<T | null> {
  const root = rootOf(context, rootOption);
  const state = stateFolderOf(root);
  if (existsSync(state.database)) return await withWritableLog(context, rootOption, use);
  await checkWritable(root, state, context.env);
  return null;
}

/** What is in `jobs/`, and what is wrong with the settings. */
interface JobsFound {
  readonly discovery: Discovery;
  /** Null: nothing; else the defaults were taken in their place. */
  readonly settingsProblem: string | null;
}

/** For what does not run anything: wrong settings don't keep it from finding the scripts. */
export async function lookIntoJobs(root: string): Promise<JobsFound> {
  try {
    return { discovery: await discover(root, await loadSettings(root)), settingsProblem: null };
  } catch (error) {
    if (!(error instanceof UsageError)) throw error;
    const discovery = await discover(root, defaultSettings);
    return { discovery, settingsProblem: error.message };
  }
}
