import type { JobCount } from '../../queue/queue.ts';
import { countOf, formatCount } from '../format.ts';
import { printableLine } from '../printable.ts';
import type { Screen } from './screen.ts';
import { type Column, fitColumns, renderTable } from './table.ts';

const states = [
  'ready',
  'delayed',
  'running',
  'retrying',
  'paused',
  'failed',
  'finished',
  'cancelled',
] as const satisfies readonly (keyof JobCount)[];

/** How many jobs of each name are in which state; a last line adds them up. */
export function renderJobCounts(counts: readonly JobCount[], screen: Screen): string {
  if (counts.length === 0) return 'There is no such job in the queue.\n';
  const rows = counts.length === 1 ? counts : [...counts, addUp(counts)];
  const columns = fitColumns(countColumns, rows, screen.columns);
  return `${renderTable(columns, rows, { palette: screen.palette, indent: '' }).join('\n')}\n`;
}

/** The ended ones are the first to go from a narrow screen. */
const countColumns: readonly Column<JobCount>[] = [
  { title: 'name', text: ({ name }) => printableLine(name), shrinks: { first: 32, last: 12 } },
  ...states.map(
    (state, index) =>
      ({
        title: state,
        text: (count: JobCount) => formatCount(count[state]),
        align: 'right',
        rank: states.length - index,
      }) as const,
  ),
];

function addUp(counts: readonly JobCount[]): JobCount {
  const sums = states.map((state) => [state, sum(counts.map((count) => count[state]))]);
  return { name: countOf(counts.length, 'name'), ...Object.fromEntries(sums) };
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, each) => total + each, 0);
}
