import { formatElapsed } from '../../system/base/format.ts';
import { printableLine } from '../../system/base/text.ts';
import type { NextTime, Upcoming } from '../model/next-times.ts';
import { describeNext, describeSchedule } from '../text/next-time.ts';
import type { Screen } from './screen.ts';
import { type Column, fitColumns, renderTable } from './table.ts';

/** When scripts run next that have times of their own; nothing where there are none. */
export function renderNextTimes(times: readonly NextTime[], { palette, clock, nowMs, columns }: Screen): string[] {
  if (times.length === 0) return [];
  const fitted = fitColumns<NextTime>(
    [
      { title: 'script', text: ({ script }) => printableLine(script), shrinks: { first: 24, last: 12 } },
      {
        title: 'next',
        text: (time) => describeNext(time, clock, nowMs),
        paint: (text, { atMs }) => (atMs !== null && atMs <= nowMs ? palette.warning(text) : text),
        shrinks: { first: 34, last: 12 },
      },
      { title: 'schedule', rank: 1, text: describeWhen, shrinks: { first: 24, last: 16 } },
    ],
    times,
    columns,
  );
  return renderTable(fitted, times, { palette, indent: '' });
}

function describeWhen(time: NextTime): string {
  const boot = time.isAfterBoot ? 'after each boot' : '';
  return [describeSchedule(time), boot].filter(Boolean).join('; ');
}

/** `runner status --upcoming`. */
export function renderUpcomingTimes(upcoming: readonly Upcoming[], screen: Screen): string {
  if (upcoming.length === 0) return 'Nothing is expected: cron calls no tier yet, and no job waits.\n';
  const { palette, columns, clock } = screen;
  const table = renderTable(fitColumns(upcomingColumns(screen), upcoming, columns), upcoming, { palette, indent: '' });
  return `${[...table, '', palette.dim(`times in ${clock.zone}`)].join('\n')}\n`;
}

function upcomingColumns({ clock, nowMs }: Screen): readonly Column<Upcoming>[] {
  return [
    { title: 'when', text: ({ atMs }) => clock.dateTime(atMs) },
    {
      title: 'in',
      align: 'right',
      rank: 2,
      text: ({ atMs }) => (atMs <= nowMs ? 'due now' : formatElapsed(atMs - nowMs)),
    },
    { title: 'what', text: ({ kind, id }) => (id === null ? kind : `${kind} ${id}`) },
    { title: 'name', text: ({ name }) => printableLine(name), shrinks: { first: 32, last: 12 } },
    { title: 'pass', rank: 3, text: ({ passMs }) => (passMs === null ? '' : clock.short(passMs)) },
    { title: 'rule', rank: 1, text: ({ rule }) => printableLine(rule ?? ''), shrinks: { first: 16, last: 16 } },
  ];
}
