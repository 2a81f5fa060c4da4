import { columnsOf } from '../../store/columns.ts';
import type { IncidentRow } from '../../store/schema.ts';
import { tables } from '../../store/tables.ts';
import type { LogView } from './runs/run.ts';

export interface IncidentQuery {
  readonly state: 'open' | 'over' | 'all';
  /** Only those of this script, handler, tier … */
  readonly subject?: string | undefined;
  /** Only those with lower numbers. */
  readonly beforeId?: number | undefined;
  readonly limit: number;
}

/** All: where a server has columns of its own for its indexes, those are nobody's business. */
const columns = columnsOf(tables.incidents);

/** What is wrong and not over, the oldest first. */
export async function selectOpenIncidents({ db }: LogView): Promise<IncidentRow[]> {
  return await db.selectFrom('incidents').select(columns).where('recovered_at', 'is', null).orderBy('id').execute();
}

/** Incidents, the newest first. */
export async function selectIncidents({ db }: LogView, query: IncidentQuery): Promise<IncidentRow[]> {
  const { state, subject, beforeId, limit } = query;
  return await db
    .selectFrom('incidents')
    .select(columns)
    .$if(state === 'open', (incidents) => incidents.where('recovered_at', 'is', null))
    .$if(state === 'over', (incidents) => incidents.where('recovered_at', 'is not', null))
    .$if(subject !== undefined, (incidents) => incidents.where('subject', '=', subject as string))
    .$if(beforeId !== undefined, (incidents) => incidents.where('id', '<', beforeId as number))
    .orderBy('id', 'desc')
    .limit(limit)
    .execute();
}
