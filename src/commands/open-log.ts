import { findRoot } from '../config/root.ts';
import { type StateFolder, stateFolderOf } from '../config/state-folder.ts';
import { UsageError } from '../config/usage-error.ts';
import type { Discovery } from '../discovery/script.ts';
import type { KnownTier } from '../report/overview.ts';
import type { Database } from '../store/open-store.ts';
import type { CommandContext } from './command-context.ts';

/** What a command reads from. */
export interface OpenLog {
  readonly root: string;
  readonly state: StateFolder;
  /** Without rows where there is no log: reading does not make one. */
  readonly db: Database;
  readonly hasLog: boolean;
}

/** Opens the log for reading, lets it be used, and closes it whatever happens. */
export async function withLog<T>(
  context: CommandContext,
  rootOption: string | undefined,
  use: (log: OpenLog) => Promise<T>,
): Promise<T> {
  const root = rootOf(context, rootOption);
  const state = stateFolderOf(root);
  const { openExistingStore } = await import('../store/open-store.ts');
  const store = await openExistingStore(state);
  try {
    const db = store?.db ?? (await import('../report/empty-log.ts')).openEmptyLog();
    return await use({ root, state, db, hasLog: store !== null });
  } finally {
    await store?.close();
  }
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
    const { tiers } = await discoverScripts(root);
    return tiers.map(({ name, periodMs, scripts }) => ({
      tier: name,
      periodMs,
      scripts: scripts.map((script) => script.name),
    }));
  } catch (error) {
    if (!(error instanceof UsageError)) throw error;
    context.stderr.write(`Note: jobs/ was not looked at. ${error.message}\n`);
    return undefined;
  }
}
