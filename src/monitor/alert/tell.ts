import { discover } from '../../discovery/discover.ts';
import { optionsOfExec } from '../../discovery/exec.ts';
import { CALM_MS } from '../../queue/settle/retry-policy.ts';
import type { ChannelSettings } from '../../settings/channels.ts';
import type { AlertSettings, Runner, ScriptOptions } from '../../settings/settings.ts';
import type { IncidentRow } from '../../store/schema.ts';
import { incidentsOf, type Mute } from '../../store/statements/monitor/incidents.ts';
import type { Store, StoreSession } from '../../store/store.ts';
import { FAILING, isOfRuns } from '../../store/words.ts';
import { UsageError } from '../../system/base/errors.ts';
import { isExecName } from '../../system/base/exec-name.ts';
import { matchGlob } from '../../system/base/glob.ts';
import { HOUR_MS, lastInstantMs } from '../../system/base/values.ts';
import { machineName } from '../../system/process/identity.ts';
import type { CheckCode } from '../finding.ts';
import { type AlertMessage, describeIncident, type IncidentDetail, readQueuedAlert } from './message.ts';

/** The reason for a message about an incident. */
type News = 'opened' | 'reminder' | 'recovered';

/** An incident that a pass under cron has to print. */
export interface PrintedIncident {
  readonly news: News;
  readonly incident: IncidentDetail;
}

interface Teller {
  readonly runner: Pick<Runner, 'root' | 'settings' | 'now'>;
  /** Whether the output of this pass becomes cron's mail. */
  readonly prints: boolean;
}

interface Context extends Teller {
  readonly session: StoreSession;
  /** UTC epoch milliseconds. */
  readonly at: number;
  readonly mutes: readonly Mute[];
  readonly optionsOf: OptionsOf;
}

/** The options of a subject by its tags and settings; none if it is not a script. */
type OptionsOf = (subject: string) => Promise<ScriptOptions>;

/**
 * Decides which incidents are reported now. One transaction records that and queues the messages: a process that is
 * killed reports either nothing or everything, once.
 *
 * @returns the incidents that the pass has to print
 */
export async function tellIncidents(store: Store, teller: Teller): Promise<readonly PrintedIncident[]> {
  const at = teller.runner.now();
  // Usually none is due: that needs no lock.
  if ((await incidentsOf(store.statements).due(at)).length === 0) return [];
  const optionsOf = createOptionsBook(teller.runner);
  return await store.transaction(async (session) => {
    await incidentsOf(session.statements).lock();
    const mutes = await incidentsOf(session.statements).mutes(at);
    return await tellDue({ ...teller, session, at, mutes, optionsOf });
  });
}

/** Finds the scripts when the first subject is asked for. */
function createOptionsBook({ root, settings }: Teller['runner']): OptionsOf {
  let found: Promise<ReadonlyMap<string, ScriptOptions>> | null = null;
  return async (subject) => {
    if (!subject.includes('/')) return {};
    if (isExecName(subject)) return await optionsOfExec(settings, subject);
    found ??= readOptions(root, settings);
    return (await found).get(subject) ?? {};
  };
}

async function readOptions(root: string, settings: Runner['settings']): Promise<ReadonlyMap<string, ScriptOptions>> {
  try {
    const { tiers, handlers } = await discover(root, settings);
    const scripts = [...tiers.flatMap((tier) => tier.scripts), ...handlers];
    return new Map(scripts.map(({ name, options }) => [name, options]));
  } catch (error) {
    // The pass itself reports a fault of jobs/.
    if (!(error instanceof UsageError)) throw error;
    return new Map();
  }
}

/** Most incidents of a subject that are kept once they are over: a script that fails now and then has many. */
const MOST_OVER = 50;

async function tellDue(context: Context): Promise<readonly PrintedIncident[]> {
  const { session, at, runner } = context;
  const incidents = incidentsOf(session.statements);
  await endCalm(context);
  const due = await incidents.due(at);
  const current = await incidents.current([...new Set(due.map(({ subject }) => subject))]);
  const tellable: TellableIncident[] = [];
  const printed: PrintedIncident[] = [];
  for (const incident of withSiblings(due, current)) {
    const { channels, judging } = await readJudging(context, incident, current);
    const { channelNews, printNews, set } = judge(incident, judging);
    const changed = { ...incident, ...set };
    await incidents.change([{ id: incident.id, set: { ...set, due_at: nextLook(changed, judging) } }]);
    if (channelNews === null && printNews === null) continue;
    const place = { root: runner.root, web: runner.settings.web.url };
    const detail = await describeIncident(session, changed, place);
    if (channelNews !== null) tellable.push({ news: channelNews, detail, channels });
    if (printNews !== null) printed.push({ news: printNews, incident: detail });
  }
  await incidents.prune(at - runner.settings.retention.failedMs, MOST_OVER);
  await queueMessages(context, tellable);
  return printed;
}

/** Ends incidents of handlers of which no job has failed for a while, and one has succeeded since. */
async function endCalm({ session, at }: Context): Promise<void> {
  const incidents = incidentsOf(session.statements);
  const subjects = [...new Set((await incidents.due(at)).filter(isCalming).map(({ subject }) => subject))];
  if (subjects.length === 0) return;
  const current = (await incidents.current(subjects)).filter(({ code }) => isOfRuns(code));
  const calm = current.filter(({ subject }) =>
    current.every((other) => other.subject !== subject || other.last_at <= at - CALM_MS),
  );
  await incidents.change(calm.filter(isCalming).map(({ id }) => ({ id, set: { recovered_at: at } })));
}

function isCalming({ recovered_at, succeeded_at }: IncidentRow): boolean {
  return recovered_at === null && succeeded_at !== null;
}

/** Adds incidents of the same subjects that were too few to be reported until now. */
function withSiblings(due: readonly IncidentRow[], current: readonly IncidentRow[]): readonly IncidentRow[] {
  const ids = new Set(due.map(({ id }) => id));
  const untold = current.filter(
    ({ id, told_at, printed_at }) => !ids.has(id) && told_at === null && printed_at === null,
  );
  return [...due, ...untold].toSorted((one, other) => one.id - other.id);
}

/** The facts, besides the incident itself, that decide what is reported of it. */
interface Judging {
  /** UTC epoch milliseconds. */
  readonly at: number;
  readonly mute: Mute | undefined;
  /** The open incidents of its subject and code. */
  readonly current: readonly IncidentRow[];
  /** Failures in a row before the first report. */
  readonly after: number;
  readonly remindMs: number;
  /** Whether a channel wants to hear of it. */
  readonly hasChannels: boolean;
  /** Whether one of these sends mail, which then takes the place of cron's. */
  readonly hasMail: boolean;
  /** Whether the output of this pass becomes cron's mail. */
  readonly prints: boolean;
}

async function readJudging(context: Context, incident: IncidentRow, current: readonly IncidentRow[]) {
  const { at, prints, mutes, optionsOf } = context;
  const { alerts } = context.runner.settings;
  const options = await optionsOf(incident.subject);
  const channels = findChannels(alerts, incident, options.tags ?? []);
  const judging: Judging = {
    ...{ at, prints, remindMs: alerts.remindMs, mute: findMute(incident, mutes) },
    ...{ hasChannels: channels.length > 0, hasMail: channels.some(({ kind }) => kind === 'mail') },
    after: options.alertAfter ?? alerts.after,
    current: current.filter(({ subject, code }) => subject === incident.subject && code === incident.code),
  };
  return { channels, judging };
}

/** The channels that want to hear of an incident. */
function findChannels(
  { channels }: AlertSettings,
  { severity }: Pick<IncidentRow, 'severity'>,
  tags: readonly string[],
): readonly ChannelSettings[] {
  return channels.filter((channel) => {
    const isBadEnough = channel.severity !== 'critical' || severity === 'critical';
    return isBadEnough && (channel.tags.length === 0 || channel.tags.some((tag) => tags.includes(tag)));
  });
}

/** The mute of a tier also covers its scripts; a handler may be named without `queue/`. */
function findMute({ subject }: IncidentRow, mutes: readonly Mute[]): Mute | undefined {
  const names = [subject, ...(subject.startsWith('queue/') ? [subject.slice('queue/'.length)] : [])];
  return mutes.find(({ name }) => names.some((each) => matchGlob(name, each) || matchGlob(`${name}/*`, each)));
}

interface Judged {
  readonly channelNews: News | null;
  readonly printNews: News | null;
  /** The columns that record the report. */
  readonly set: Partial<IncidentRow>;
}

/** Decides the news of an incident for channels and for cron's mail. */
function judge(incident: IncidentRow, judging: Judging): Judged {
  const nothing: Judged = { channelNews: null, printNews: null, set: {} };
  if (judging.mute !== undefined || isTooEarly(incident, judging)) return nothing;
  const channelNews = judging.hasChannels ? newsForChannels(incident, judging) : null;
  const isMailed = judging.hasMail && channelNews !== null;
  const printNews = judging.prints && !isMailed ? newsForPrint(incident, judging) : null;
  // A mail of a channel makes cron's mail a second one, so it counts as printed.
  const known = isMailed ? channelNews : printNews;
  return { channelNews, printNews, set: { ...marksOfTelling(channelNews, judging), ...marksOfPrint(known, judging) } };
}

/** When to look at an incident again once the report is recorded; null: not before it changes. */
function nextLook(incident: IncidentRow, judging: Judging): number | null {
  const { at, remindMs, hasChannels, prints, mute, current } = judging;
  if (mute !== undefined) return mute.until ?? lastInstantMs;
  if (isTooEarly(incident, judging)) return null;
  const { told_at, reminded_at, printed_at, acknowledged_at, recovered_at, succeeded_at } = incident;
  // A pass that prints nothing leaves it to the next one.
  if (!prints && newsForPrint(incident, judging) !== null) return at;
  if (recovered_at !== null) return null;
  const isReminded = acknowledged_at === null;
  const looks = [
    ...(isReminded && hasChannels && told_at !== null ? [(reminded_at ?? told_at) + remindMs] : []),
    ...(isReminded && printed_at !== null ? [printed_at + remindMs] : []),
    ...(succeeded_at === null ? [] : [Math.max(at, ...current.map(({ last_at }) => last_at + CALM_MS))]),
  ];
  return looks.length === 0 ? null : Math.min(...looks);
}

/** Whether its failures in a row are too few for a first report. */
function isTooEarly({ told_at, printed_at, code }: IncidentRow, { current, after }: Judging): boolean {
  if (told_at !== null || printed_at !== null || code !== FAILING) return false;
  return current.reduce((sum, { occurrences }) => sum + occurrences, 0) < after;
}

function newsForChannels(incident: IncidentRow, judging: Judging): News | null {
  const { told_at, reminded_at, recovery_told_at } = incident;
  return newsAfter(recovery_told_at === null ? told_at : null, reminded_at ?? told_at, incident, judging);
}

/**
 * Findings that stay out of cron's mail. Figures come and go by themselves, and jobs that fail or wait too long are
 * reported as such.
 */
const unprinted: ReadonlySet<string> = new Set<CheckCode>([
  'run-unusual',
  'jobs-failing',
  'jobs-waiting',
  'utilization',
  'service-time',
]);

function newsForPrint(incident: IncidentRow, judging: Judging): News | null {
  return unprinted.has(incident.code) ? null : newsAfter(incident.printed_at, incident.printed_at, incident, judging);
}

/**
 * @param toldAt when the incident was reported, unless its end was reported, too; null: it was not
 * @param lastAt when it was last reported
 */
function newsAfter(
  toldAt: number | null,
  lastAt: number | null,
  { recovered_at, acknowledged_at }: IncidentRow,
  { at, remindMs }: Judging,
): News | null {
  if (recovered_at !== null) return toldAt === null ? null : 'recovered';
  if (toldAt === null) return 'opened';
  return acknowledged_at === null && (lastAt ?? toldAt) + remindMs <= at ? 'reminder' : null;
}

function marksOfTelling(news: News | null, { at }: Judging): Partial<IncidentRow> {
  if (news === 'opened') return { told_at: at };
  if (news === 'reminder') return { reminded_at: at };
  return news === 'recovered' ? { recovery_told_at: at } : {};
}

function marksOfPrint(news: News | null, { at }: Judging): Partial<IncidentRow> {
  return news === null ? {} : { printed_at: news === 'recovered' ? null : at };
}

/** An incident that is reported, and the channels that want to hear of it. */
interface TellableIncident {
  readonly news: News;
  readonly detail: IncidentDetail;
  readonly channels: readonly ChannelSettings[];
}

/** Queues one message for each channel; in quiet hours, a second one of what is not critical, for their end. */
async function queueMessages(context: Context, incidents: readonly TellableIncident[]): Promise<void> {
  const { at, runner } = context;
  const { channels, quiet } = runner.settings.alerts;
  const quietUntil = endOfQuiet(quiet, at);
  for (const { name } of channels) {
    const wanted = incidents.filter((each) => each.channels.some((channel) => channel.name === name));
    const isNow = ({ detail }: TellableIncident) => quietUntil === null || detail.severity === 'critical';
    const { now = [], later = [] } = Object.groupBy(wanted, (each) => (isNow(each) ? 'now' : 'later'));
    await queueMessage(context, name, now, at);
    await queueMessage(context, name, later, quietUntil ?? at);
  }
}

/** A message that must wait takes in all that happens until then. */
async function queueMessage(
  { session, at, runner }: Context,
  channel: string,
  incidents: readonly TellableIncident[],
  wantedAt: number,
): Promise<void> {
  if (incidents.length === 0) return;
  const { perHour } = runner.settings.alerts;
  const statements = incidentsOf(session.statements);
  const message = toMessage(incidents, runner.root);
  const tellings = await statements.tellings(channel, at - HOUR_MS);
  const full = tellings.length < perHour ? null : (tellings.at(-perHour) as number) + HOUR_MS;
  const dueAt = Math.max(wantedAt, full ?? at);
  const pending = dueAt > at ? await statements.pending(channel, at) : null;
  const earlier = pending === null ? null : readQueuedAlert(pending.body);
  if (pending !== null && earlier !== null) {
    return await statements.rewrite(pending.id, JSON.stringify(merge(earlier, message)));
  }
  await statements.addTelling(channel, dueAt);
  await session.deliveries.add([{ kind: 'alert', channel, body: JSON.stringify(message), at: dueAt }]);
}

function toMessage(incidents: readonly TellableIncident[], root: string): AlertMessage {
  const [event, ...others] = new Set(incidents.map(({ news }) => news));
  const details = withFewOutputs(incidents.map(({ detail }) => detail));
  return {
    ...{ version: 1, event: others.length > 0 ? 'digest' : (event ?? 'digest'), incidents: details },
    ...{ host: machineName(), root },
  };
}

/** Most incidents of a message that come with output: a message about hundreds must stay readable. */
const MOST_WITH_OUTPUT = 20;

function withFewOutputs(details: readonly IncidentDetail[]): readonly IncidentDetail[] {
  return details.map((detail, index) => (index < MOST_WITH_OUTPUT ? detail : { ...detail, output: null }));
}

/** If both messages hold an incident, the later one counts. */
function merge(earlier: AlertMessage, later: AlertMessage): AlertMessage {
  const byId = new Map([...earlier.incidents, ...later.incidents].map((detail) => [detail.id, detail]));
  const incidents = withFewOutputs([...byId.values()]);
  const isOver = incidents.every(({ recoveredAt }) => recoveredAt !== null);
  const event = isOver ? 'recovered' : earlier.event === later.event ? later.event : 'digest';
  return { ...later, event, incidents };
}

/** When the present quiet hours end by the local clock, in epoch milliseconds; null: these are none. */
function endOfQuiet(quiet: AlertSettings['quiet'], at: number): number | null {
  if (quiet === null || quiet.from === quiet.until) return null;
  const date = new Date(at);
  const minute = date.getHours() * 60 + date.getMinutes();
  const { from, until } = quiet;
  const isQuiet = from < until ? from <= minute && minute < until : minute >= from || minute < until;
  if (!isQuiet) return null;
  // A night in which the clock changes is an hour shorter or longer.
  const end = new Date(at);
  end.setHours(Math.floor(until / 60), until % 60, 0, 0);
  if (end.getTime() <= at) end.setDate(end.getDate() + 1);
  return Math.min(end.getTime(), at + 25 * HOUR_MS);
}
