import type { IncidentRow } from '../../store/schema.ts';
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
const columns = [
  ...(['id', 'subject', 'code', 'fingerprint', 'severity', 'opened_at', 'last_at', 'occurrences'] as const),
  ...(['succeeded_at', 'first_run_id', 'last_run_id', 'message', 'hint', 'told_at', 'reminded_at'] as const),
  ...(['printed_at', 'recovered_at', 'recovery_told_at', 'acknowledged_at', 'due_at'] as const),
] satisfies readonly (keyof IncidentRow)[];

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
