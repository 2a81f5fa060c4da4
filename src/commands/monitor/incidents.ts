import { scriptNameOf } from '../../discovery/find-script.ts';
import {
  acknowledgeIncidents,
  closeIncidents,
  endMutes,
  foresee,
  muteOf,
  noSuchIncident,
  setMutes,
} from '../../monitor/alert/incidents.ts';
import { formatJson } from '../../report/json.ts';
import { incidentToJson, withErrors } from '../../report/model/incidents.ts';
import { muteRecord } from '../../report/model/pauses.ts';
import { refuseUnknownMutes } from '../../report/names.ts';
import { renderIncidents } from '../../report/terminal/incidents.ts';
import { createScreen } from '../../report/terminal/screen.ts';
import { createClock } from '../../report/text/clock.ts';
import type { IncidentRow } from '../../store/schema.ts';
import { incidentsOf } from '../../store/statements/monitor/incidents.ts';
import type { Store } from '../../store/store.ts';
import { UsageError } from '../../system/base/errors.ts';
import { printableLine } from '../../system/base/text.ts';
import { shellWord } from '../../system/base/values.ts';
import type { CommandContext } from '../shared/context.ts';
import { changeAsUser, print, rootOf, withLog, withWritableLog, withWritableLogIfAny } from '../shared/open.ts';
import type { Given } from '../table.ts';

/** `runner incidents close`: an incident is over because somebody says so. */
export async function close(
  context: CommandContext,
  { number: words, root, json }: Given<'incidents close'>,
): Promise<void> {
  const ids = words.map(readIncidentNumber);
  const closed = await withWritableLogIfAny(context, root, (store) =>
    changeAsUser(store, (session) => closeIncidents(session, ids, context.now())),
  );
  if (closed === null) throw noSuchIncident(words[0] ?? '');
  if (json) {
    return void context.stdout.write(formatJson({ closed: closed.map(incidentToJson) }));
  }
  for (const { id, subject } of closed) context.stdout.write(`Closed: #${id} ${printableLine(subject)}.\n`);
}

function readIncidentNumber(word: string): number {
  const id = Number(word);
  if (/^\d+$/.test(word) && Number.isSafeInteger(id)) return id;
  throw new UsageError(
    `close expects numbers of incidents, found ${JSON.stringify(word)}; \`npx folder-runner incidents\` lists them.`,
  );
}

const MOST_LISTED = 100;

/** `runner incidents`: what is wrong, and since when. */
export async function listIncidents(context: CommandContext, { root, json, all }: Given<'incidents'>): Promise<void> {
  const { incidents, mutes } = await withLog(context, root, async ({ root: place, store, view }) => ({
    incidents:
      store === null
        ? []
        : await withErrors(
            await view(),
            await readIncidents(store, { root: place, nowMs: context.now() }, all === true),
          ),
    mutes: store === null ? [] : await incidentsOf(store.statements).mutes(context.now()),
  }));
  if (json) {
    const told = { incidents: incidents.map(incidentToJson), mutes: mutes.map(muteRecord.toJson) };
    return void context.stdout.write(formatJson(told));
  }
  await print(context, renderIncidents(incidents, mutes, createScreen(context)));
}

/** Open incidents come first, whatever happened since. */
async function readIncidents(
  store: Store,
  place: { readonly root: string; readonly nowMs: number },
  isAll: boolean,
): Promise<readonly IncidentRow[]> {
  const isOver = ({ recovered_at }: IncidentRow): boolean => recovered_at !== null;
  const current = await foresee(store, place, await incidentsOf(store.statements).current());
  const open = current.filter((incident) => !isOver(incident));
  if (!isAll) return open;
  const listed = (await incidentsOf(store.statements).list(MOST_LISTED + current.length)).filter(isOver);
  return [...open, ...[...current.filter(isOver), ...listed].slice(0, MOST_LISTED)];
}

/** `runner acknowledge`: no more reminders of an incident. */
export async function acknowledge(
  context: CommandContext,
  { incident: asked, root, json }: Given<'acknowledge'>,
): Promise<void> {
  const [word = asked] = namesOf(context, root, [asked]);
  const incidents = await withWritableLogIfAny(context, root, (store) =>
    changeAsUser(store, (session) => acknowledgeIncidents(session, word, context.now())),
  );
  if (incidents === null || incidents.length === 0) throw noSuchIncident(word);
  if (json) {
    return void context.stdout.write(formatJson({ acknowledged: incidents.map(incidentToJson) }));
  }
  for (const { id, subject } of incidents) {
    context.stdout.write(`Acknowledged: #${id} ${printableLine(subject)}. You will still be told when it is over.\n`);
  }
}

/** `runner mute`: silences incidents for a while. */
export async function mute(context: CommandContext, { pattern, for: forMs, root, json }: Given<'mute'>): Promise<void> {
  const at = context.now();
  const names = [...new Set(namesOf(context, root, pattern))];
  const mutes = names.map((name) => muteOf(name, forMs, at));
  await withLog(context, root, (site) => refuseUnknownMutes(site, names));
  await withWritableLog(context, root, (store) => changeAsUser(store, (session) => setMutes(session, mutes)));
  if (json) {
    return void context.stdout.write(formatJson({ mutes: mutes.map(muteRecord.toJson) }));
  }
  const clock = createClock(at);
  const until = mutes[0]?.until ?? null;
  for (const { name } of mutes) {
    const unmute = `\`npx folder-runner unmute ${shellWord(printableLine(name))}\``;
    const end = until === null ? unmute : `${clock.dateTime(until)} (${clock.zone})`;
    context.stdout.write(`Incidents of ${printableLine(name)} are muted until ${end}.\n`);
  }
}

/** Turns file names into names of scripts; other words stay as they are. */
function namesOf(context: CommandContext, root: string | undefined, words: readonly string[]): string[] {
  const place = { cwd: context.cwd, root: rootOf(context, root) };
  return words.map((word) => scriptNameOf(word, place));
}

/** `runner unmute`: the end of mutes. */
export async function unmute(context: CommandContext, { pattern, root, json }: Given<'unmute'>): Promise<void> {
  const meant = pattern.length === 0 ? null : namesOf(context, root, pattern);
  const ended = await withWritableLogIfAny(context, root, (store) =>
    changeAsUser(store, (session) => endMutes(session, meant, context.now())),
  );
  const names = (ended ?? []).map(({ name }) => name);
  if (json) {
    return void context.stdout.write(formatJson({ unmuted: names }));
  }
  const told = names.length === 0 ? [] : [`Unmuted: ${names.map(printableLine).join(', ')}.`];
  const others = (meant ?? []).filter((name) => !names.includes(name));
  const lines = [...told, ...others.map((pattern) => `${printableLine(pattern)} was not muted.`)];
  if (lines.length === 0) lines.push('Nothing was muted.');
  context.stdout.write(`${lines.join('\n')}\n`);
}
