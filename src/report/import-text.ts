import type { ImportNote, ImportReport } from '../queue/import/import-report.ts';
import type { BadJob } from '../queue/import/imported-job.ts';
import { jobStates } from '../queue/job-states.ts';
import { countOf } from './format.ts';
import { printableLine } from './printable.ts';

/** What an import did, or would do, for people. */
export function renderImport(report: ImportReport, path: string): string {
  const lines = [
    describeTaken(report, path),
    ...describeRest(report),
    ...report.bad.map((bad) => `Left out: ${describeBad(bad)}`),
    ...report.notes.map(describeNote),
  ];
  return lines.map((line) => `${printableLine(line)}\n`).join('');
}

/** The same for programs. */
export function importToJson(report: ImportReport, path: string): object {
  const { system, table, isDryRun, isRefused, ...rest } = report;
  return { file: path, system, table, dryRun: isDryRun, refused: isRefused, ...rest };
}

/** Why nothing was taken over, one line for each of the first bad jobs. */
export function describeRefusal({ system, bad }: ImportReport): string {
  const shown = bad.slice(0, BAD_SHOWN).map((each) => `  ${printableLine(describeBad(each))}`);
  const more = bad.length - shown.length;
  return [
    `${countOf(bad.length, 'job')} of ${system} cannot be taken over, so that none was:`,
    ...shown,
    ...(more > 0 ? [`  and ${more} more, which --json lists`] : []),
    'Mend them there, or leave them out with --skip-bad.',
  ].join('\n');
}

const BAD_SHOWN = 20;

function describeBad({ id, problem }: BadJob): string {
  return `job ${id}: ${problem}`;
}

function describeTaken({ system, table, imported, isDryRun }: ImportReport, path: string): string {
  const from = `from ${path} (${system}, table ${table})`;
  const counts = jobStates.flatMap((state) => {
    const count = imported[state] ?? 0;
    return count === 0 ? [] : [`${count} ${state}`];
  });
  const total = Object.values(imported).reduce((sum, count) => sum + count, 0);
  const all = `${countOf(total, 'job')} ${from}${counts.length > 0 ? `: ${counts.join(', ')}` : ''}`;
  return isDryRun ? `Would take over ${all}. Nothing was written.` : `Took over ${all}.`;
}

function describeRest({ known, leftOut }: ImportReport): string[] {
  const { ended, mocked } = leftOut;
  const were = (count: number) => (count === 1 ? 'was' : 'were');
  return [
    known > 0 ? `${countOf(known, 'job')} ${were(known)} taken over before.` : '',
    ended > 0
      ? `${countOf(ended, 'job')} that ${ended === 1 ? 'has' : 'have'} ended ${were(ended)} left out; --with-ended takes over these too.`
      : '',
    mocked > 0
      ? `${countOf(mocked, 'job')} with mockRequest ${were(mocked)} left out: made for a test, and not to be run.`
      : '',
  ].filter((line) => line !== '');
}

function describeNote({ note, count, ids }: ImportNote): string {
  if (count === 0) return `Note: ${note}.`;
  const more = count > ids.length ? ` and ${count - ids.length} more` : '';
  return `Note: ${countOf(count, 'job')} (${ids.join(', ')}${more}): ${note}.`;
}
