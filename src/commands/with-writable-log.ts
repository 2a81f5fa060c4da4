import { existsSync } from 'node:fs';
import { checkWritable } from '../config/check-place.ts';
import { createStateFolder, stateFolderOf } from '../config/state-folder.ts';
import type { Database } from '../store/open-store.ts';
import type { CommandContext } from './command-context.ts';
import { rootOf } from './open-log.ts';

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
  const { openStore } = await import('../store/open-store.ts');
  const { toldPlainly } = await import('../store/describe-store-failure.ts');
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
