import { countOf, formatCount, formatDuration, formatElapsed } from '../../system/base/format.ts';
import { printableLine, withInstants } from '../../system/base/text.ts';
import { describeComing, describeLinks, lateWords, namesInPass } from '../../system/base/wait-words.ts';
import type { LateItem } from '../model/next/coming.ts';
import type { Next, NextItem } from '../model/next/next.ts';
import type { Screen } from './screen.ts';
import { entry, NO_TIERS, renderPauses } from './status.ts';
import { type Column, drawTable, joinBlocks, wrap } from './table.ts';

/** `runner next`: what did not come, then what will. */
export function renderNext(next: Next, screen: Screen): string {
  return joinBlocks([
    renderLate(next.late, screen),
    renderItems(next, screen),
    renderWaiting(next, screen),
    renderPauses(next.pauses, screen),
    renderNotes(next, screen),
  ]);
}

/** More would push away all that comes. */
const MOST_LATE = 20;

function renderLate(late: readonly LateItem[], screen: Screen): string[] {
  if (late.length === 0) return [];
  const { palette } = screen;
  const rest = late.length - MOST_LATE;
  const lines = late.slice(0, MOST_LATE).flatMap((item) => entry(describeLate(item, screen), screen, palette.warning));
  const more = rest > 0 ? [`  and ${formatCount(rest)} more`] : [];
  return [palette.bold('did not come'), ...lines, ...more];
}

function describeLate({ name, count, code, sinceMs, expectedMs }: LateItem, { clock, nowMs }: Screen): string[] {
  return [
    count === null ? printableLine(name) : describeJobs(name, count),
    lateWords[code],
    sinceMs === null ? '' : `due since ${clock.short(sinceMs)}, for ${formatElapsed(nowMs - sinceMs)}`,
    expectedMs === null ? '' : `next pass ${clock.short(expectedMs)}`,
  ].filter(Boolean);
}

function describeJobs(name: string, count: number): string {
  return count === 1 ? printableLine(name) : `${formatCount(count)} × ${printableLine(name)}`;
}

function renderItems(next: Next, screen: Screen): string[] {
  const { items, more, completeUntilMs, untilMs } = next;
  const { clock, columns } = screen;
  if (items.length === 0) return wrap(describeNothing(next, screen), columns);
  const table = drawTable(columnsOf(next, screen), items, screen);
  const rest = more === 0 ? 'More' : `${formatCount(more)} more`;
  const cut = `${rest} from ${clock.short(completeUntilMs)} on; --limit shows more entries, --for a shorter time`;
  return completeUntilMs === untilMs ? table : [...table, ...wrap(cut, columns)];
}

function describeNothing({ passes, late, untilMs }: Next, { clock }: Screen): string {
  if (passes.length === 0 && late.length === 0) return `Nothing is expected. ${NO_TIERS}`;
  return `Nothing is expected until ${clock.short(untilMs)}.`;
}

function columnsOf(next: Next, { clock, nowMs, palette }: Screen): readonly Column<NextItem>[] {
  const paint = (text: string, { isPaused }: NextItem): string => (isPaused ? palette.dim(text) : text);
  return [
    { title: 'when', text: ({ atMs }) => clock.short(atMs), paint },
    {
      ...{ title: 'in', align: 'right', rank: 2, paint },
      text: ({ atMs }) => (atMs <= nowMs ? 'now' : formatElapsed(atMs - nowMs)),
    },
    { title: 'what', text: ({ kind, job }) => (job === null ? kind : `${kind} ${job}`), paint },
    {
      ...{ title: 'name', isName: true, shrinks: { first: 24, last: 14 }, paint },
      text: ({ name, count }) => describeJobs(name, count),
    },
    { title: 'usually', align: 'right', rank: 3, text: ({ usualMs }) => formatDuration(usualMs), paint },
    { title: 'until', rank: 1, text: ({ endMs }) => (endMs === null ? '' : clock.short(endMs)), paint },
    { title: 'why', shrinks: { first: 22, last: 10 }, text: (item) => describeWhy(item, next, clock), paint },
  ];
}

function describeWhy(item: NextItem, { passes }: Next, clock: Screen['clock']): string {
  const { kind, name, dueMs, atMs, isPaused, links } = item;
  const pass = kind === 'tier' ? passes.find(({ tier }) => tier === name) : undefined;
  const what =
    pass === undefined
      ? describeComing(item, describeLinks(links)).join(' · ')
      : `${countOf(pass.scripts.length, 'script')}: ${namesInPass(pass).join(', ')}`;
  const due = dueMs === null || dueMs === atMs ? '' : `due ${clock.short(dueMs)}`;
  return [isPaused ? 'paused' : '', printableLine(what), due].filter(Boolean).join(' · ');
}

/** As many as of what did not come: more would push away the rest. */
function renderWaiting({ waiting }: Next, screen: Screen): string[] {
  if (waiting.length === 0) return [];
  const { clock, palette } = screen;
  const rest = waiting.length - MOST_LATE;
  const lines = waiting.slice(0, MOST_LATE).flatMap(({ script, reason, sinceMs }) => {
    const told = withInstants(printableLine(reason), clock.short);
    return entry([printableLine(script), told, `queued since ${clock.short(sinceMs)}`], screen, (text) => text);
  });
  return [palette.bold('waiting'), ...lines, ...(rest > 0 ? [`  and ${formatCount(rest)} more`] : [])];
}

function renderNotes(next: Next, { palette, columns, clock }: Screen): string[] {
  const listed = (label: string, names: readonly string[]): string =>
    names.length === 0 ? '' : `${label}: ${names.map(printableLine).join(', ')}`;
  const { settingsProblem, isLogUnread, isCrontabUnread, late, refused } = next;
  const notes = [
    settingsProblem === null ? '' : `No call starts anything until the settings are fixed. ${settingsProblem}`,
    isLogUnread ? 'The log cannot be read: jobs and tries that wait are unknown.' : '',
    isCrontabUnread ? 'The crontab cannot be read: calls are estimated from earlier ones.' : '',
    late.some(({ code }) => code === 'no-line') ? '`npx folder-runner cron --install` writes the crontab lines.' : '',
    late.some(({ code }) => code === 'not-called') ? '`npx folder-runner doctor` checks why cron does not call.' : '',
    refused.length === 0 ? '' : `Refused: ${countOf(refused.length, 'script')}; \`npx folder-runner list\` says why.`,
  ];
  const quiet = [
    listed('after the next boot', next.afterBoot),
    listed('disabled', next.disabled),
    `times in ${clock.zone}`,
  ];
  const wrapped = (texts: readonly string[]) => texts.filter(Boolean).flatMap((text) => wrap(text, columns));
  return [...wrapped(notes).map(palette.warning), ...wrapped(quiet).map(palette.dim)];
}
