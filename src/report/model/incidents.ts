import type { LogView } from '../../discovery/site.ts';
import { columnsOf } from '../../store/columns.ts';
import type { IncidentRow } from '../../store/schema.ts';
import { tables } from '../../store/tables.ts';
import { incidentEndings } from '../../store/words.ts';
import { field, record } from '../../system/base/record.ts';

/** What was found wrong, and what became of it. */
export const incidentRecord = record('Incident', {
  id: field.integer,
  subject: field.text.about('A script or handler, a tier, `queue`, `log`, `disk`, `alerts`'),
  code: field.text,
  severity: field.words(['warning', 'critical']),
  occurrences: field.integer,
  error: field.text.orNull.from('message'),
  hint: field.text.orNull,
  openedAt: field.instant.from('opened_at'),
  lastAt: field.instant.from('last_at'),
  recoveredAt: field.instant.orNull.from('recovered_at').about('Null: it is not over'),
  ending: field
    .words(incidentEndings)
    .orNull.about('How it ended otherwise than by getting well; `gone`: `hint` says why'),
  toldAt: field.instant.orNull.from('told_at'),
  remindedAt: field.instant.orNull.from('reminded_at'),
  recoveryToldAt: field.instant.orNull.from('recovery_told_at'),
  acknowledgedAt: field.instant.orNull.from('acknowledged_at'),
  lastRun: field.integer.orNull.from('last_run_id'),
});

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
