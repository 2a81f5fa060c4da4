import { resolve } from 'node:path';
import { readBedrock } from '../../queue/import/bedrock.ts';
import {
  type BadJob,
  type ForeignQueue,
  type ImportNote,
  type ImportReport,
  importJobs,
} from '../../queue/import/import-jobs.ts';
import { readLaterJob } from '../../queue/import/laterjob.ts';
import { formatJson } from '../../report/json.ts';
import { openTextOutput } from '../../report/terminal/screen.ts';
import { type ExternalDatabase, readExternalDatabase } from '../../store/external/external-database.ts';
import type { Store } from '../../store/store.ts';
import { jobStates } from '../../store/words.ts';
import { UsageError } from '../../system/base/errors.ts';
import { countOf } from '../../system/base/format.ts';
import { printableLine } from '../../system/base/text.ts';
import type { CommandContext } from '../shared/context.ts';
import { rootOf, withLogIfAny, withWritableLog } from '../shared/open.ts';
import { noteUnhandled } from '../shared/queue.ts';
import type { Given } from '../table.ts';

type Options = Given<'import'>;

/** `runner import`: takes over the jobs of another system's queue. */
export async function importFile(context: CommandContext, options: Options): Promise<void> {
  const { system, file } = options;
  if (file === undefined) throw new UsageError(`import ${system} needs the file of its SQLite database.`);
  rejectOptionsOfOther(options);
  const path = resolve(context.cwd, file);
  const report = await readExternalDatabase(path, async (database) => {
    const queue = await readQueue(database, options);
    return await takeOver(context, queue, options);
  });
  await show(context, report, path, options);
}

function rejectOptionsOfOther({ system, name, timeZone }: Options): void {
  if (system === 'laterjob' || (name ?? timeZone) === undefined) return;
  const [option, why] =
    name === undefined ? ['--time-zone', 'Bedrock’s times are in UTC'] : ['--name', 'Bedrock’s jobs have names'];
  throw new UsageError(`${option} is for laterjob only: ${why}. Leave it out.`);
}

async function readQueue(
  database: ExternalDatabase,
  { system, table, name, timeZone, missed, withEnded = false }: Options,
): Promise<ForeignQueue> {
  const options = { missed, withEnded, table, name, timeZone };
  return system === 'bedrock' ? readBedrock(database, options) : await readLaterJob(database, options);
}

async function takeOver(
  context: CommandContext,
  queue: ForeignQueue,
  { dryRun: isDryRun = false, skipBad = false, root }: Options,
): Promise<ImportReport> {
  const importing = { at: context.now(), isDryRun, skipBad };
  const take = (store: Store | null) => importJobs(store, queue, importing);
  if (isDryRun) return await withLogIfAny(context, root, ({ store }) => take(store));
  return await withWritableLog(context, root, take);
}

async function show(
  context: CommandContext,
  report: ImportReport,
  path: string,
  { json, root }: Options,
): Promise<void> {
  const output = openTextOutput(context.stdout);
  if (json) await output.write(formatJson(importToJson(report, path)));
  if (report.isRefused) throw new UsageError(describeRejected(report));
  if (!json) await output.write(renderImport(report, path));
  await noteUnhandled(context, rootOf(context, root), report.names);
}

/** The result of an import, or of its dry run, as text for people. */
function renderImport(report: ImportReport, path: string): string {
  const lines = [
    describeTaken(report, path),
    ...describeRest(report),
    ...report.bad.map((bad) => `Left out: ${describeBad(bad)}`),
    ...report.notes.map(describeNote),
  ];
  return lines.map((line) => `${printableLine(line)}\n`).join('');
}

/** The same for programs. */
function importToJson(report: ImportReport, path: string): object {
  const { system, table, isDryRun, isRefused, ...rest } = report;
  return { file: path, system, table, dryRun: isDryRun, refused: isRefused, ...rest };
}

/** Why nothing was taken over, one line for each of the first bad jobs. */
function describeRejected({ system, bad }: ImportReport): string {
  const shown = bad.slice(0, BAD_SHOWN).map((each) => `  ${printableLine(describeBad(each))}`);
  const more = bad.length - shown.length;
  return [
    `${countOf(bad.length, 'job')} of ${system} cannot be imported, so none was:`,
    ...shown,
    ...(more > 0 ? [`  and ${more} more, which --json lists`] : []),
    'Fix them there, or leave them out with --skip-bad.',
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
  return isDryRun ? `Would import ${all}. Nothing was written.` : `Imported ${all}.`;
}

function describeRest({ known, leftOut }: ImportReport): string[] {
  const { ended, mocked } = leftOut;
  const were = (count: number) => (count === 1 ? 'was' : 'were');
  return [
    known > 0 ? `${countOf(known, 'job')} ${were(known)} imported before.` : '',
    ended > 0
      ? `${countOf(ended, 'job')} that ${ended === 1 ? 'has' : 'have'} ended ${were(ended)} left out; --with-ended imports these too.`
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
