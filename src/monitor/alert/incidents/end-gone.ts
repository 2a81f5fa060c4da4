import { CALM_MS } from '../../../queue/settle/retry-policy.ts';
import type { IncidentRow } from '../../../store/schema.ts';
import { jobListsOf } from '../../../store/statements/list-jobs.ts';
import { incidentsOf } from '../../../store/statements/monitor/incidents.ts';
import type { Store } from '../../../store/store.ts';
import { isOfRuns } from '../../../store/words.ts';
import type { CheckCode } from '../../checks/finding.ts';
import { openPresence, type Presence, type PresencePlace } from '../../presence.ts';
import { overAt } from './note-findings.ts';

/**
 * Ends incidents of scripts, handlers and tiers that no longer exist: no run can end these any more.
 *
 * @returns whether there were any
 */
export async function endGone(store: Store, place: PresencePlace): Promise<boolean> {
  const gone = await findGone(store, place, await incidentsOf(store.statements).current());
  if (gone.size === 0) return false;
  await store.transaction(async (session) => {
    const incidents = incidentsOf(session.statements);
    await incidents.lock();
    const still = (await incidents.current()).filter(({ id }) => gone.has(id));
    await incidents.change(
      still.map((incident) => ({ id: incident.id, set: asGone(incident, gone.get(incident.id) ?? '', place.nowMs) })),
    );
  }, 'soon');
  return true;
}

/** For readers: open incidents as the next call will leave them, with those over whose subject is gone. */
export async function foresee(
  store: Store | null,
  { root, nowMs }: Omit<PresencePlace, 'settings'>,
  open: readonly IncidentRow[],
): Promise<readonly IncidentRow[]> {
  if (store === null || open.length === 0) return open;
  const { loadSettingsIfRight } = await import('../../../settings/load.ts');
  const place = { root, nowMs, settings: await loadSettingsIfRight(root) };
  const gone = await findGone(store, place, open);
  return open.map((incident) => {
    const reason = gone.get(incident.id);
    return reason === undefined ? incident : { ...incident, ...asGone(incident, reason, nowMs) };
  });
}

/** Why the subjects of these open incidents are gone, by the incidents' numbers. */
async function findGone(
  store: Store,
  place: PresencePlace,
  open: readonly IncidentRow[],
): Promise<ReadonlyMap<number, string>> {
  const presence = openPresence(store, place);
  const gone = new Map<number, string>();
  for (const incident of open) {
    const why = await whyGone(presence, incident);
    if (why === null) continue;
    const hasWork = incident.subject.startsWith(HANDLER) && (await mayStillFail(store, incident, place.nowMs));
    if (!hasWork) gone.set(incident.id, why);
  }
  return gone;
}

const HANDLER = 'queue/';

const ofTiers: ReadonlySet<string> = new Set<CheckCode>(['tier-overdue', 'tier-skipped', 'crashes']);

/** What is found out about running processes stays true, whatever becomes of their files. */
async function whyGone(presence: Presence, { code, subject }: IncidentRow): Promise<string | null> {
  if (ofTiers.has(code)) return subject === 'queue' ? null : await presence.whyTierIsGone(subject);
  const isOfScript = isOfRuns(code) || code === ('script-overdue' satisfies CheckCode);
  return isOfScript ? await presence.whyScriptIsGone(subject) : null;
}

/**
 * Whether jobs of a handler that is gone are left: failed ones, or others that may fail. If the log keeps none of its
 * runs, its jobs are removed when they end, and somebody outside may work on them: then an hour without a failure decides.
 */
async function mayStillFail(
  { statements }: Store,
  { subject, last_run_id, last_at }: IncidentRow,
  nowMs: number,
): Promise<boolean> {
  if (last_run_id === null && last_at > nowMs - CALM_MS) return true;
  const name = subject.slice(HANDLER.length);
  const states = ['queued', 'claimed', 'running', 'retrying', 'paused', 'failed'] as const;
  const wanted = { patterns: [name, `${name}[?]*`], states, order: 'newest', limit: 1, at: nowMs } as const;
  return (await jobListsOf(statements).list(wanted)).length > 0;
}

function asGone(incident: IncidentRow, reason: string, at: number): Partial<IncidentRow> {
  return { ...overAt(incident, at), ending: 'gone', hint: reason };
}
