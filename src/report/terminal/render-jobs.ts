import type { Job } from '../../queue/queue.ts';
import { countOf, UNKNOWN } from '../format.ts';
import { firstLine, printableLine } from '../printable.ts';
import type { JobList } from '../read-jobs.ts';
import { describeJobTime, describeTries, paintState } from './describe-job.ts';
import type { Screen } from './screen.ts';
import { type Column, fitColumns, renderTable } from './table.ts';

/** Jobs of the queue as a table, in the order they come in. */
export function renderJobs({ jobs, isCut }: JobList, screen: Screen): string {
  if (jobs.length === 0) return 'There is no such job in the queue.\n';
  const { palette, clock, columns } = screen;
  const table = renderTable(fitColumns(jobColumns(screen), jobs, columns), jobs, {
    palette,
    indent: '',
  });
  const cut = isCut ? `the first ${countOf(jobs.length, 'job')}; --limit shows more · ` : '';
  return `${[...table, '', palette.dim(`${cut}times in ${clock.zone}`)].join('\n')}\n`;
}

function jobColumns(screen: Screen): readonly Column<Job>[] {
  const { palette } = screen;
  return [
    { title: 'job', text: (job) => String(job.id), align: 'right' },
    { title: 'name', text: (job) => printableLine(job.name), shrinks: { first: 32, last: 12 } },
    {
      title: 'state',
      text: (job) => job.state,
      paint: (text, job) => paintState(palette, job.state)(text),
    },
    { title: 'when', text: (job) => describeJobTime(job, screen) || UNKNOWN },
    { title: 'tries', rank: 2, text: describeTries, align: 'right' },
    {
      title: 'why',
      rank: 1,
      text: (job) => firstLine(job.reason ?? ''),
      shrinks: { first: 16, last: 16 },
    },
  ];
}
