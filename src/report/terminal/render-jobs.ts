import type { Pause } from '../../queue/pauses.ts';
import type { Job } from '../../queue/queue.ts';
import { findHold } from '../find-hold.ts';
import { countOf } from '../format.ts';
import { firstLine, printableLine } from '../printable.ts';
import type { JobList } from '../read-jobs.ts';
import { UNKNOWN } from '../unknown.ts';
import { describeJobTime, describeTries, paintState } from './describe-job.ts';
import { renderPauses } from './render-pauses.ts';
import type { Screen } from './screen.ts';
import { type Column, fitColumns, renderTable } from './table.ts';

/** Jobs of the queue as a table, in the order they come in. */
export function renderJobs({ jobs, isCut, pauses }: JobList, screen: Screen): string {
  if (jobs.length === 0) return 'There is no such job in the queue.\n';
  const { palette, clock, columns } = screen;
  const rows = jobs.map((job) => ({ ...job, hold: findHold(pauses, job) }));
  const table = fitColumns(jobColumns(screen), rows, columns);
  const holding = pauses.filter((pause) => rows.some(({ hold }) => hold === pause));
  const cut = isCut ? `the first ${countOf(jobs.length, 'job')}; --limit shows more · ` : '';
  const blocks = [
    renderTable(table, rows, { palette, indent: '' }),
    renderPauses(holding, screen),
    [palette.dim(`${cut}times in ${clock.zone}`)],
  ].filter((lines) => lines.length > 0);
  return `${blocks.map((lines) => lines.join('\n')).join('\n\n')}\n`;
}

interface HeldJob extends Job {
  readonly hold: Pause | null;
}

function jobColumns(screen: Screen): readonly Column<HeldJob>[] {
  const { palette } = screen;
  return [
    { title: 'job', text: (job) => String(job.id), align: 'right' },
    { title: 'name', text: (job) => printableLine(job.name), shrinks: { first: 32, last: 12 } },
    {
      title: 'state',
      text: (job) => job.state,
      paint: (text, job) => paintState(palette, job.state)(text),
    },
    { title: 'when', text: (job) => describeJobTime(job, job.hold, screen) || UNKNOWN },
    { title: 'tries', rank: 2, text: describeTries, align: 'right' },
    {
      title: 'why',
      rank: 1,
      text: (job) => firstLine(job.reason ?? ''),
      shrinks: { first: 16, last: 16 },
    },
  ];
}
