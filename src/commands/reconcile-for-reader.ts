import { sql } from 'kysely';
import { loadSettings } from '../config/load-settings.ts';
import { defaultSettings, type Settings } from '../config/settings.ts';
import { UsageError } from '../config/usage-error.ts';
import { printableLine } from '../report/printable.ts';
import type { Database, Store } from '../store/open-store.ts';
import { isStoreFailure } from '../store/store-failure.ts';
import { type Reconciler, reconcile } from '../worker/reconcile.ts';
import type { CommandContext } from './command-context.ts';

/** Who reads waits no longer than this for somebody who writes. */
const PATIENCE_MS = 1000;

/**
 * Records what died, before somebody reads the log; never ends what lives. A log that cannot be
 * written keeps nobody from reading it: then a note says that it may be behind.
 */
export async function reconcileForReader(
  context: CommandContext,
  place: Pick<Reconciler, 'root' | 'state'>,
  { db, isReadOnly }: Store,
): Promise<void> {
  const note = (text: string) => context.stderr.write(`Note: ${printableLine(text)}\n`);
  if (isReadOnly) return void note(describeUnchecked('the log cannot be written'));
  const reconciler = { ...place, settings: await settingsOf(place.root) };
  try {
    const rescue = { at: context.now(), mayTerminate: false };
    const { notes } = await withPatience(db, () => reconcile(reconciler, db, rescue));
    notes.forEach(note);
  } catch (error) {
    if (!isStoreFailure(error)) throw error;
    note(describeUnchecked((error as Error).message));
  }
}

function describeUnchecked(why: string): string {
  return `what has died was not recorded, so that it may be shown as running: ${why}`;
}

/** Only the limit of the output counts here: wrong settings are told of elsewhere. */
async function settingsOf(root: string): Promise<Settings> {
  try {
    return await loadSettings(root);
  } catch (error) {
    if (!(error instanceof UsageError)) throw error;
    return defaultSettings;
  }
}

async function withPatience<T>(db: Database, work: () => Promise<T>): Promise<T> {
  const { rows } = await sql<{ timeout: number }>`pragma busy_timeout`.execute(db);
  const setTimeout = (ms: number) => sql`pragma busy_timeout = ${sql.lit(ms)}`.execute(db);
  await setTimeout(PATIENCE_MS);
  try {
    return await work();
  } finally {
    await setTimeout(rows[0]?.timeout ?? PATIENCE_MS);
  }
}
