import { formatDuration } from '../format.ts';
import { printableLine } from '../printable.ts';
import type { UpcomingRun } from '../read-upcoming.ts';
import type { Screen } from './screen.ts';
import { type Column, fitColumns, renderTable } from './table.ts';

/** The next times of jobs, in their order. */
export function renderUpcoming(upcoming: readonly UpcomingRun[], screen: Screen): string {
  if (upcoming.length === 0) return 'Nothing waits, and nothing repeats.\n';
  const { palette, clock, columns } = screen;
  const table = renderTable(fitColumns(upcomingColumns(screen), upcoming, columns), upcoming, {
    palette,
    indent: '',
  });
  const notes = [
    ...(upcoming.some(({ isExpected }) => isExpected)
      ? ['~ if the runs before it take no time']
      : []),
    `times in ${clock.zone}`,
  ];
  return `${[...table, '', palette.dim(notes.join(' · '))].join('\n')}\n`;
}

function upcomingColumns({ clock, nowMs }: Screen): readonly Column<UpcomingRun>[] {
  return [
    {
      title: 'when',
      text: ({ atMs, isExpected }) => `${isExpected ? '~' : ''}${clock.dateTime(atMs)}`,
    },
    {
      title: 'in',
      rank: 2,
      align: 'right',
      text: ({ atMs }) => (atMs <= nowMs ? 'due now' : formatDuration(roundSeconds(atMs - nowMs))),
    },
    { title: 'job', text: ({ job }) => String(job.id), align: 'right' },
    { title: 'name', text: ({ job }) => printableLine(job.name), shrinks: { first: 32, last: 12 } },
    {
      title: 'repeats',
      rank: 1,
      text: ({ job }) => printableLine(job.repeat ?? ''),
      shrinks: { first: 16, last: 16 },
    },
  ];
}

/** It comes nearer while one reads it. */
function roundSeconds(ms: number): number {
  return Math.round(ms / 1000) * 1000;
}
