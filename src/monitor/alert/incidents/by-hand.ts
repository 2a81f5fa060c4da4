import { expectedDuration, parseDurationMs } from '../../../settings/readers.ts';
import type { IncidentRow } from '../../../store/schema.ts';
import { incidentsOf, type Mute } from '../../../store/statements/monitor/incidents.ts';
import type { StoreSession } from '../../../store/store.ts';
import { UsageError } from '../../../system/base/errors.ts';
import { matchesNothing } from '../../../system/base/glob.ts';
import { overAt } from './note-findings.ts';

/**
 * Ends the reminders of an incident: by its number, or of all that are open of a subject. One that was acknowledged
 * stays so. To be called in a transaction.
 *
 * @returns those that are meant; none: no open incident is
 */
export async function acknowledgeIncidents(session: StoreSession, word: string, at: number): Promise<IncidentRow[]> {
  const meant = (await incidentsOf(session.statements).current()).filter((each) => isMeant(each, word));
  const fresh = meant.filter(({ acknowledged_at }) => acknowledged_at === null);
  await incidentsOf(session.statements).change(fresh.map(({ id }) => ({ id, set: { acknowledged_at: at } })));
  await session.events.record(
    fresh.map(({ id, subject }) => ({ at, event: 'incident-acknowledged', detail: `#${id} ${subject}` })),
  );
  return meant.map((each) => ({ ...each, acknowledged_at: each.acknowledged_at ?? at }));
}

/**
 * Ends open incidents. To be called in a transaction.
 *
 * @throws {UsageError} if one of the numbers is none of an open incident: then none is closed
 */
export async function closeIncidents(
  session: StoreSession,
  ids: readonly number[],
  at: number,
): Promise<IncidentRow[]> {
  await incidentsOf(session.statements).lock();
  const open = await incidentsOf(session.statements).current();
  const unknown = ids.find((each) => !open.some(({ id }) => id === each));
  if (unknown !== undefined) throw noSuchIncident(String(unknown));
  const closed = open
    .filter(({ id }) => ids.includes(id))
    .map((incident) => ({ incident, set: { ...overAt(incident, at), ending: 'closed' as const, hint: null } }));
  await incidentsOf(session.statements).change(closed.map(({ incident: { id }, set }) => ({ id, set })));
  await session.events.record(
    closed.map(({ incident: { id, subject } }) => ({ at, event: 'incident-closed', detail: `#${id} ${subject}` })),
  );
  return closed.map(({ incident, set }) => ({ ...incident, ...set }));
}

function isMeant({ id, subject }: IncidentRow, word: string): boolean {
  return /^\d+$/.test(word) ? id === Number(word) : [word, `queue/${word}`].includes(subject);
}

export function noSuchIncident(word: string): UsageError {
  const what = /^\d+$/.test(word) ? `number ${word}` : `subject ${JSON.stringify(word)}`;
  return new UsageError(`No open incident has the ${what}; \`npx folder-runner incidents\` lists them.`);
}

/**
 * What is to be muted from now on.
 *
 * @param duration `2h`; undefined: until it is taken back
 * @throws {UsageError} that says what is expected
 */
export function readMutes(patterns: readonly string[], duration: string | undefined, at: number): Mute[] {
  const wrong = patterns.find((pattern) => pattern.trim() === '' || matchesNothing(pattern));
  if (wrong !== undefined) {
    const expected = "a name or a glob with * and ?, such as hourly/import or 'mail/*'";
    throw new UsageError(`The pattern must be ${expected}, found ${JSON.stringify(wrong)}.`);
  }
  const until = readEnd(duration, at);
  return [...new Set(patterns)].map((name) => ({ name, until, createdAt: at }));
}

function readEnd(text: string | undefined, at: number): number | null {
  if (text === undefined) return null;
  const durationMs = parseDurationMs(text.trim());
  if (durationMs !== null) return at + durationMs;
  throw new UsageError(`--for must be ${expectedDuration(text, '30m, 2h or 7d')}, found ${JSON.stringify(text)}.`);
}

/** A mute that was there of the same name is replaced. To be called in a transaction. */
export async function setMutes(session: StoreSession, mutes: readonly Mute[]): Promise<void> {
  for (const mute of mutes) {
    const { name, until, createdAt: at } = mute;
    await incidentsOf(session.statements).mute(mute);
    const detail = until === null ? name : `${name} until ${new Date(until).toISOString()}`;
    await session.events.record([{ at, event: 'muted', detail }]);
  }
}

/** Ends the mutes of these names, or all there are; those that were. To be called in a transaction. */
export async function endMutes(session: StoreSession, names: readonly string[] | null, at: number): Promise<Mute[]> {
  const incidents = incidentsOf(session.statements);
  const ended = await incidents.unmute(names ?? (await incidents.mutes(at)).map(({ name }) => name));
  if (ended.length > 0) await incidents.lookAgain(at);
  await session.events.record(ended.map(({ name: detail }) => ({ at, event: 'unmuted', detail })));
  return ended;
}
