import type { StoreSession } from '../../../store/contract.ts';
import type { IncidentRow } from '../../../store/schema.ts';
import type { Finding } from '../../checks/finding.ts';

/** Of these the settling of runs says when they begin and end. */
const RUNS_OWN = 'script-failing';

/**
 * Has what the checks have found opened, counted, or over: what no check finds any more is over, what none could look
 * into stays as it is. To be called in a transaction.
 *
 * @param findings all that the checks say now, also of what is well
 * @param at UTC epoch milliseconds
 */
export async function noteFindings(session: StoreSession, findings: readonly Finding[], at: number): Promise<void> {
  const seen = new Set<string>();
  const unknown = new Set<string>();
  for (const { code, subject, status, message, hint } of findings) {
    if (code === RUNS_OWN || status === 'ok') continue;
    if (status === 'unknown') {
      unknown.add(code);
      continue;
    }
    seen.add(keyOf({ code, subject }));
    const sign = { code, subject, fingerprint: '', severity: status, at, runId: null, message, hint };
    if (!(await session.incidents.count(sign))) await session.incidents.open(sign);
  }
  const open = (await session.incidents.current()).filter(({ code }) => code !== RUNS_OWN);
  const over = open.filter((incident) => !unknown.has(incident.code) && !seen.has(keyOf(incident)));
  await session.incidents.change(over.map((incident) => ({ id: incident.id, set: overAt(incident, at) })));
}

function keyOf({ code, subject }: Pick<IncidentRow, 'code' | 'subject'>): string {
  return `${code} ${subject}`;
}

/** Who was told of it is told that it is over. */
function overAt({ told_at, printed_at }: IncidentRow, at: number): Partial<IncidentRow> {
  return { recovered_at: at, due_at: told_at === null && printed_at === null ? null : at };
}
