import { type MailTone, mailCommand, mailHeading, mailLink, mailPage } from '../../monitor/alert/html.ts';
import { isOfRuns } from '../../store/words.ts';
import {
  countOf,
  describeRises,
  formatBytes,
  formatCount,
  formatDuration,
  formatRate,
} from '../../system/base/format.ts';
import { escapeHtml, keepStart, printableLine } from '../../system/base/text.ts';
import { commandIn, pageAt, shellWord } from '../../system/base/values.ts';
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
  /** A heading for each cell of a row. */
  readonly columns: readonly string[];
  readonly rows: readonly Row[];
  /** The words of the command that shows more; null: each row has its own. */
  readonly command: string | null;
}

interface Row {
  /** The first one is its name. */
  readonly cells: readonly string[];
  readonly tone?: MailTone;
  /** The words of the command that shows more of it. */
  readonly command?: string;
  /** The page of the dashboard that does. */
  readonly page?: PageOf;
}

type PageOf = readonly [page: 'runs' | 'scripts' | 'incidents', item?: string | number];

interface Place {
  readonly host: string;
  readonly root: string;
  readonly clock: Clock;
  /** The address of the dashboard; null: not known. */
  readonly web: string | null;
}

const LONGEST_CELL = 200;
const MOST_ROWS = 20;

/** A wider column is not aligned: one long error would move all others. */
const WIDEST = 40;

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
  const sections = [troubles(clock), failures, missed, risen(clock), over(clock), costly, ran]
    .map((section) => section(digest))
    .filter(({ rows, empty }) => rows.length > 0 || empty !== null);
  const origin = printableLine(`${root} on ${host}`);
  const subject = `[runner ${printableLine(host)}] ${subjectOf(digest)}`;
  const heading = mailHeading(1, verdict, tones[digest.verdict.level]);
  const lines = head.slice(1).map((line) => `<p class="quiet">${escapeHtml(line)}</p>`);
  const body = [heading, ...lines, ...sections.map((section) => htmlSection(section, place))].join('');
  return {
    subject,
    text: `${[head.join('\n'), ...sections.map((section) => plainSection(section, place)), origin].join('\n\n')}\n`,
    html: mailPage(subject, `${body}<p class="quiet">${escapeHtml(origin)}</p>`),
  };
}

const tones = { good: 'good', waiting: 'warning', paused: 'warning', warning: 'warning', bad: 'bad' } as const;

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

const troubles =
  (clock: Clock) =>
  ({ troubles: found }: Digest): Section => ({
    title: 'What is wrong',
    empty: null,
    columns: ['what', 'why', 'since', 'how often'],
    rows: found.map(({ subject, code, grade, message, sinceMs, occurrences, run }) => ({
      cells: [
        subject,
        message,
        sinceMs === null ? 'now' : `since ${clock.short(sinceMs)}`,
        grade === 'acknowledged' ? 'acknowledged' : timesOf(occurrences),
      ],
      tone: grade === 'critical' || grade === 'failing' ? 'bad' : 'warning',
      command: commandFor({ subject, code, run }),
      page: run !== null ? ['runs', run] : isOfRuns(code) ? ['scripts', subject] : ['incidents'],
    })),
    command: null,
  });

/** A run with its output; else why a script fails, or what the check says to do. */
function commandFor({ subject, code, run }: Pick<Digest['troubles'][number], 'subject' | 'code' | 'run'>): string {
  if (run !== null) return `show ${run}`;
  return isOfRuns(code) ? `why ${shellWord(subject.replace(/^queue\//, ''))}` : `check ${shellWord(code)}`;
}

const timesOf = (count: number): string => (count === 1 ? 'once' : `${formatCount(count)} times`);

function failures({ failing }: Digest): Section {
  const rows = failing.map(({ script, failed, runs, lastError, lastRun }): Row => {
    const isLast = lastError !== null && lastRun !== null;
    return {
      cells: [
        script,
        `${formatCount(failed)} of ${formatCount(runs)} failed`,
        lastError === null ? 'succeeded last' : lastError,
      ],
      tone: isLast ? 'bad' : 'warning',
      command: isLast ? `show ${lastRun.id}` : `report ${shellWord(script)} --outcome failed`,
      page: isLast ? ['runs', lastRun.id] : ['scripts', script],
    };
  });
  const columns = ['script', 'failures', 'last error'];
  return { title: 'Failures', empty: 'Nothing failed.', columns, rows, command: null };
}

function missed({ overview }: Digest): Section {
  const rows = overview.tiers.flatMap((tier) => {
    const texts = describeMissed(tier);
    return texts.length === 0 ? [] : [{ cells: [tier.tier, texts.join(', ')] }];
  });
  return { title: 'Missed', empty: 'No pass was missed.', columns: ['tier', 'passes'], rows, command: 'status' };
}

function describeMissed({ missed: gap, skippedPasses }: TierOverview): string[] {
  return [
    ...(gap !== null && gap.count > 0
      ? [`${countOf(gap.count, 'expected pass', 'expected passes')} did not happen`]
      : []),
    ...(skippedPasses > 0 ? [`${countOf(skippedPasses, 'pass', 'passes')} skipped`] : []),
  ];
}

const risen =
  (clock: Clock) =>
  ({ risen: found }: Digest): Section => ({
    title: 'Slower than usual',
    empty: 'Nothing is slower or needs more memory than usual.',
    columns: ['script', 'by how much'],
    rows: found.map((script) => ({
      cells: [script.script, describeRises(script, clock.short).join('; ')],
      command: `report ${shellWord(script.script)}`,
      page: ['scripts', script.script],
    })),
    command: null,
  });

const over =
  (clock: Clock) =>
  ({ over: found }: Digest): Section => ({
    title: 'Over',
    empty: null,
    columns: ['what', 'kind', 'since', 'until', 'how often'],
    rows: found.map(({ subject, code, openedAtMs, recoveredAtMs, occurrences }) => ({
      cells: [
        subject,
        code.replaceAll('-', ' '),
        `since ${clock.short(openedAtMs)}`,
        `until ${clock.short(recoveredAtMs)}`,
        timesOf(occurrences),
      ],
      tone: 'good',
    })),
    command: 'incidents --all',
  });

function costly({ costly: found }: Digest): Section {
  const rows = found.map(({ script, cpuMs, share }) => ({
    cells: [script, `${formatDuration(cpuMs)} of CPU`, formatRate(share)],
  }));
  return {
    ...{ title: 'What costs most', empty: null, columns: ['script', 'CPU time', 'share'], rows },
    command: 'metrics',
  };
}

function ran({ overview }: Digest): Section {
  const rows = overview.scripts.filter(({ runs }) => runs > 0).map((script) => ({ cells: describeScript(script) }));
  const columns = ['script', 'runs', 'succeeded', 'usual', 'longest', 'memory'];
  return { title: 'What ran', empty: 'Nothing ran.', columns, rows, command: 'report' };
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

const commandOf = (words: string, root: string): string => printableLine(commandIn(root, words));

function addressOf({ page }: Row, { web }: Place): string | null {
  return page === undefined ? null : pageAt(web, ...page);
}

function plainSection(section: Section, place: Place): string {
  const { root } = place;
  const { title, empty, command } = section;
  const shown = section.rows.slice(0, MOST_ROWS).map((row) => ({ ...row, cells: row.cells.map(cellOf) }));
  const widths = section.columns.map((_, index) =>
    Math.min(WIDEST, Math.max(0, ...shown.map(({ cells }) => cells[index]?.length ?? 0))),
  );
  const lines = shown.flatMap((row) => {
    const page = addressOf(row, place);
    return [
      `  ${row.cells.map((cell, index) => cell.padEnd(widths[index] ?? 0)).join('  ')}`.trimEnd(),
      ...(row.command === undefined ? [] : [`    look: ${commandOf(row.command, root)}`]),
      ...(page === null ? [] : [`    page: ${page}`]),
    ];
  });
  const look = command === null ? null : `look: ${commandOf(command, root)}`;
  const rest = [moreOf(section), shown.length === 0 ? empty : look];
  return [title, ...lines, ...rest.flatMap((text) => (text === null ? [] : `  ${text}`))].join('\n');
}

function htmlSection(section: Section, place: Place): string {
  const { root } = place;
  const { title, empty, command, columns } = section;
  if (section.rows.length === 0) return `${mailHeading(2, title)}<p class="quiet">${escapeHtml(empty ?? '')}</p>`;
  const shown = section.rows.slice(0, MOST_ROWS);
  const rows = shown.map((row) => {
    const {
      cells: [first = '', ...cells],
      tone = null,
      command: own,
    } = row;
    const page = addressOf(row, place);
    const name = page === null ? escapeHtml(cellOf(first)) : mailLink(page, cellOf(first));
    const look = own === undefined ? [] : [`<td class="look">${mailCommand(commandOf(own, root))}</td>`];
    const head = `<th scope="row"${tone === null ? '' : ` class="${tone}"`}>${name}</th>`;
    return `<tr>${[head, ...cells.map((cell) => `<td>${escapeHtml(cellOf(cell))}</td>`), ...look].join('')}</tr>`;
  });
  const headings = [...columns, ...(shown.some((row) => row.command !== undefined) ? ['look'] : [])];
  const head = `<thead><tr>${headings.map((each) => `<th scope="col">${each}</th>`).join('')}</tr></thead>`;
  const more = moreOf(section);
  const rest = [
    ...(more === null ? [] : [escapeHtml(more)]),
    ...(command === null ? [] : [mailCommand(commandOf(command, root))]),
  ];
  const below = rest.length === 0 ? '' : `<p class="quiet">${rest.join(' · ')}</p>`;
  return `${mailHeading(2, title)}<table class="rows">${head}<tbody>${rows.join('')}</tbody></table>${below}`;
}
