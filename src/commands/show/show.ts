import { Command, Option } from 'commander';
import type { Site } from '../../discovery/site.ts';
import type { RunWithOutput } from '../../report/model/runs/runs.ts';
import type { TextOutput } from '../../report/terminal/screen.ts';
import { UsageError } from '../../system/base/errors.ts';
import { printableLine } from '../../system/base/text.ts';
import type { CommandContext, CommonOptions } from '../shared/context.ts';
import { print, withLog } from '../shared/open.ts';

interface ShowOptions extends CommonOptions {
  readonly full?: true;
}

const EXAMPLES = `
Examples:
  runner show 1234           the run with that number; \`npx folder-runner report <script>\` lists them
  runner show clean-tmp      the newest run of a script
  runner show 1234 --full    with all stored output, not only the head and tail from the log
  runner show 1234 --json    for programs; docs/json.md names the keys

Terminal sequences in the output are removed and control characters made visible; --json shows the
output as it was written.`;

/** `runner show`: everything about one run. */
export function showCommand(context: CommandContext): Command {
  const command = new Command('show');
  return command
    .description('show everything about one run, with its output')
    .argument('<run>', 'the number of the run, or a script: its newest run')
    .option('--full', 'all stored output, not only its head and tail')
    .option('--json', 'as JSON')
    .addHelpText('after', EXAMPLES)
    .action((id: string) => show(context, id, command.optsWithGlobals<ShowOptions>()));
}

interface ActivityOptions extends CommonOptions {
  readonly worker?: string;
  readonly job?: string;
  readonly since?: string;
  readonly until?: string;
  readonly order: string;
  readonly limit: string;
}

const ACTIVITY_EXAMPLES = `
Examples:
  runner activity                         the newest 50 events of jobs and workers
  runner activity --worker 7              one worker: its start, its runs, its end
  runner activity --job 12                one job; \`npx folder-runner job 12\` shows more of it
  runner activity --since 2h --order oldest --limit 1000
                                          the last two hours, oldest first
  runner activity --json                  for programs; docs/json.md names the keys

A time is a duration back from now (90m, 12h, 7d) or local (2026-11-01, "2026-11-01 10:00"); a day given
to --until includes that whole day. docs/json.md has all events.`;

/** `runner activity`: what happened to all jobs and workers. */
export function activityCommand(context: CommandContext): Command {
  const command = new Command('activity');
  return command
    .description('show what happened to jobs and workers, in order')
    .option('--worker <id>', 'only what this worker did')
    .option('--job <id>', 'only what happened to this job')
    .option('--since <time>', 'start of the time range (default: the whole log)')
    .option('--until <time>', 'end of the time range (default: now)')
    .addOption(new Option('--order <what>', 'which entries come first').choices(['newest', 'oldest']).default('newest'))
    .option('--limit <n>', 'maximum number of entries', '50')
    .option('--json', 'as JSON')
    .addHelpText('after', ACTIVITY_EXAMPLES)
    .action(() => showActivity(context, command.optsWithGlobals<ActivityOptions>()));
}

async function showActivity(context: CommandContext, options: ActivityOptions): Promise<void> {
  const { readCount } = await import('../shared/options.ts');
  const { parseOpenWindow } = await import('../../report/text/filters.ts');
  const readId = (option: string, word?: string) => (word === undefined ? undefined : readCount(option, word));
  const limit = readCount('--limit', options.limit);
  const query = {
    ...parseOpenWindow(options, context.now()),
    workerId: readId('--worker', options.worker),
    jobId: readId('--job', options.job),
    order: options.order as 'newest' | 'oldest',
    // One more than asked for tells whether there are more.
    limit: limit + 1,
  };
  const text = await withLog(context, options.root, async ({ view }) => {
    const { selectActivity } = await import('../../report/model/activity.ts');
    const found = await selectActivity(await view(), query);
    const shown = found.slice(0, limit);
    if (options.json) {
      const { formatJson } = await import('../../report/json.ts');
      const { activityRecord } = await import('../../report/model/activity.ts');
      return formatJson({ activity: shown.map(activityRecord.toJson) });
    }
    const { createScreen } = await import('../../report/terminal/screen.ts');
    const { renderActivity } = await import('../../report/terminal/jobs.ts');
    return renderActivity(shown, found.length > limit, createScreen(context));
  });
  await print(context, text);
}

async function show(context: CommandContext, word: string, options: ShowOptions): Promise<void> {
  const { openTextOutput } = await import('../../report/terminal/screen.ts');
  const output = openTextOutput(context.stdout);
  await withLog(context, options.root, async (log) => {
    const run = await findRun(log, await findRunId(context, log, word));
    if (options.json) await showJson(log, run, options, output);
    else await showText(context, log, { run, options, output });
  });
}

async function showJson({ state }: Site, run: RunWithOutput, options: ShowOptions, output: TextOutput): Promise<void> {
  const { formatJson } = await import('../../report/json.ts');
  const { changeRecord, runRecord } = await import('../../report/model/runs/run.ts');
  const { readRunOutput } = await import('../../report/model/runs/output.ts');
  let text: string | null = null;
  for await (const piece of readRunOutput(state, run, options.full === true)) {
    text = (text ?? '') + piece;
  }
  await output.write(
    formatJson({
      ...runRecord.toJson(run),
      host: run.host,
      change: run.change && changeRecord.toJson(run.change),
      output: text,
    }),
  );
}

interface Shown {
  readonly run: RunWithOutput;
  readonly options: ShowOptions;
  readonly output: TextOutput;
}

async function showText(context: CommandContext, { state }: Site, { run, options, output }: Shown): Promise<void> {
  const { createScreen } = await import('../../report/terminal/screen.ts');
  const { renderRun, renderOutputTitle } = await import('../../report/terminal/runs.ts');
  const { readRunOutput } = await import('../../report/model/runs/output.ts');
  const { toPrintableLines } = await import('../../system/base/text.ts');
  const screen = createScreen(context);
  await output.write(renderRun(run, screen));
  let isFirst = true;
  let last = '\n';
  for await (const text of toPrintableLines(readRunOutput(state, run, options.full === true))) {
    if (isFirst) await output.write(renderOutputTitle(run, options.full === true, screen));
    isFirst = false;
    last = text;
    if (!(await output.write(text))) return;
  }
  if (!last.endsWith('\n')) await output.write('\n');
}

async function findRun(log: Site, id: number): Promise<RunWithOutput> {
  const { selectHighestRunId, selectRun } = await import('../../report/model/runs/runs.ts');
  const view = await log.view();
  const run = await selectRun(view, id);
  if (run !== null) return run;
  const newest = await selectHighestRunId(view.db);
  const hint = newest === null ? 'nothing has run yet' : `the newest is ${newest}`;
  throw new UsageError(
    `There is no run ${id} in the log: ${hint}; \`npx folder-runner report <script>\` lists a script's runs.`,
  );
}

/** Of a script or handler, the newest run. */
async function findRunId(context: CommandContext, log: Site, word: string): Promise<number> {
  if (/^[1-9]\d{0,14}$/.test(word)) return Number(word);
  if (/^[\d-]/.test(word) && !word.includes('/')) throw noRunNumber(word);
  const { scriptNameOf } = await import('../../discovery/find-script.ts');
  const { findNames, findRecordedScript } = await import('../../report/model/runs/history.ts');
  const { selectNewestRun } = await import('../../report/model/runs/runs.ts');
  const view = await log.view();
  const names = await findNames(log);
  const script = findRecordedScript(scriptNameOf(word, { cwd: context.cwd, root: log.root }), names);
  const newest = await selectNewestRun(view, script);
  if (newest === null) throw new UsageError(`${printableLine(script)} has never run.`);
  return newest.id;
}

function noRunNumber(word: string): UsageError {
  return new UsageError(
    `npx folder-runner show needs the number of a run or the name of a script, found ${JSON.stringify(word)}; ` +
      '`npx folder-runner report <script>` lists the runs of a script with their numbers.',
  );
}
