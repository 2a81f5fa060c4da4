import { setFlagsFromString } from 'node:v8';
import { Command } from 'commander';
import type { Runner } from '../../settings/settings.ts';
import type { Move, MoveReport, Progress } from '../../store/move/move-log.ts';
import type { SourcePlace, TargetPlace } from '../../store/move/place.ts';
import type { Ends, NamedPlace } from '../../store/move/places.ts';
import { UsageError } from '../../system/base/errors.ts';
import { capitalized } from '../../system/base/text.ts';
import { stateFolderOf } from '../../system/place/state-folder.ts';
import type { CommandContext, CommonOptions } from '../shared/context.ts';

interface Options extends CommonOptions {
  readonly to?: string;
  readonly from?: string;
  readonly wait?: string;
  readonly dryRun?: true;
  readonly reopen?: true;
}

const EXAMPLES = `
A place is \`sqlite\` (.runner/activity.db), the name of an environment variable that holds the address of a
database, or a file that holds it and only you may read. An address with a password is refused here:
others would see it in \`ps\`.

The log stays in use while it is copied. At the end it cannot be written for a moment: recent changes are
copied, every row is compared, and the old log is closed. It is not deleted. If the command is interrupted,
the same call continues.

Examples:
  runner migrate --to ~/database-url --dry-run    what would be copied
  runner migrate --to RUNNER_DATABASE_URL         from the SQLite file to that database
  runner migrate --to ~/database-url --wait 10m   waits for running scripts to end
  runner migrate --to sqlite                      back, with everything that has happened since
  runner migrate --reopen --from sqlite           use the old log again, as it was when it was moved

Exit codes: 0 moved, 1 not moved: the log is used as before, 2 usage error. See docs/database.md.`;

/** `runner migrate`: the log moves to another place. */
export function migrateCommand(context: CommandContext): Command {
  const command = new Command('migrate');
  return command
    .description('move the activity log to a database server, or back to a file')
    .option('--to <place>', 'the new place: `sqlite`, or a variable or file with the address of a database')
    .option('--from <place>', 'where it is now (default: as RUNNER_DATABASE_URL says)')
    .option('--wait <duration>', 'how long to wait for running scripts and claimed jobs: 10m')
    .option('--dry-run', 'only show what would be copied')
    .option('--reopen', 'use an old log again, as it was when it was moved')
    .option('--json', 'as JSON')
    .addHelpText('after', EXAMPLES)
    .action(() => migrate(context, command.optsWithGlobals<Options>()));
}

async function migrate(context: CommandContext, options: Options): Promise<void> {
  if (options.reopen) return await reopenLog(context, options);
  if (options.to === undefined) {
    throw new UsageError(
      '`npx folder-runner migrate` needs --to: `sqlite`, a variable or a file with the address of a database.',
    );
  }
  const { openRunner } = await import('../shared/context.ts');
  const { openSource, openTarget, readEnds } = await import('../../store/move/places.ts');
  const waitMs = await readWait(options.wait);
  // Page after page becomes garbage: unasked, V8 lets that grow by hundreds of megabytes.
  setFlagsFromString('--semi-space-growth-factor=1');
  const runner = await openRunner(context, options.root);
  const { root, state } = runner;
  const ends = readEnds({ from: options.from, to: options.to, root, env: context.env });
  if (!options.dryRun) await settleDead(context, runner, ends.from);
  const startedAt = performance.now();
  const source = await openSource(ends.from, state);
  const target = await openTarget(ends.to, state).catch(async (error) => {
    await source.close();
    throw error;
  });
  const progress = await showProgress(context, options);
  const report = await moveOrTell(context, {
    ...{ source, target, waitMs, isDryRun: options.dryRun === true },
    ...{ now: context.now, onProgress: progress.show },
  });
  progress.end();
  await Promise.all([source.close(), target.close()]);
  if (report === null) return;
  const done: Done = { source, target, report, durationMs: performance.now() - startedAt, ...ends };
  const { formatJson } = await import('../../report/json.ts');
  context.stdout.write(options.json ? formatJson(doneToJson(done, options)) : await describe(done, options));
}

async function moveOrTell(context: CommandContext, move: Move): Promise<MoveReport | null> {
  const { moveLog } = await import('../../store/move/move-log.ts');
  const { MoveRefused } = await import('../../store/move/place.ts');
  try {
    return await moveLog(move);
  } catch (error) {
    await Promise.all([move.source.close(), move.target.close()]);
    if (!(error instanceof MoveRefused)) throw error;
    context.stderr.write(`runner: ${error.message}\n`);
    context.setExitCode(1);
    return null;
  }
}

async function readWait(text: string | undefined): Promise<number> {
  if (text === undefined) return 0;
  const { parseDurationMs } = await import('../../settings/readers.ts');
  const waitMs = parseDurationMs(text.trim());
  if (waitMs === null)
    throw new UsageError(`--wait must be a duration such as 30s or 10m, found ${JSON.stringify(text)}.`);
  return waitMs;
}

/** What has died is recorded where it began: else it would keep the log from being moved. */
async function settleDead({ now }: CommandContext, runner: Runner, from: NamedPlace): Promise<void> {
  const { openExistingPlace } = await import('../../store/move/places.ts');
  const store = await openExistingPlace(from, runner.state);
  if (store === null) return;
  try {
    const { reconcile } = await import('../../worker/recovery/reconcile.ts');
    await reconcile(runner, store, now());
  } finally {
    await store.close();
  }
}

async function reopenLog(context: CommandContext, { root: option, from, json }: Options): Promise<void> {
  const { readPlaceOrUsual, reopen } = await import('../../store/move/places.ts');
  const { nameOfDatabase } = await import('../../store/server/connect/url.ts');
  const { rootOf } = await import('../shared/open.ts');
  const { checkWritable } = await import('../../settings/access.ts');
  const root = rootOf(context, option);
  const state = stateFolderOf(root);
  await checkWritable(root, state, context.env);
  const place = readPlaceOrUsual(from, root, context.env);
  const name = place === 'sqlite' ? state.database : nameOfDatabase(place);
  if (!(await reopen(place, state))) {
    context.stderr.write(`runner: No log was moved away from ${name}, so nothing was changed.\n`);
    return context.setExitCode(1);
  }
  const text = `The log in ${name} is used again, as it was when it was moved. What was recorded elsewhere since stays there.\n`;
  const { formatJson } = await import('../../report/json.ts');
  context.stdout.write(json ? formatJson({ reopened: name }) : text);
}

interface ShownProgress {
  show(progress: Progress): void;
  end(): void;
}

const FRAME_MS = 100;

/** One line, only on a terminal. */
async function showProgress({ stdout }: CommandContext, { json }: Options): Promise<ShownProgress> {
  if (json || !stdout.isTTY) return { show: () => {}, end: () => {} };
  const { createLogUpdate } = await import('log-update');
  const { formatCount } = await import('../../system/base/format.ts');
  const screen = createLogUpdate(stdout);
  const verbs = { copy: 'Copying', complete: 'Comparing' };
  let shownAt = Number.NEGATIVE_INFINITY;
  return {
    show: ({ phase, table, rows, total }) => {
      if (performance.now() < shownAt + FRAME_MS) return;
      shownAt = performance.now();
      const what = phase === 'wait' ? 'Waiting for what is running …' : `${verbs[phase]} ${table}`;
      screen(phase === 'wait' ? what : `${what}: ${formatCount(rows)} of ${formatCount(Math.max(rows, total))} rows`);
    },
    end: () => {
      screen.clear();
      screen.done();
    },
  };
}

interface Done extends Ends {
  readonly source: SourcePlace;
  readonly target: TargetPlace;
  readonly report: MoveReport;
  readonly durationMs: number;
}

function doneToJson({ source, target, report, durationMs }: Done, { dryRun }: Options): object {
  const { tables, notes } = report;
  return {
    from: source.name,
    to: target.name,
    dryRun: dryRun === true,
    tables,
    notes,
    durationMs: Math.round(durationMs),
  };
}

async function describe({ source, target, report, durationMs, to }: Done, { dryRun }: Options): Promise<string> {
  const { countOf, formatCount, formatDuration } = await import('../../system/base/format.ts');
  const filled = report.tables.filter(({ rows }) => rows > 0);
  const rows = filled.reduce((sum, table) => sum + table.rows, 0);
  const what = `${countOf(rows, 'row')} of ${countOf(filled.length, 'table')}`;
  const lines = dryRun
    ? [
        ...filled.map((table) => `  ${table.table.padEnd(16)} ${formatCount(table.rows).padStart(12)}`),
        `Would move ${what} from ${source.name} to ${target.name}. Nothing was changed.`,
      ]
    : [
        `Moved ${what} to ${target.name} in ${formatDuration(durationMs)}; all were compared.`,
        ...report.notes.map((note) => `Note: ${note}`),
        `${capitalized(source.name)} keeps what it had, and takes no more.`,
        '',
        ...(to === 'sqlite' ? nextForFile : nextForServer),
      ];
  return lines.map((line) => `${line}\n`).join('');
}

const nextForServer = [
  'Next: name the database for all that calls the runner: in the first lines of the crontab, on every machine,',
  'and in the settings of your site if that adds jobs.',
  '  RUNNER_DATABASE_URL_FILE=/home/you/database-url   (or RUNNER_DATABASE_URL=…)',
  'Passes that are called before that run their scripts; the first one that knows the database records them there.',
  'The way back: `npx folder-runner migrate --to sqlite`, with what has happened since.',
];

const nextForFile = [
  'Next: remove RUNNER_DATABASE_URL or RUNNER_DATABASE_URL_FILE from the crontab and from the settings of your site,',
  'on every machine: this one alone goes on.',
];
