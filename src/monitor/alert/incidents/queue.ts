import type { ChannelSettings } from '../../../settings/channels.ts';
import type { AlertSettings } from '../../../settings/settings.ts';
import type { IncidentRow } from '../../../store/schema.ts';
import { incidentsOf } from '../../../store/statements/monitor/incidents.ts';
import type { StoreSession } from '../../../store/store.ts';
import { type AlertEvent, type AlertMessage, type IncidentDetail, readQueuedAlert } from '../message.ts';
import type { News } from './judge.ts';

/** What is to be told of one incident, and where. */
export interface TellableIncident {
  readonly news: News;
  readonly detail: IncidentDetail;
  readonly channels: readonly ChannelSettings[];
}

interface Occasion {
  /** UTC epoch milliseconds. */
  readonly at: number;
  readonly host: string;
  readonly root: string;
}

/** Those that want to hear of it. */
export function findChannels(
  { channels }: AlertSettings,
  { severity }: Pick<IncidentRow, 'severity'>,
  tags: readonly string[],
): readonly ChannelSettings[] {
  return channels.filter((channel) => {
    const isBadEnough = channel.severity !== 'critical' || severity === 'critical';
    return isBadEnough && (channel.tags.length === 0 || channel.tags.some((tag) => tags.includes(tag)));
  });
}

/** Puts one message for each channel on its way, at once or as soon as the settings allow. */
export async function queueFor(
  session: StoreSession,
  settings: AlertSettings,
  incidents: readonly TellableIncident[],
  occasion: Occasion,
): Promise<void> {
  const quietUntil = endOfQuiet(settings, occasion.at);
  for (const { name } of settings.channels) {
    const wanted = incidents.filter(({ channels }) => channels.some((channel) => channel.name === name));
    const waits = ({ detail }: TellableIncident) => quietUntil !== null && detail.severity !== 'critical';
    const sending = { session, channel: name, perHour: settings.perHour, occasion };
    await send(
      sending,
      wanted.filter((each) => !waits(each)),
      occasion.at,
    );
    if (quietUntil !== null) await send(sending, wanted.filter(waits), quietUntil);
  }
}

interface Sending {
  readonly session: StoreSession;
  readonly channel: string;
  readonly perHour: number;
  readonly occasion: Occasion;
}

const HOUR_MS = 60 * 60_000;

/** What may not be told yet is told with all that comes until then. */
async function send(sending: Sending, incidents: readonly TellableIncident[], wantedAt: number): Promise<void> {
  if (incidents.length === 0) return;
  const { session, channel, perHour, occasion } = sending;
  const { at } = occasion;
  const message = toMessage(incidents, occasion);
  const tellings = await incidentsOf(session.statements).tellings(channel, at - HOUR_MS);
  const full = tellings.length < perHour ? null : (tellings.at(-perHour) as number) + HOUR_MS;
  const dueAt = Math.max(wantedAt, full ?? at);
  const pending = dueAt > at ? await incidentsOf(session.statements).pending(channel, at) : null;
  const earlier = pending === null ? null : readQueuedAlert(pending.body);
  if (pending !== null && earlier !== null) {
    return await incidentsOf(session.statements).rewrite(pending.id, JSON.stringify(merge(earlier, message)));
  }
  await incidentsOf(session.statements).addTelling(channel, dueAt);
  await session.deliveries.add([{ kind: 'alert', channel, body: JSON.stringify(message), at: dueAt }]);
}

const events: Readonly<Record<News, AlertEvent>> = { opened: 'opened', reminder: 'reminder', recovered: 'recovered' };

/** So many are told with what they have printed: a message about hundreds is to stay readable. */
const MOST_WITH_OUTPUT = 20;

function toMessage(incidents: readonly TellableIncident[], { host, root }: Occasion): AlertMessage {
  const kinds = new Set(incidents.map(({ news }) => events[news]));
  const [event = 'digest'] = kinds.size === 1 ? kinds : [];
  return { version: 1, event, incidents: bound(incidents.map(({ detail }) => detail)), host, root };
}

function bound(details: readonly IncidentDetail[]): readonly IncidentDetail[] {
  return details.map((detail, index) => (index < MOST_WITH_OUTPUT ? detail : { ...detail, output: null }));
}

/** Of an incident that is in both, the later word counts. */
function merge(earlier: AlertMessage, later: AlertMessage): AlertMessage {
  const byId = new Map([...earlier.incidents, ...later.incidents].map((detail) => [detail.id, detail]));
  const incidents = bound([...byId.values()]);
  const isOver = incidents.every(({ recoveredAt }) => recoveredAt !== null);
  const event = isOver ? 'recovered' : earlier.event === later.event ? later.event : 'digest';
  return { ...later, event, incidents };
}

const MINUTE_MS = 60_000;
const MINUTES_PER_DAY = 24 * 60;

/** When the quiet hours that it is in end, by the local clock; null: it is in none. */
export function endOfQuiet({ quiet }: Pick<AlertSettings, 'quiet'>, at: number): number | null {
  if (quiet === null || quiet.from === quiet.until) return null;
  const date = new Date(at);
  const minute = date.getHours() * 60 + date.getMinutes();
  const { from, until } = quiet;
  const isQuiet = from < until ? from <= minute && minute < until : minute >= from || minute < until;
  if (!isQuiet) return null;
  // By the clock: a night in which it is set is an hour shorter or longer.
  const end = new Date(at);
  end.setHours(Math.floor(until / 60), until % 60, 0, 0);
  if (end.getTime() <= at) end.setDate(end.getDate() + 1);
  return Math.min(end.getTime(), at + MINUTES_PER_DAY * MINUTE_MS + HOUR_MS);
}
