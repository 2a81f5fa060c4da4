import { setFlagsFromString } from 'node:v8';
import { createLogUpdate } from 'log-update';
import { formatJson } from '../../report/json.ts';
import { checkWritable } from '../../settings/access.ts';
import type { Runner } from '../../settings/settings.ts';
import { type Move, type MoveReport, moveLog, type Progress } from '../../store/move/move-log.ts';
import { MoveRefused, type SourcePlace, type TargetPlace } from '../../store/move/place.ts';
import {
  type Ends,
  type NamedPlace,
  openExistingPlace,
  openSource,
  openTarget,
  readEnds,
  readPlaceOrUsual,
  reopen,
} from '../../store/move/places.ts';
import { nameOfDatabase } from '../../store/server/connect/url.ts';
import { UsageError } from '../../system/base/errors.ts';
import { countOf, formatCount, formatDuration } from '../../system/base/format.ts';
import { capitalized } from '../../system/base/text.ts';
import { stateFolderOf } from '../../system/place/state-folder.ts';
import { reconcile } from '../../worker/recovery/reconcile.ts';
import { type CommandContext, openRunner } from '../shared/context.ts';
import { rootOf } from '../shared/open.ts';
import type { Given } from '../table.ts';

type Options = Given<'migrate'>;

/** `runner migrate`: the log moves to another place. */
export async function migrateCommand(context: CommandContext, options: Options): Promise<void> {
  if (options.reopen) return await reopenLog(context, options);
  if (options.to === undefined) {
    throw new UsageError(
      '`npx folder-runner migrate` needs --to: `sqlite`, a variable or a file with the address of a database.',
    );
  }
  const { wait: waitMs = 0 } = options;
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
  const progress = showProgress(context, options);
  const report = await moveOrTell(context, {
    ...{ source, target, waitMs, isDryRun: options.dryRun === true },
    ...{ now: context.now, onProgress: progress.show },
  });
  progress.end();
  await Promise.all([source.close(), target.close()]);
  if (report === null) return;
  const done: Done = { source, target, report, durationMs: performance.now() - startedAt, ...ends };
  context.stdout.write(options.json ? formatJson(doneToJson(done, options)) : describe(done, options));
}

async function moveOrTell(context: CommandContext, move: Move): Promise<MoveReport | null> {
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

/** Records dead runs in the log that they began in: as running ones they would keep the log from being moved. */
async function settleDead({ now }: CommandContext, runner: Runner, from: NamedPlace): Promise<void> {
  const store = await openExistingPlace(from, runner.state);
  if (store === null) return;
  try {
    await reconcile(runner, store, now());
  } finally {
    await store.close();
  }
}

async function reopenLog(context: CommandContext, { root: option, from, json }: Options): Promise<void> {
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
  context.stdout.write(json ? formatJson({ reopened: name }) : text);
}

interface ShownProgress {
  show(progress: Progress): void;
  end(): void;
}

const FRAME_MS = 100;

/** One line, only on a terminal. */
function showProgress({ stdout }: CommandContext, { json }: Options): ShownProgress {
  if (json || !stdout.isTTY) return { show: () => {}, end: () => {} };
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

function describe({ source, target, report, durationMs, to }: Done, { dryRun }: Options): string {
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
