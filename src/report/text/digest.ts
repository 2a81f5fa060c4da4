import {
  countOf,
  describeRises,
  formatBytes,
  formatCount,
  formatDuration,
  formatRate,
} from '../../system/base/format.ts';
import { escapeHtml, keepStart, printableLine } from '../../system/base/text.ts';
import { commandIn } from '../../system/base/values.ts';
import type { Digest } from '../model/digest.ts';
import type { ScriptOverview, TierOverview } from '../model/overview.ts';
import type { Clock } from './clock.ts';

/** A digest in words, for a mail. All of it is safe to show. */
export interface DigestText {
  readonly subject: string;
  readonly text: string;
  readonly html: string;
}

interface Section {
  readonly title: string;
  /** The text of an empty section; null: an empty section is left out. */
  readonly empty: string | null;
  readonly rows: readonly (readonly string[])[];
  /** The words of the command that shows more. */
  readonly command: string;
}

interface Place {
  readonly host: string;
  readonly root: string;
  readonly clock: Clock;
}

const LONGEST_CELL = 200;
const MOST_ROWS = 20;

/** Puts a digest into words: plain text and HTML with the same content. */
export function writeDigest(digest: Digest, place: Place): DigestText {
  const { clock, root, host } = place;
  const { sinceMs, untilMs } = digest.overview;
  const { title, sinceMs: wrongMs } = digest.verdict;
  const verdict = wrongMs === null ? title : `${title} since ${clock.short(wrongMs)}`;
  const head = [
    verdict,
    `${clock.dateTime(sinceMs)} to ${clock.dateTime(untilMs)} (${clock.zone})`,
    describeTotals(digest),
  ];
  const sections = [failures, missed, incidents(clock), risen(clock), costly, ran]
    .map((section) => section(digest))
    .filter(({ rows, empty }) => rows.length > 0 || empty !== null)
    .map((section) => ({ ...section, command: printableLine(commandIn(root, section.command)) }));
  const origin = printableLine(`${root} on ${host}`);
  return {
    subject: `[runner ${printableLine(host)}] ${subjectOf(digest)}`,
    text: `${[head.join('\n'), ...sections.map(plainSection), origin].join('\n\n')}\n`,
    html: htmlPage(head, sections.map(htmlSection), origin),
  };
}

function subjectOf({ verdict, overview }: Digest): string {
  const { runs, failed } = overview.totals;
  const passes = overview.tiers.reduce((sum, { missed: gap }) => sum + (gap?.count ?? 0), 0);
  const counts = [
    countOf(runs, 'run'),
    failed === 0 ? 'none failed' : `${formatCount(failed)} failed`,
    ...(passes === 0 ? [] : [`${countOf(passes, 'pass', 'passes')} missed`]),
  ];
  return `${verdict.title}: ${counts.join(', ')}`;
}

function describeTotals({ overview: { totals, scripts } }: Digest): string {
  const ran = scripts.filter(({ runs }) => runs > 0).length;
  return [
    countOf(ran, 'script'),
    countOf(totals.runs, 'run'),
    `${formatCount(totals.failed)} failed`,
    `${formatRate(totals.successRate)} succeeded`,
    `${formatDuration(totals.totalDurationMs)} in total`,
    `${formatDuration(totals.totalCpuMs)} of CPU`,
  ].join(' · ');
}

function failures({ failing }: Digest): Section {
  const rows = failing.map(({ script, failed, runs, lastError }) => [
    script,
    `${formatCount(failed)} of ${formatCount(runs)} failed`,
    lastError === null ? 'succeeded last' : lastError,
  ]);
  return { title: 'Failures', empty: 'Nothing failed.', rows, command: 'report --outcome failed' };
}

function missed({ overview }: Digest): Section {
  const rows = overview.tiers.flatMap((tier) => {
    const texts = describeMissed(tier);
    return texts.length === 0 ? [] : [[tier.tier, texts.join(', ')]];
  });
  return { title: 'Missed', empty: 'No pass was missed.', rows, command: 'status' };
}

function describeMissed({ missed: gap, skippedPasses }: TierOverview): string[] {
  return [
    ...(gap !== null && gap.count > 0
      ? [`${countOf(gap.count, 'expected pass', 'expected passes')} did not happen`]
      : []),
    ...(skippedPasses > 0 ? [`${countOf(skippedPasses, 'pass', 'passes')} skipped`] : []),
  ];
}

const incidents =
  (clock: Clock) =>
  ({ incidents: found }: Digest): Section => ({
    title: 'Incidents',
    empty: 'None.',
    rows: found.map(({ subject, code, openedAtMs, recoveredAtMs, occurrences }) => [
      subject,
      code.replaceAll('-', ' '),
      `since ${clock.short(openedAtMs)}`,
      recoveredAtMs === null ? 'still open' : `over ${clock.short(recoveredAtMs)}`,
      occurrences === 1 ? 'once' : `${formatCount(occurrences)} times`,
    ]),
    command: 'incidents',
  });

const risen =
  (clock: Clock) =>
  ({ risen: found }: Digest): Section => ({
    title: 'Slower than usual',
    empty: 'Nothing is slower or needs more memory than usual.',
    rows: found.map((script) => [script.script, describeRises(script, clock.short).join('; ')]),
    command: 'report <script>',
  });

function costly({ costly: found }: Digest): Section {
  const rows = found.map(({ script, cpuMs, share }) => [script, `${formatDuration(cpuMs)} of CPU`, formatRate(share)]);
  return { title: 'What costs most', empty: null, rows, command: 'runner metrics' };
}

function ran({ overview }: Digest): Section {
  const rows = overview.scripts.filter(({ runs }) => runs > 0).map(describeScript);
  return { title: 'What ran', empty: 'Nothing ran.', rows, command: 'report' };
}

function describeScript({ script, ...summary }: ScriptOverview): string[] {
  return [
    script,
    countOf(summary.runs, 'run'),
    formatRate(summary.successRate),
    `p50 ${formatDuration(summary.p50DurationMs)}`,
    `max ${formatDuration(summary.maxDurationMs)}`,
    formatBytes(summary.maxRssBytes),
  ];
}

const cellOf = (text: string): string => keepStart(printableLine(text), LONGEST_CELL);

function moreOf({ rows }: Section): string | null {
  return rows.length > MOST_ROWS ? `and ${formatCount(rows.length - MOST_ROWS)} more` : null;
}

function plainSection(section: Section): string {
  const rows = section.rows.slice(0, MOST_ROWS).map((row) => row.map(cellOf));
  const widths = (rows[0] ?? []).map((_, index) => Math.max(...rows.map((row) => row[index]?.length ?? 0)));
  const lines = rows.map((row) =>
    `  ${row.map((cell, index) => cell.padEnd(widths[index] ?? 0)).join('  ')}`.trimEnd(),
  );
  const rest = [moreOf(section), rows.length === 0 ? section.empty : `look: ${section.command}`];
  return [section.title, ...lines, ...rest.flatMap((text) => (text === null ? [] : `  ${text}`))].join('\n');
}

function htmlSection(section: Section): string {
  const title = `<h3 style="margin-bottom:4px">${section.title}</h3>`;
  if (section.rows.length === 0) return `${title}<p style="color:#666">${escapeHtml(section.empty ?? '')}</p>`;
  const cell = (text: string): string =>
    `<td style="padding-right:1em;vertical-align:top">${escapeHtml(cellOf(text))}</td>`;
  const rows = section.rows.slice(0, MOST_ROWS).map((row) => `<tr>${row.map(cell).join('')}</tr>`);
  const more = moreOf(section);
  const rest = [...(more === null ? [] : [more]), section.command].map(escapeHtml).join(' · ');
  return `${title}<table>${rows.join('')}</table><p style="color:#666">${rest}</p>`;
}

function htmlPage(head: readonly string[], sections: readonly string[], origin: string): string {
  return (
    '<!doctype html><html><body style="font-family:sans-serif;font-size:14px">' +
    `<p>${head.map(escapeHtml).join('<br>')}</p>${sections.join('')}` +
    `<p style="color:#666">${escapeHtml(origin)}</p></body></html>\n`
  );
}
