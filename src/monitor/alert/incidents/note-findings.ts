import type { IncidentRow } from '../../../store/schema.ts';
import { incidentsOf } from '../../../store/statements/monitor/incidents.ts';
import type { StoreSession } from '../../../store/store.ts';
import { isOfRuns } from '../../../store/words.ts';
import type { Finding } from '../../checks/finding.ts';

/** Of these the settling of runs says when they begin and end. */

/**
 * Has what the checks have found opened, counted, or over: what no check finds any more is over, what none could look
 * into stays as it is. To be called in a transaction.
 *
 * @param findings all that the checks say now, also of what is well
 * @param at UTC epoch milliseconds
 * @param isKnown whether this machine could have found an incident that it does not find; of others nothing is said
 */
export async function noteFindings(
  session: StoreSession,
  findings: readonly Finding[],
  at: number,
  isKnown: (incident: IncidentRow) => boolean = () => true,
): Promise<void> {
  await incidentsOf(session.statements).lock();
  const seen = new Set<string>();
  const unknown = new Set<string>();
  for (const { code, subject, status, message, hint } of findings) {
    if (isOfRuns(code) || status === 'ok') continue;
    if (status === 'unknown') {
      unknown.add(code);
      continue;
    }
    seen.add(keyOf({ code, subject }));
    const sign = { code, subject, fingerprint: '', severity: status, at, runId: null, message, hint };
    if (!(await incidentsOf(session.statements).count(sign))) await incidentsOf(session.statements).open(sign);
  }
  const open = (await incidentsOf(session.statements).current()).filter(({ code }) => !isOfRuns(code));
  const missed = open.filter((incident) => !unknown.has(incident.code) && !seen.has(keyOf(incident)));
  const over = missed.filter(isKnown);
  await incidentsOf(session.statements).change(
    over.map((incident) => ({ id: incident.id, set: overAt(incident, at) })),
  );
}

function keyOf({ code, subject }: Pick<IncidentRow, 'code' | 'subject'>): string {
  return `${code} ${subject}`;
}

/** Who was told of it is told that it is over. */
export function overAt({ told_at, printed_at }: IncidentRow, at: number): Partial<IncidentRow> {
  return { recovered_at: at, due_at: told_at === null && printed_at === null ? null : at };
}
