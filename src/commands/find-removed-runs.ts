import type { Runner } from '../worker/runner.ts';

/** Of these runs, those that went with their jobs, as the settings ask for. */
export async function findRemovedRuns(
  { state, settings }: Runner,
  runIds: readonly (number | string)[],
): Promise<ReadonlySet<number | string>> {
  const ids = runIds.filter((id) => typeof id === 'number');
  if (Object.keys(settings.queue.archive).length === 0 || ids.length === 0) return new Set();
  const { openExistingStore } = await import('../store/open-store.ts');
  const store = await openExistingStore(state).catch(() => null);
  if (store === null) return new Set();
  const query = store.db.selectFrom('runs').select('id').where('id', 'in', ids);
  const rows = await query.execute().finally(() => store.close());
  const kept = new Set(rows.map(({ id }) => id));
  return new Set(ids.filter((id) => !kept.has(id)));
}
