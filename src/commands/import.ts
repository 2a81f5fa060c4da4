import { resolve } from 'node:path';
import { Argument, Command, Option } from 'commander';
import { UsageError } from '../config/usage-error.ts';
import type { ImportReport } from '../queue/import/import-report.ts';
import type { ForeignQueue, ImportOptions } from '../queue/import/imported-job.ts';
import type { ForeignDatabase } from '../store/foreign-database.ts';
import type { Database } from '../store/open-store.ts';
import type { MissedPolicy } from '../store/schema.ts';
import type { CommandContext } from './command-context.ts';
import { rootOf, withLogIfAny } from './open-log.ts';
import { withWritableLog } from './with-writable-log.ts';

type System = 'laterjob' | 'bedrock';

interface Options {
  readonly table?: string;
  readonly name?: string;
  readonly timeZone?: string;
  readonly missed: MissedPolicy;
  readonly withEnded?: boolean;
  readonly skipBad?: boolean;
  readonly dryRun?: boolean;
  readonly json?: true;
  readonly root?: string;
}

const EXAMPLES = `
Stop the other system's workers first: what they do after it would be done here once more. The file is
only read. Importing it again takes over what was not taken over before, so that nothing comes twice.
All jobs are taken over or none; docs/coming-from-laterjob.md and docs/coming-from-bedrock.md say
what becomes of what.

Examples:
  runner import bedrock bedrock.db --dry-run          what would be done
  runner import bedrock bedrock.db --with-ended       also what has failed there
  runner import laterjob app.db --name mail/send      all of its jobs are for jobs/queue/mail/send.*
  runner import laterjob app.db --table mail_queue    another of its queues
  runner import laterjob app.db --time-zone Europe/Berlin

Exit codes: 0 done, 1 the log cannot be written, 2 wrong use, or jobs that cannot be taken over.`;

/** `runner import`: takes over the jobs of another system's queue. */
export function importCommand(context: CommandContext): Command {
  const command = new Command('import');
  const policies: readonly MissedPolicy[] = ['all', 'once', 'skip'];
  return command
    .description('take over the jobs of LaterJob or Bedrock::Jobs')
    .addArgument(new Argument('<system>', 'whose queue it is').choices(['laterjob', 'bedrock']))
    .argument('<file>', 'its SQLite database')
    .option('--table <name>', 'the table of its jobs (default: later_job_queue, jobs)')
    .option('--name <job>', 'laterjob: what its jobs are called here (default: as the table)')
    .option('--time-zone <zone>', 'laterjob: in which its times are told (default: UTC)')
    .addOption(
      new Option('--missed <what>', 'repeating jobs: times that passed meanwhile')
        .choices(policies)
        .default('all'),
    )
    .option('--with-ended', 'also jobs that have finished, failed or been cancelled')
    .option('--skip-bad', 'leave out jobs that cannot be taken over, instead of all')
    .option('--dry-run', 'only say what would be done')
    .option('--json', 'as JSON')
    .addHelpText('after', EXAMPLES)
    .action((system: System, file: string) =>
      importFile(context, { system, file }, command.optsWithGlobals<Options>()),
    );
}

interface Source {
  readonly system: System;
  readonly file: string;
}

async function importFile(
  context: CommandContext,
  { system, file }: Source,
  options: Options,
): Promise<void> {
  refuseOptionsOfOther(system, options);
  const { readForeignDatabase } = await import('../store/foreign-database.ts');
  const path = resolve(context.cwd, file);
  const report = await readForeignDatabase(path, async (database) => {
    const queue = await readQueue(database, system, options);
    return await takeOver(context, queue, options);
  });
  await tell(context, report, path, options);
}

function refuseOptionsOfOther(system: System, { name, timeZone }: Options): void {
  if (system === 'laterjob' || (name ?? timeZone) === undefined) return;
  const [option, why] =
    name === undefined
      ? ['--time-zone', 'Bedrock’s times are in UTC']
      : ['--name', 'Bedrock’s jobs have names'];
  throw new UsageError(`${option} is for laterjob only: ${why}.`);
}

async function readQueue(
  database: ForeignDatabase,
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
    return (await import('../queue/import/read-bedrock.ts')).readBedrock(database, options);
  }
  return await (await import('../queue/import/read-laterjob.ts')).readLaterJob(database, options);
}

async function takeOver(
  context: CommandContext,
  queue: ForeignQueue,
  { dryRun: isDryRun = false, skipBad = false, root }: Options,
): Promise<ImportReport> {
  const { importJobs } = await import('../queue/import/import-jobs.ts');
  const importing = { at: context.now(), isDryRun, skipBad };
  const take = (db: Database) => importJobs(db, queue, importing);
  if (isDryRun) return await withLogIfAny(context, root, ({ db }) => take(db));
  return await withWritableLog(context, root, take);
}

async function tell(
  context: CommandContext,
  report: ImportReport,
  path: string,
  { json, root }: Options,
): Promise<void> {
  const { describeRefusal, importToJson, renderImport } = await import('../report/import-text.ts');
  const { formatJson } = await import('../report/json.ts');
  const { openTextOutput } = await import('../report/text-output.ts');
  const output = openTextOutput(context.stdout);
  if (json) await output.write(formatJson(importToJson(report, path)));
  if (report.isRefused) throw new UsageError(describeRefusal(report));
  if (!json) await output.write(renderImport(report, path));
  const { noteUnhandled } = await import('./note-unhandled.ts');
  await noteUnhandled(context, rootOf(context, root), report.names);
}
