import { CALM_MS } from '../../../queue/settle/retry-policy.ts';
import type { IncidentRow } from '../../../store/schema.ts';
import type { Mute } from '../../../store/statements/monitor/incidents.ts';
import { FAILING } from '../../../store/words.ts';
import { matchGlob } from '../../../system/base/glob.ts';
import { lastInstantMs } from '../../../system/base/values.ts';
import type { CheckCode } from '../../checks/finding.ts';

/** What there is to be told of an incident. */
export type News = 'opened' | 'reminder' | 'recovered';

/** What is to be told depends on, besides the incident itself. */
export interface Judging {
  /** UTC epoch milliseconds. */
  readonly at: number;
  readonly mutes: readonly Mute[];
  /** What of its subject and code is not over. */
  readonly current: readonly IncidentRow[];
  /** Failures in a row before anybody is told. */
  readonly after: number;
  readonly remindMs: number;
  /** Whether a channel wants to be told of it. */
  readonly hasChannels: boolean;
  /** Whether one of them is a mail, which then takes the place of cron's. Left out: none is. */
  readonly hasMail?: boolean;
  /** Whether this pass prints for cron's mail. */
  readonly prints: boolean;
}

interface Judged {
  readonly channelNews: News | null;
  readonly printNews: News | null;
  /** By which it is noted as told. */
  readonly set: Partial<IncidentRow>;
}

const nothing: Judged = { channelNews: null, printNews: null, set: {} };

/** What of an incident is to be told now, and to whom. */
export function judge(incident: IncidentRow, judging: Judging): Judged {
  if (findMute(incident, judging) !== undefined || isTooEarly(incident, judging)) return nothing;
  const channelNews = judging.hasChannels ? newsForChannels(incident, judging) : null;
  const isMailed = judging.hasMail === true && channelNews !== null;
  const mayPrint = judging.prints && !isMailed && isPrintable(incident);
  const printNews = mayPrint ? newsForPrint(incident, judging) : null;
  // Whoever gets a mail of a channel has the news: cron's would be the second one.
  const known = isMailed ? channelNews : printNews;
  return {
    channelNews,
    printNews,
    set: { ...marksOfTelling(channelNews, judging), ...marksOfPrint(known, judging) },
  };
}

/** When to look at it again, as it is after that; null: not before something happens. */
export function nextLook(incident: IncidentRow, judging: Judging): number | null {
  const { at, remindMs, hasChannels, prints } = judging;
  const mute = findMute(incident, judging);
  if (mute !== undefined) return mute.until ?? lastInstantMs;
  if (isTooEarly(incident, judging)) return null;
  const { told_at, reminded_at, printed_at, acknowledged_at, recovered_at, succeeded_at } = incident;
  // A pass that prints nothing leaves it to the next one.
  const isUnprinted = !prints && isPrintable(incident) && newsForPrint(incident, judging) !== null;
  if (isUnprinted) return at;
  if (recovered_at !== null) return null;
  const isReminded = acknowledged_at === null;
  const looks = [
    ...(isReminded && hasChannels && told_at !== null ? [(reminded_at ?? told_at) + remindMs] : []),
    ...(isReminded && printed_at !== null ? [printed_at + remindMs] : []),
    ...(succeeded_at === null ? [] : [calmFrom(judging)]),
  ];
  return looks.length === 0 ? null : Math.min(...looks);
}

/** With what is due, what was seen of the same subjects before it was enough to be told. */
export function withSiblings(due: readonly IncidentRow[], current: readonly IncidentRow[]): readonly IncidentRow[] {
  const ids = new Set(due.map(({ id }) => id));
  const untold = current.filter(
    ({ id, told_at, printed_at }) => !ids.has(id) && told_at === null && printed_at === null,
  );
  return [...due, ...untold].toSorted((one, other) => one.id - other.id);
}

/** A tier's mute is one of its scripts; a handler has its name without `queue/`, too. */
function findMute({ subject }: IncidentRow, { mutes }: Judging): Mute | undefined {
  const names = [subject, ...(subject.startsWith('queue/') ? [subject.slice('queue/'.length)] : [])];
  return mutes.find(({ name }) => names.some((each) => matchGlob(name, each) || matchGlob(`${name}/*`, each)));
}

/** Its failures in a row are not many enough; what was told once stays told. */
function isTooEarly(incident: IncidentRow, { current, after }: Judging): boolean {
  const { told_at, printed_at, code } = incident;
  if (told_at !== null || printed_at !== null || code !== FAILING) return false;
  return current.reduce((sum, { occurrences }) => sum + occurrences, 0) < after;
}

/**
 * What does not go into cron's mail. Figures come and go by themselves, and jobs that fail, or wait for too long, are
 * told of as such.
 */
const unprinted: ReadonlySet<string> = new Set<CheckCode>([
  'run-unusual',
  'jobs-failing',
  'jobs-waiting',
  'utilization',
  'service-time',
]);

function isPrintable({ code }: IncidentRow): boolean {
  return !unprinted.has(code);
}

function newsForChannels(incident: IncidentRow, { at, remindMs }: Judging): News | null {
  const { told_at, reminded_at, recovered_at, recovery_told_at, acknowledged_at } = incident;
  if (recovered_at !== null) return told_at !== null && recovery_told_at === null ? 'recovered' : null;
  if (told_at === null) return 'opened';
  return acknowledged_at === null && (reminded_at ?? told_at) + remindMs <= at ? 'reminder' : null;
}

function newsForPrint({ printed_at, recovered_at, acknowledged_at }: IncidentRow, judging: Judging): News | null {
  if (recovered_at !== null) return printed_at === null ? null : 'recovered';
  if (printed_at === null) return 'opened';
  return acknowledged_at === null && printed_at + judging.remindMs <= judging.at ? 'reminder' : null;
}

function marksOfTelling(news: News | null, { at }: Judging): Partial<IncidentRow> {
  if (news === 'opened') return { told_at: at };
  if (news === 'reminder') return { reminded_at: at };
  return news === 'recovered' ? { recovery_told_at: at } : {};
}

function marksOfPrint(news: News | null, { at }: Judging): Partial<IncidentRow> {
  if (news === null) return {};
  return { printed_at: news === 'recovered' ? null : at };
}

function calmFrom({ current, at }: Judging): number {
  return Math.max(at, ...current.map(({ last_at }) => last_at + CALM_MS));
}
