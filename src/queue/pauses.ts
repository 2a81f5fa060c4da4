import { recordActivity } from '../store/activity.ts';
import type { Database } from '../store/open-store.ts';

/** What is not to be run for a while. */
export interface Pause {
  /** `*`: everything; a tier's name; or a script's: `hourly/clean-tmp`. */
  readonly name: string;
  /** Epoch milliseconds; null: until it is resumed. */
  readonly until: number | null;
  readonly createdAt: number;
}

/** The name that stands for every tier. */
export const EVERYTHING = '*';

/** The pauses in force; one that has run out is as good as gone. */
export async function selectPauses(db: Database, at: number): Promise<Pause[]> {
  return await db
    .selectFrom('pauses')
    .select(['name', 'until', 'created_at as createdAt'])
    .where(({ or, eb }) => or([eb('until', 'is', null), eb('until', '>', at)]))
    .orderBy('name')
    .execute();
}

/** The pause that keeps this tier or script from running: the widest one. */
export function findPause(pauses: readonly Pause[], name: string): Pause | null {
  const tier = name.split('/', 1)[0] as string;
  const wide = [EVERYTHING, tier, name].map((each) => pauses.find((pause) => pause.name === each));
  return wide.find((pause) => pause !== undefined) ?? null;
}

/** Pauses the name from now on; a pause that it had is replaced. */
export async function pause(db: Database, { name, until, createdAt }: Pause): Promise<void> {
  await db.transaction().execute(async (transaction) => {
    await transaction
      .insertInto('pauses')
      .values({ name, until, created_at: createdAt })
      .onConflict((conflict) =>
        conflict.column('name').doUpdateSet({ until, created_at: createdAt }),
      )
      .execute();
    const detail = until === null ? name : `${name} until ${new Date(until).toISOString()}`;
    await recordActivity(transaction, { at: createdAt, event: 'paused', detail });
  });
}

/** Ends pauses: this name's, or all there are. The names that were paused. */
export async function resume(db: Database, name: string | null, at: number): Promise<string[]> {
  return await db.transaction().execute(async (transaction) => {
    const query = transaction.deleteFrom('pauses').returning(['name', 'until']);
    const ended = await (name === null ? query : query.where('name', '=', name)).execute();
    const inForce = ended.filter(({ until }) => until === null || until > at);
    for (const { name: detail } of inForce) {
      await recordActivity(transaction, { at, event: 'resumed', detail });
    }
    return inForce.map((each) => each.name);
  });
}
