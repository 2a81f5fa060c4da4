import type { StateFolder } from '../../config/state-folder.ts';
import { type Pause, selectPauses } from '../../queue/pauses.ts';
import { type Database, openExistingStore } from '../../store/open-store.ts';
import { SCHEMA_VERSION } from '../../store/schema-version.ts';
import type { LogFile } from './log-file.ts';

/** What the checks need of the activity log. */
export interface LogFacts {
  /** When the newest entry was made; null in an empty log. */
  readonly newestAt: number | null;
  /** When each tier was last called by schedule, whether it could run or not. */
  readonly lastCalledAt: ReadonlyMap<string, number>;
  readonly pauses: readonly Pause[];
}

export interface LogReading {
  /** Null where there is no log that can be read. */
  readonly facts: LogFacts | null;
  /** Why a log whose file is sound could not be opened. */
  readonly failure: string | null;
}

/** Opens only what needs no change: a broken file would be set aside, an older one brought up to date. */
export async function readLogFacts(
  state: StateFolder,
  file: LogFile | null,
  nowMs: number,
): Promise<LogReading> {
  const isSound = file?.isRead === true && file.damages.length === 0;
  if (!isSound || file.schemaVersion !== SCHEMA_VERSION) return { facts: null, failure: null };
  try {
    const store = await openExistingStore(state);
    if (store === null) return { facts: null, failure: null };
    try {
      return { facts: await selectFacts(store.db, nowMs), failure: null };
    } finally {
      await store.close();
    }
  } catch (error) {
    return { facts: null, failure: (error as Error).message };
  }
}

async function selectFacts(db: Database, nowMs: number): Promise<LogFacts> {
  const newest = await db
    .selectFrom('activity')
    .select('at')
    .orderBy('id', 'desc')
    .limit(1)
    .executeTakeFirst();
  return {
    newestAt: newest?.at ?? null,
    lastCalledAt: await selectLastCalls(db),
    pauses: await selectPauses(db, nowMs),
  };
}

async function selectLastCalls(db: Database): Promise<ReadonlyMap<string, number>> {
  const rows = await db
    .selectFrom('workers')
    .select(({ fn }) => ['tier', fn.max('started_at').as('at')])
    .where('called_by', '!=', 'hand')
    .where('kind', '=', 'tier')
    .groupBy('tier')
    .execute();
  return new Map(rows.flatMap(({ tier, at }) => (tier === null ? [] : [[tier, at] as const])));
}
