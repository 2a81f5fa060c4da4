import { resolve } from 'node:path';
import { Argument, Command, Option } from 'commander';
import type { BadJob, ForeignQueue, ImportNote, ImportOptions, ImportReport } from '../../queue/import/import-jobs.ts';
import { formatJson } from '../../report/json.ts';
import { openTextOutput } from '../../report/terminal/screen.ts';
import type { ExternalDatabase } from '../../store/external/external-database.ts';
import type { Store } from '../../store/store.ts';
import { jobStates, type MissedPolicy } from '../../store/words.ts';
import { UsageError } from '../../system/base/errors.ts';
import { countOf } from '../../system/base/format.ts';
import { printableLine } from '../../system/base/text.ts';
import { describeFound } from '../../system/base/values.ts';
import type { CommandContext, CommonOptions } from '../shared/context.ts';
import { rootOf, withLogIfAny, withWritableLog } from '../shared/open.ts';

type System = 'laterjob' | 'bedrock';

interface Options extends CommonOptions {
  readonly table?: string;
  readonly name?: string;
  readonly timeZone?: string;
  readonly missed: MissedPolicy;
  readonly withEnded?: boolean;
  readonly skipBad?: boolean;
  readonly dryRun?: boolean;
}

const EXAMPLES = `
Stop the other system's workers first: work that they do afterwards would be done again here. The file
is only read. A second import adds only jobs that were not imported before. All jobs are imported, or
none. docs/coming-from.md lists what becomes of each state and setting.

Examples:
  runner import bedrock bedrock.db --dry-run          what would be done
  runner import bedrock bedrock.db --with-ended       also failed and finished jobs
  runner import laterjob app.db --name mail/send      all its jobs are for jobs/queue/mail/send.*
  runner import laterjob app.db --table mail_queue    another of its queues
  runner import laterjob app.db --time-zone Europe/Berlin

Exit codes: 0 done, 1 the log cannot be written, 2 usage error, or jobs that cannot be imported.`;

/** `runner import`: takes over the jobs of another system's queue. */
export function importCommand(context: CommandContext): Command {
  const command = new Command('import');
  const policies: readonly MissedPolicy[] = ['all', 'once', 'skip'];
  return command
    .description('import the jobs of LaterJob or Bedrock::Jobs')
    .addArgument(
      new Argument('<system>', 'the system that the queue is from: laterjob or bedrock').argParser(readSystem),
    )
    .argument('[file]', 'its SQLite database')
    .option('--table <name>', 'the table of its jobs (default: later_job_queue, jobs)')
    .option('--name <job>', 'laterjob: the name of its jobs here (default: that of the table)')
    .option('--time-zone <zone>', 'laterjob: time zone of its times (default: UTC)')
    .addOption(
      new Option('--missed <what>', 'repeating jobs: what to do about missed times').choices(policies).default('all'),
    )
    .option('--with-ended', 'also jobs that have finished, failed or been cancelled')
    .option('--skip-bad', 'leave out jobs that cannot be imported, instead of stopping')
    .option('--dry-run', 'only show what would be done')
    .option('--json', 'as JSON')
    .addHelpText('after', EXAMPLES)
    .action((system: System, file: string | undefined) => {
      if (file === undefined) throw new UsageError(`import ${system} needs the file of its SQLite database.`);
      return importFile(context, { system, file }, command.optsWithGlobals<Options>());
    });
}

/** @throws {UsageError} for another one */
function readSystem(word: string): System {
  if (word === 'laterjob' || word === 'bedrock') return word;
  const hint = /^cron(?:tab)?$/.test(word) ? '; did you mean `npx folder-runner cron --import`?' : '.';
  throw new UsageError(`import needs laterjob or bedrock, found ${describeFound(word)}${hint}`);
}

interface Source {
  readonly system: System;
  readonly file: string;
}

async function importFile(context: CommandContext, { system, file }: Source, options: Options): Promise<void> {
  rejectOptionsOfOther(system, options);
  const { readExternalDatabase } = await import('../../store/external/external-database.ts');
  const path = resolve(context.cwd, file);
  const report = await readExternalDatabase(path, async (database) => {
    const queue = await readQueue(database, system, options);
    return await takeOver(context, queue, options);
  });
  await show(context, report, path, options);
}

function rejectOptionsOfOther(system: System, { name, timeZone }: Options): void {
  if (system === 'laterjob' || (name ?? timeZone) === undefined) return;
  const [option, why] =
    name === undefined ? ['--time-zone', 'Bedrock’s times are in UTC'] : ['--name', 'Bedrock’s jobs have names'];
  throw new UsageError(`${option} is for laterjob only: ${why}. Leave it out.`);
}

async function readQueue(
  database: ExternalDatabase,
  system: System,
  { table, name, timeZone, missed, withEnded = false }: Options,
): Promise<ForeignQueue> {
  const options: ImportOptions = {
    missed,
    withEnded,
    ...(table !== undefined && { table }),
    ...(name !== undefined && { name }),
    ...(timeZone !== undefined && { timeZone }),
  };
  if (system === 'bedrock') {
    return (await import('../../queue/import/bedrock.ts')).readBedrock(database, options);
  }
  return await (await import('../../queue/import/laterjob.ts')).readLaterJob(database, options);
}

async function takeOver(
  context: CommandContext,
  queue: ForeignQueue,
  { dryRun: isDryRun = false, skipBad = false, root }: Options,
): Promise<ImportReport> {
  const { importJobs } = await import('../../queue/import/import-jobs.ts');
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
  const { noteUnhandled } = await import('../shared/names.ts');
  await noteUnhandled(context, rootOf(context, root), report.names);
}

/** What an import did, or would do, for people. */
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
