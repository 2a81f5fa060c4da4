import type { IncidentRow } from '../../store/schema.ts';
import { type IncidentRun, incidentsOf } from '../../store/statements/monitor/incidents.ts';
import { usualOf } from '../../store/statements/monitor/usual.ts';
import type { StoreSession } from '../../store/store.ts';
import {
  describeEnding,
  FAILING,
  type IncidentEnding,
  isOfRuns,
  type Outcome,
  type Severity,
  SUSPECT,
} from '../../store/words.ts';
import { formatDuration } from '../../system/base/format.ts';
import { escapeHtml, keepEnd, keepStart, printable, printableLine, printableOutput } from '../../system/base/text.ts';
import { commandIn, isInstant, pageAt, shellWord } from '../../system/base/values.ts';
import { mailCommand, mailHeading, mailLink, mailPage } from './html.ts';

/** An incident as a message reports it. Unknown values are null. */
export interface IncidentDetail {
  readonly id: number;
  readonly subject: string;
  readonly severity: Severity;
  readonly code: string;
  /** UTC epoch milliseconds. */
  readonly openedAt: number;
  /** Null: it is not over. */
  readonly recoveredAt: number | null;
  /** How it ended, unless by a success or a check that finds nothing. */
  readonly ending: IncidentEnding | null;
  /** How to fix it; or why its script, handler or tier is gone. */
  readonly hint: string | null;
  readonly occurrences: number;
  readonly lastRun: LastRun | null;
  /** One sentence: the reason of the last run's failure, or a check's finding. */
  readonly error: string | null;
  /** The last lines of the run's output, masked. */
  readonly output: string | null;
  /** The usual outcome: "succeeds in 41s, 27 of the last 30 times". */
  readonly usual: string | null;
  /** The change of the script since its last success. */
  readonly changed: string | null;
  /** The command that shows more, or fixes it. */
  readonly command: string;
  /** The page of the dashboard that shows more; null: the setting `web.url` is absent. */
  readonly page: string | null;
}

interface LastRun {
  readonly id: number;
  /** The job of the queue; null: the run was a script's. */
  readonly jobId: number | null;
  readonly outcome: Outcome;
  readonly startedAt: number;
  readonly durationMs: number | null;
  readonly exitCode: number | null;
  readonly signal: string | null;
}

/** `digest`: some incidents have opened, others are over. */
export type AlertEvent = 'opened' | 'reminder' | 'recovered' | 'digest';

/** The body of a webhook; all other channels write it as a text. */
export interface AlertMessage {
  readonly version: 1;
  readonly event: AlertEvent;
  readonly incidents: readonly IncidentDetail[];
  readonly host: string;
  readonly root: string;
}

/** Reads a message from the log, to which other programs may write; null: no runner has written this one. */
export function readQueuedAlert(body: string): AlertMessage | null {
  const message = parseMessage(body);
  const isAlert = message?.version === 1 && Array.isArray(message.incidents) && message.incidents.every(isDetail);
  return isAlert ? (message as AlertMessage) : null;
}

function parseMessage(text: string): Partial<AlertMessage> | null {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

const kindsOfDetail: readonly (readonly [kind: string, names: readonly (keyof IncidentDetail)[]])[] = [
  ['number', ['id', 'openedAt', 'occurrences']],
  ['string', ['subject', 'severity', 'code', 'command']],
  ['number or null', ['recoveredAt']],
  ['string or null', ['ending', 'hint', 'error', 'output', 'usual', 'changed', 'page']],
  ['object or null', ['lastRun']],
];

function isDetail(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return false;
  const detail = value as Readonly<Record<string, unknown>>;
  return kindsOfDetail.every(([kind, names]) =>
    names.every((name) =>
      (detail[name] ?? null) === null ? kind.endsWith('null') : kind.startsWith(typeof detail[name]),
    ),
  );
}

/** The site that a message is about. */
interface Place {
  readonly root: string;
  /** The address of its dashboard; null: not known. */
  readonly web: string | null;
}

/** Reads all that a message says of an incident. */
export async function describeIncident(
  session: StoreSession,
  incident: IncidentRow,
  { root, web }: Place,
): Promise<IncidentDetail> {
  const { id, subject, severity, code, occurrences, message, ending, hint } = incident;
  const run = await incidentsOf(session.statements).lastRun(incident);
  return {
    ...{ id, subject, severity, code, occurrences },
    ...{ openedAt: incident.opened_at, recoveredAt: incident.recovered_at, ending, hint },
    lastRun: toLastRun(run),
    error: message,
    output: lastLines(run?.output ?? null),
    usual: code === FAILING ? await readUsual(session, subject) : null,
    changed: run === null ? null : await readChange(session, run.id),
    command: commandOf(incident, run, root),
    page: pageOf(incident, run, web),
  };
}

function toLastRun(run: IncidentRun | null): LastRun | null {
  if (run === null) return null;
  const { id, queueJobId: jobId, startedAt, durationMs, outcome, exitCode, signal } = run;
  return { id, jobId, startedAt, durationMs, outcome, exitCode, signal };
}

const LAST_LINES = 20;

function lastLines(output: string | null): string | null {
  const text = output?.trimEnd() ?? '';
  return text === '' ? null : text.split('\n').slice(-LAST_LINES).join('\n');
}

/** How many of the newest runs show a script's usual outcome. */
const USUAL_RUNS = 30;

/** "succeeds in 41s, 27 of the last 30 times"; null: it has no other runs, or none of them succeeded. */
async function readUsual({ statements }: StoreSession, subject: string): Promise<string | null> {
  const outcomes = await incidentsOf(statements).outcomes(subject, USUAL_RUNS);
  const succeeded = outcomes.filter(({ outcome }) => outcome === 'succeeded');
  if (succeeded.length === 0) return null;
  const { durationMs } = await usualOf(statements).figures(subject);
  const took = durationMs === null ? '' : ` in ${formatDuration(durationMs)}`;
  return `succeeds${took}, ${succeeded.length} of the last ${outcomes.length} times`;
}

/** Compares the time of the last success with that of the first run of the present content. */
async function readChange({ statements }: StoreSession, runId: number): Promise<string | null> {
  const change = await usualOf(statements).change({ runId });
  if (change === null) return null;
  const [succeeded, changed] = [change.lastSuccessAt, change.changedAt].map(inUtc);
  return `its content has changed: it last succeeded ${succeeded}, and the new content first ran ${changed}`;
}

/** `2026-03-10 13:05 UTC`, as readers are on other machines. */
function inUtc(atMs: number): string {
  return isInstant(atMs) ? `${new Date(atMs).toISOString().slice(0, 16).replace('T', ' ')} UTC` : 'at an unknown time';
}

/** The command names the root, as readers are in another folder, or on another machine. */
function commandOf(incident: IncidentRow, run: IncidentRun | null, root: string): string {
  const { subject, code, hint, ending } = incident;
  if (run !== null) return commandIn(root, `show ${run.id}`);
  if (ending !== null) return commandIn(root, 'incidents --all');
  if (isOfRuns(code)) return commandIn(root, `why ${shellWord(subject.replace(/^queue\//, ''))}`);
  return hint ?? commandIn(root, 'check');
}

function pageOf({ subject, code, ending }: IncidentRow, run: IncidentRun | null, web: string | null): string | null {
  if (run !== null) return pageAt(web, 'runs', run.id);
  return isOfRuns(code) && ending === null ? pageAt(web, 'scripts', subject) : pageAt(web, 'incidents');
}

/** A message as texts, from which each channel makes its own form. All of them are safe to show. */
export interface Wording {
  /** One line. A mailbox that sorts by subject shows the messages of one incident together. */
  readonly subject: string;
  /** The subject without its place, above several incidents; null: there is one, with a title. */
  readonly headline: string | null;
  readonly isCritical: boolean;
  /** Whether all its incidents are over. */
  readonly isRecovery: boolean;
  readonly parts: readonly Part[];
  /** Names the incidents that have no part; null: there are none. */
  readonly more: string | null;
  /** The root and the machine. */
  readonly origin: string;
}

/** The texts of one incident. */
export interface Part {
  readonly title: string;
  readonly isOver: boolean;
  readonly facts: readonly (readonly [name: string, text: string])[];
  readonly output: string | null;
  readonly command: string;
  /** The address of a page; null: none is known. */
  readonly page: string | null;
}

/** Most incidents with a part, and most of the others that are named. */
const MOST_PARTS = 20;
const MOST_NAMED = 100;
const LONGEST_OUTPUT = 4_000;
const LONGEST_FACT = 1_000;
const LONGEST_SUBJECT = 150;

/** Writes the texts of a message. */
export function putIntoWords(message: AlertMessage): Wording {
  const { incidents, event } = message;
  // Open incidents come first, and of these the critical ones.
  const sorted = incidents.toSorted((one, other) => weigh(other) - weigh(one));
  const open = incidents.filter(isOpen);
  const headline = headlineOf(message, sorted);
  const left = sorted.slice(MOST_PARTS).map(({ subject }) => printableLine(subject));
  return {
    subject: keepStart(`[runner ${printableLine(message.host)}] ${headline}`, LONGEST_SUBJECT),
    headline: sorted.length === 1 ? null : headline,
    isCritical: open.some(({ severity }) => severity === 'critical'),
    isRecovery: open.length === 0,
    parts: sorted.slice(0, MOST_PARTS).map((incident) => partOf(incident, event === 'reminder')),
    more: left.length === 0 ? null : `and ${left.length} more: ${list(left, MOST_NAMED)}`,
    origin: printableLine(`${message.root} on ${message.host}`),
  };
}

const isOpen = ({ recoveredAt }: IncidentDetail): boolean => recoveredAt === null;

function weigh(incident: IncidentDetail): number {
  return (isOpen(incident) ? 2 : 0) + (incident.severity === 'critical' ? 1 : 0);
}

/** Names the incident, or counts several: `2 problems, 1 recovered: hourly/backup, …`. */
function headlineOf({ event }: AlertMessage, sorted: readonly IncidentDetail[]): string {
  const [first] = sorted;
  if (first !== undefined && sorted.length === 1) return titleOf(first, event === 'reminder');
  const open = sorted.filter(isOpen).length;
  const counts = [
    ...(open === 0 ? [] : [`${open} ${open === 1 ? 'problem' : 'problems'}`]),
    ...(open === sorted.length ? [] : [`${sorted.length - open} recovered`]),
  ];
  const names = [...new Set(sorted.map(({ subject }) => printableLine(subject)))];
  return `${counts.join(', ')}: ${list(names, 3)}`;
}

/** "hourly/backup is failing", "hourly: tier overdue", "hourly/backup has recovered", "hourly/backup is gone" */
function titleOf({ subject, code, recoveredAt, ending }: IncidentDetail, isReminder: boolean): string {
  const name = printableLine(subject);
  if (ending !== null) return `${name} ${ending === 'gone' ? 'is gone' : 'was closed by hand'}`;
  if (recoveredAt !== null) return `${name} has recovered${code === FAILING ? '' : ` (${wordsOf(code)})`}`;
  const still = isReminder ? 'still ' : '';
  if (code === SUSPECT) return `${name} ${still}succeeds with a warning`;
  return code === FAILING ? `${name} is ${still}failing` : `${name}: ${still}${wordsOf(code)}`;
}

const wordsOf = (code: string): string => printableLine(code).replaceAll('-', ' ');

function partOf(incident: IncidentDetail, isReminder: boolean): Part {
  const { openedAt, recoveredAt, occurrences, lastRun, error, usual, changed } = incident;
  const times = occurrences > 1 ? `, ${occurrences} times` : '';
  const facts: [string, string | null][] = [
    ['since', `${localTime(openedAt)}${times}`],
    ['until', recoveredAt === null ? null : `${localTime(recoveredAt)}${afterHowLong(incident)}`],
    ['ended', describeEnding(incident)],
    ['error', error],
    ['last run', lastRun && describeRun(lastRun)],
    ['usually', usual],
    ['changed', changed],
  ];
  return {
    title: titleOf(incident, isReminder),
    isOver: recoveredAt !== null,
    facts: facts.flatMap(([name, text]) =>
      text ? [[name, keepStart(printable(text).trim(), LONGEST_FACT)] as const] : [],
    ),
    output:
      incident.output === null ? null : keepEnd(printableOutput(incident.output).trimEnd(), LONGEST_OUTPUT) || null,
    command: printableLine(incident.command),
    // Other programs write to the log, too.
    page: /^https?:\/\/[^\s<>"'`|\\]+$/.test(incident.page ?? '') ? incident.page : null,
  };
}

function describeRun({ id, startedAt, durationMs, exitCode, signal }: NonNullable<IncidentDetail['lastRun']>): string {
  const parts = [`number ${id}`, `began ${localTime(startedAt)}`];
  if (durationMs !== null) parts.push(`took ${formatDuration(durationMs)}`);
  if (signal !== null) parts.push(`ended by ${signal}`);
  else if (exitCode !== null) parts.push(`exit code ${exitCode}`);
  return parts.join(', ');
}

/** `, after 3h 5m`; empty if the incident is open, or its end lies before its beginning as a clock was set back. */
export function afterHowLong({ openedAt, recoveredAt }: Pick<IncidentDetail, 'openedAt' | 'recoveredAt'>): string {
  return recoveredAt === null || recoveredAt < openedAt ? '' : `, after ${formatDuration(recoveredAt - openedAt)}`;
}

/** `2026-11-03 14:05 +01:00` */
function localTime(ms: number): string {
  const minutes = -new Date(ms).getTimezoneOffset();
  const local = new Date(ms + minutes * 60_000).toISOString();
  const pad = (count: number): string => String(Math.floor(Math.abs(count))).padStart(2, '0');
  return `${local.slice(0, 10)} ${local.slice(11, 16)} ${minutes < 0 ? '-' : '+'}${pad(minutes / 60)}:${pad(minutes % 60)}`;
}

function list(names: readonly string[], most: number): string {
  const shown = names.slice(0, most).join(', ');
  return names.length > most ? `${shown} and ${names.length - most} more` : shown;
}

/** Writes plain text of at most this many UTF-16 units; outputs are left out first. */
export function writePlain(wording: Wording, most = Number.POSITIVE_INFINITY): string {
  const whole = joinPlain(wording, true);
  return whole.length <= most ? whole : keepStart(joinPlain(wording, false), most);
}

function joinPlain({ headline, parts, more, origin }: Wording, withOutput: boolean): string {
  const texts = parts.map((part) => {
    const facts = part.facts.map(
      ([name, text]) => `  ${name.padEnd(9)} ${text.replaceAll('\n', `\n${' '.repeat(12)}`)}`,
    );
    const output =
      withOutput && part.output !== null ? ['', ...part.output.split('\n').map((line) => `  | ${line}`)] : [];
    const page = part.page === null ? [] : [`  page      ${part.page}`];
    return [part.title, ...facts, `  look      ${part.command}`, ...page, ...output].join('\n');
  });
  return `${[...(headline === null ? [] : [headline]), ...texts, ...(more === null ? [] : [more]), origin].join('\n\n')}\n`;
}

/** Writes a page for mail programs. */
export function writeHtml({ subject, headline, isRecovery, parts, more, origin }: Wording): string {
  const texts = parts.map(({ title, isOver, facts, output, command, page }) => {
    const rows = facts.map(([name, text]) => `<tr><th scope="row">${name}</th><td>${escapeHtml(text)}</td></tr>`);
    const link = page === null ? '' : `<tr><th scope="row">page</th><td>${mailLink(page)}</td></tr>`;
    const look = `<tr><th scope="row">look</th><td>${mailCommand(command)}</td></tr>${link}`;
    const heading = mailHeading(headline === null ? 1 : 2, title, isOver ? 'good' : 'bad');
    const printed = output === null ? '' : `<pre>${escapeHtml(output)}</pre>`;
    return `${heading}<table class="facts">${rows.join('')}${look}</table>${printed}`;
  });
  const head = headline === null ? '' : mailHeading(1, headline, isRecovery ? 'good' : 'bad');
  const rest = more === null ? '' : `<p>${escapeHtml(more)}</p>`;
  return mailPage(subject, `${head}${texts.join('')}${rest}<p class="quiet">${escapeHtml(origin)}</p>`);
}
