import { CALM_MS } from '../../queue/settle/retry-policy.ts';
import { loadSettingsIfRight } from '../../settings/load.ts';
import type { IncidentRow } from '../../store/schema.ts';
import { jobListsOf } from '../../store/statements/list-jobs.ts';
import { incidentsOf, type Mute } from '../../store/statements/monitor/incidents.ts';
import type { Store, StoreSession } from '../../store/store.ts';
import { isOfRuns } from '../../store/words.ts';
import { NoSuchName, UsageError } from '../../system/base/errors.ts';
import { matchesNothing } from '../../system/base/glob.ts';
import type { CheckCode, HealthFinding } from '../finding.ts';
import { openPresence, type Presence, type PresencePlace } from '../presence.ts';

/**
 * Opens, counts and ends the incidents of checks: an incident that no check finds any more is over; it stays as it is
 * where its check could not look. The incidents of runs are opened and ended as runs are settled. Call it in a
 * transaction.
 *
 * @param findings all that the checks say now, also of what is well
 * @param at UTC epoch milliseconds
 * @param isKnown whether this machine could have found an incident that it does not find; other incidents stay
 */
export async function noteFindings(
  { statements }: StoreSession,
  findings: readonly HealthFinding[],
  at: number,
  isKnown: (incident: IncidentRow) => boolean = () => true,
): Promise<void> {
  const incidents = incidentsOf(statements);
  await incidents.lock();
  const ofChecks = findings.filter(({ code }) => !isOfRuns(code));
  const unknown = new Set<string>(ofChecks.filter(({ status }) => status === 'unknown').map(({ code }) => code));
  const seen = new Set<string>();
  for (const { code, subject, status, message, hint } of ofChecks) {
    if (status === 'ok' || status === 'unknown') continue;
    seen.add(`${code} ${subject}`);
    const sign = { code, subject, fingerprint: '', severity: status, at, runId: null, message, hint };
    if (!(await incidents.count(sign))) await incidents.open(sign);
  }
  const isMissed = ({ code, subject }: IncidentRow) =>
    !isOfRuns(code) && !unknown.has(code) && !seen.has(`${code} ${subject}`);
  const over = (await incidents.current()).filter((incident) => isMissed(incident) && isKnown(incident));
  await incidents.change(over.map((incident) => ({ id: incident.id, set: overAt(incident, at) })));
}

/** The end of an incident is reported if its beginning was. */
function overAt({ told_at, printed_at }: IncidentRow, at: number): Partial<IncidentRow> {
  return { recovered_at: at, due_at: told_at === null && printed_at === null ? null : at };
}

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
  const place = { root, nowMs, settings: await loadSettingsIfRight(root) };
  const gone = await findGone(store, place, open);
  return open.map((incident) => {
    const reason = gone.get(incident.id);
    return reason === undefined ? incident : { ...incident, ...asGone(incident, reason, nowMs) };
  });
}

/** The reason why the subject of an open incident is gone, by the incident's number. */
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

/** A finding about running processes stays true, whatever becomes of their files. */
async function whyGone(presence: Presence, { code, subject }: IncidentRow): Promise<string | null> {
  if (ofTiers.has(code)) return subject === 'queue' ? null : await presence.whyTierIsGone(subject);
  const isOfScript = isOfRuns(code) || code === ('script-overdue' satisfies CheckCode);
  return isOfScript ? await presence.whyScriptIsGone(subject) : null;
}

/**
 * Whether jobs of a handler that is gone are left: failed ones, or others that may fail. If the log keeps none of its
 * runs, its jobs are removed when they end, and another program may work on them: then an hour without a failure
 * decides.
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

/**
 * Ends the reminders of open incidents: of the one with this number, or of all of a subject. Call it in a transaction.
 *
 * @returns the incidents that the word means, also those acknowledged before
 */
export async function acknowledgeIncidents(session: StoreSession, word: string, at: number): Promise<IncidentRow[]> {
  const incidents = incidentsOf(session.statements);
  const meant = (await incidents.current()).filter((each) => isMeant(each, word));
  const fresh = meant.filter(({ acknowledged_at }) => acknowledged_at === null);
  await incidents.change(fresh.map(({ id }) => ({ id, set: { acknowledged_at: at } })));
  await session.events.record(
    fresh.map(({ id, subject }) => ({ at, event: 'incident-acknowledged', detail: `#${id} ${subject}` })),
  );
  return meant.map((each) => ({ ...each, acknowledged_at: each.acknowledged_at ?? at }));
}

function isMeant({ id, subject }: IncidentRow, word: string): boolean {
  return /^\d+$/.test(word) ? id === Number(word) : [word, `${HANDLER}${word}`].includes(subject);
}

/**
 * Ends open incidents by hand. Call it in a transaction.
 *
 * @throws {UsageError} if a number is not that of an open incident: then none is closed
 */
export async function closeIncidents(
  session: StoreSession,
  ids: readonly number[],
  at: number,
): Promise<IncidentRow[]> {
  const incidents = incidentsOf(session.statements);
  await incidents.lock();
  const open = await incidents.current();
  const unknown = ids.find((each) => !open.some(({ id }) => id === each));
  if (unknown !== undefined) throw noSuchIncident(String(unknown));
  const closed = open
    .filter(({ id }) => ids.includes(id))
    .map((incident) => ({ incident, set: { ...overAt(incident, at), ending: 'closed' as const, hint: null } }));
  await incidents.change(closed.map(({ incident: { id }, set }) => ({ id, set })));
  await session.events.record(
    closed.map(({ incident: { id, subject } }) => ({ at, event: 'incident-closed', detail: `#${id} ${subject}` })),
  );
  return closed.map(({ incident, set }) => ({ ...incident, ...set }));
}

export function noSuchIncident(word: string): NoSuchName {
  const what = /^\d+$/.test(word) ? `number ${word}` : `subject ${JSON.stringify(word)}`;
  return new NoSuchName(`No open incident has the ${what}; \`npx folder-runner incidents\` lists them.`);
}

/**
 * The mute of this pattern from now on.
 *
 * @param forMs its length in milliseconds; undefined: until it is ended by hand
 * @throws {UsageError} if the pattern is wrong
 */
export function muteOf(name: string, forMs: number | undefined, at: number): Mute {
  if (name.trim() !== '' && !matchesNothing(name)) {
    return { name, until: forMs === undefined ? null : at + forMs, createdAt: at };
  }
  const expected = "a name or a glob with * and ?, such as hourly/import or 'mail/*'";
  throw new UsageError(`The pattern must be ${expected}, found ${JSON.stringify(name)}.`);
}

/** Records mutes; each replaces one of the same name. Call it in a transaction. */
export async function setMutes(session: StoreSession, mutes: readonly Mute[]): Promise<void> {
  for (const mute of mutes) {
    const { name, until, createdAt: at } = mute;
    await incidentsOf(session.statements).mute(mute);
    const detail = until === null ? name : `${name} until ${new Date(until).toISOString()}`;
    await session.events.record([{ at, event: 'muted', detail }]);
  }
}

/** Ends the mutes of these names, or all, and returns those that existed. Call it in a transaction. */
export async function endMutes(session: StoreSession, names: readonly string[] | null, at: number): Promise<Mute[]> {
  const incidents = incidentsOf(session.statements);
  const ended = await incidents.unmute(names ?? (await incidents.mutes(at)).map(({ name }) => name));
  if (ended.length > 0) await incidents.lookAgain(at);
  await session.events.record(ended.map(({ name: detail }) => ({ at, event: 'unmuted', detail })));
  return ended;
}
