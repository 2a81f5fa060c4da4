import prettyMilliseconds from 'pretty-ms';
import { describeEnding, FAILING, SUSPECT } from '../../store/words.ts';
import { printable, printableLine } from '../../system/base/text.ts';
import type { AlertMessage, IncidentDetail } from './message.ts';

/** A message in words, ready to be put into whatever form a channel asks for. All of it is safe to show. */
export interface Wording {
  /** One line; those of one incident stand together where a mailbox is sorted by subject. */
  readonly subject: string;
  readonly isCritical: boolean;
  /** Whether it only says that something is over. */
  readonly isRecovery: boolean;
  readonly parts: readonly Part[];
  /** What has found no room; null: all is there. */
  readonly more: string | null;
  /** Where it comes from. */
  readonly origin: string;
}

/** What is said of one incident. */
export interface Part {
  readonly title: string;
  readonly isOver: boolean;
  /** What is known, under its name. */
  readonly facts: readonly (readonly [name: string, text: string])[];
  /** The last lines that were printed. */
  readonly output: string | null;
  readonly command: string;
}

/** A storm tells of so many in full; the others are only named. */
const MOST_PARTS = 20;
const MOST_NAMED = 100;
const LONGEST_OUTPUT = 4_000;
const LONGEST_FACT = 1_000;
const LONGEST_SUBJECT = 150;

/** Puts a message into words. */
export function putIntoWords(message: AlertMessage): Wording {
  const { incidents, event } = message;
  // What is not over comes first, and of that the worst.
  const sorted = incidents.toSorted((one, other) => weigh(other) - weigh(one));
  const open = incidents.filter(isOpen);
  const left = sorted.slice(MOST_PARTS).map(({ subject }) => printableLine(subject));
  return {
    subject: subjectOf(message, sorted),
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

function subjectOf({ host, event }: AlertMessage, sorted: readonly IncidentDetail[]): string {
  const [first] = sorted;
  const place = `[runner ${printableLine(host)}]`;
  if (first !== undefined && sorted.length === 1) {
    return keepStart(`${place} ${titleOf(first, event === 'reminder')}`, LONGEST_SUBJECT);
  }
  const open = sorted.filter(isOpen).length;
  const counts = [
    ...(open === 0 ? [] : [`${open} ${open === 1 ? 'problem' : 'problems'}`]),
    ...(open === sorted.length ? [] : [`${sorted.length - open} recovered`]),
  ];
  const names = [...new Set(sorted.map(({ subject }) => printableLine(subject)))];
  return keepStart(`${place} ${counts.join(', ')}: ${list(names, 3)}`, LONGEST_SUBJECT);
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
    output: incident.output === null ? null : keepEnd(printable(incident.output).trimEnd(), LONGEST_OUTPUT) || null,
    command: printableLine(incident.command),
  };
}

function describeRun({ id, startedAt, durationMs, exitCode, signal }: NonNullable<IncidentDetail['lastRun']>): string {
  const parts = [`number ${id}`, `began ${localTime(startedAt)}`];
  if (durationMs !== null) parts.push(`took ${durationOf(durationMs)}`);
  if (signal !== null) parts.push(`ended by ${signal}`);
  else if (exitCode !== null) parts.push(`exit code ${exitCode}`);
  return parts.join(', ');
}

/** `, after 3h 5m`; nothing if it is not over, or a clock that was set back hides how long it lasted. */
export function afterHowLong({ openedAt, recoveredAt }: Pick<IncidentDetail, 'openedAt' | 'recoveredAt'>): string {
  return recoveredAt === null || recoveredAt < openedAt ? '' : `, after ${durationOf(recoveredAt - openedAt)}`;
}

function durationOf(ms: number): string {
  return prettyMilliseconds(ms, { unitCount: 2, secondsDecimalDigits: 1 });
}

/** `2026-11-03 14:05 +01:00` */
export function localTime(ms: number): string {
  const minutes = -new Date(ms).getTimezoneOffset();
  const local = new Date(ms + minutes * 60_000).toISOString();
  const pad = (count: number): string => String(Math.floor(Math.abs(count))).padStart(2, '0');
  return `${local.slice(0, 10)} ${local.slice(11, 16)} ${minutes < 0 ? '-' : '+'}${pad(minutes / 60)}:${pad(minutes % 60)}`;
}

function list(names: readonly string[], most: number): string {
  const shown = names.slice(0, most).join(', ');
  return names.length > most ? `${shown} and ${names.length - most} more` : shown;
}

/** So many characters at most, none of them halved. */
export function keepStart(text: string, most: number): string {
  if (text.length <= most) return text;
  return `${text.slice(0, most - 1).replace(/[\ud800-\udbff]$/, '')}…`;
}

/** The same of its end: what was printed last says most. */
export function keepEnd(text: string, most: number): string {
  if (text.length <= most) return text;
  return `…${text.slice(1 - most).replace(/^[\udc00-\udfff]/, '')}`;
}

/** As plain text, at most so many characters, of which outputs are the first to be left out. */
export function writePlain(wording: Wording, most = Number.POSITIVE_INFINITY): string {
  const whole = joinPlain(wording, true);
  return whole.length <= most ? whole : keepStart(joinPlain(wording, false), most);
}

function joinPlain({ parts, more, origin }: Wording, withOutput: boolean): string {
  const texts = parts.map((part) => {
    const facts = part.facts.map(
      ([name, text]) => `  ${name.padEnd(9)} ${text.replaceAll('\n', `\n${' '.repeat(12)}`)}`,
    );
    const output =
      withOutput && part.output !== null ? ['', ...part.output.split('\n').map((line) => `  | ${line}`)] : [];
    return [part.title, ...facts, `  look      ${part.command}`, ...output].join('\n');
  });
  return `${[...texts, ...(more === null ? [] : [more]), origin].join('\n\n')}\n`;
}

/** As a page for mail programs, which know few styles. */
export function writeHtml({ parts, more, origin }: Wording): string {
  const texts = parts.map((part) => {
    const rows = [...part.facts, ['look', part.command] as const].map(
      ([name, text]) =>
        `<tr><td style="color:#666;padding-right:1em;vertical-align:top">${name}</td>` +
        `<td style="white-space:pre-wrap">${escapeHtml(text)}</td></tr>`,
    );
    const color = part.isOver ? '#1a7f37' : '#b3261e';
    const output =
      part.output === null
        ? ''
        : `<pre style="background:#f4f4f4;padding:8px;white-space:pre-wrap">${escapeHtml(part.output)}</pre>`;
    return `<h3 style="color:${color};margin-bottom:4px">${escapeHtml(part.title)}</h3><table>${rows.join('')}</table>${output}`;
  });
  const rest = more === null ? '' : `<p>${escapeHtml(more)}</p>`;
  return (
    '<!doctype html><html><body style="font-family:sans-serif;font-size:14px">' +
    `${texts.join('')}${rest}<p style="color:#666">${escapeHtml(origin)}</p></body></html>\n`
  );
}

/** For HTML, and for services that take some of its tags. */
export function escapeHtml(text: string): string {
  const names: Readonly<Record<string, string>> = { '&': 'amp', '<': 'lt', '>': 'gt', '"': 'quot', "'": '#39' };
  return text.replace(/[&<>"']/g, (character) => `&${names[character]};`);
}
