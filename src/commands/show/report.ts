import { resolve } from 'node:path';
import { Command, Option } from 'commander';
import type { Protection } from '../../dashboard/static/protect.ts';
import type { Site } from '../../discovery/site.ts';
import type { ScriptOverview } from '../../report/model/overview.ts';
import type { RunRecord } from '../../report/model/runs/run.ts';
import type { RunFilter } from '../../report/model/runs/runs.ts';
import { UsageError } from '../../system/base/errors.ts';
import { printable, printableLine } from '../../system/base/text.ts';
import type { CommandContext, CommonOptions } from '../shared/context.ts';
import { print, rootOf, withLog } from '../shared/open.ts';

interface ReportOptions extends CommonOptions {
  readonly since?: string;
  readonly until?: string;
  readonly tier?: string;
  readonly outcome?: string;
  readonly limit?: string;
  readonly csv?: true;
  readonly mail?: true;
  readonly to?: string;
  readonly html?: string;
  readonly withOutput?: true;
  readonly protect?: boolean;
}

const EXAMPLES = `
Examples:
  runner report                             all scripts, the last 7 days
  runner report --since 24h --tier hourly   one tier, the last day
  runner report --outcome failed            only scripts that failed in that time
  runner report hourly/clean-tmp            one script's runs, newest first
  runner report clean-tmp --since 2026-11-01 --until 2026-11-02
  runner report --json                      for programs; docs/json.md names the keys
  runner report --csv > report.csv          for a spreadsheet
  runner report --mail                      send it by mail: put this into a script of jobs/weekly
  runner report --mail --to me@example.org --since 30d
  runner report --html ~/public_html/status/index.html    the dashboard as one file, behind a login

A time is a duration back from now (90m, 12h, 7d, 4w) or local (2026-11-01, "2026-11-01 10:00");
a day given to --until includes that whole day. Success is the share of successful runs among all that
succeeded or failed; released runs are counted separately.
p50, p95 and max are durations of all ended runs; cpu is the median, memory the highest peak.`;

/** `runner report`: what the log says, of all scripts or of one. */
export function reportCommand(context: CommandContext): Command {
  const command = new Command('report');
  return command
    .description('show the runs and their results')
    .argument('[script]', 'only this script, by name or file: its runs, newest first')
    .option('--since <time>', 'start of the time range (default: 7d)')
    .option('--until <time>', 'end of the time range (default: now)')
    .option('--tier <tier>', 'only this tier')
    .option('--outcome <outcome>', 'only this outcome; several separated by commas')
    .option('--limit <count>', 'maximum number of scripts or runs (default on a screen: 50 runs)')
    .addOption(new Option('--json', 'as JSON').conflicts('csv'))
    .addOption(new Option('--csv', 'as CSV').conflicts('json'))
    .option('--mail', 'send a report of all scripts by mail: failures, slower scripts, highest costs')
    .option('--to <address>', 'with --mail: send it there (default: the mail channels of the settings)')
    .option('--html <file>', 'write the dashboard into this file, for a browser; needs no server')
    .option('--with-output', 'with --html: also output, errors and data of jobs')
    .option('--protect', 'with --html: require a login, by Apache (default if a web server serves the folder)')
    .option('--no-protect', 'with --html: require no login')
    .addHelpText('after', EXAMPLES)
    .action((script: string | undefined) => report(context, script, command.optsWithGlobals<ReportOptions>()));
}

async function report(context: CommandContext, word: string | undefined, options: ReportOptions): Promise<void> {
  if (readsOfHtml(options)) return await html(context, word, options);
  const filter = await readFilter(options, context.now());
  if (options.mail || options.to !== undefined) return await mail(context, word, options, filter);
  const text = await withLog(context, options.root, async (site) => {
    await site.known();
    await noteUnreadSettings(context, site.root);
    if (word !== undefined) return await reportScript(context, site, { word, filter, options });
    return await reportAll(context, site, { filter, options });
  });
  await print(context, text);
}

/** Settings are code, which a report does not run: it goes by the names of the files. */
async function noteUnreadSettings({ stderr }: CommandContext, root: string): Promise<void> {
  const { findUnreadFile } = await import('../../settings/load.ts');
  const problem = findUnreadFile(root);
  if (problem !== null) stderr.write(`Note: no script runs. ${printableLine(problem)}\n`);
}

function readsOfHtml({ html, withOutput, protect }: ReportOptions): boolean {
  return [html, withOutput, protect].some((each) => each !== undefined);
}

async function html(context: CommandContext, word: string | undefined, options: ReportOptions): Promise<void> {
  const { html: path, withOutput = false, protect, root, ...others } = options;
  if (path === undefined || path === '') {
    throw new UsageError('--html needs a file: `npx folder-runner report --html ~/public_html/status/index.html`.');
  }
  if (word !== undefined || Object.keys(others).length > 0) {
    throw new UsageError(
      '--html writes the whole dashboard: leave out everything else but --with-output and --[no-]protect.',
    );
  }
  await writeHtmlReport(context, { root, path, isWithOutput: withOutput, protect });
}

async function mail(
  context: CommandContext,
  word: string | undefined,
  { mail: isMail, to, root, ...options }: ReportOptions,
  window: RunFilter,
): Promise<void> {
  if (!isMail)
    throw new UsageError('--to needs --mail beside it: `npx folder-runner report --mail --to me@example.org`.');
  const { tier, outcome, limit, json, csv } = options;
  if ([word, tier, outcome, limit, json, csv].some((each) => each !== undefined)) {
    throw new UsageError(
      '--mail sends the report of all scripts: leave out everything else but --to, --since and --until.',
    );
  }
  const { mailReport } = await import('./report-mail.ts');
  await mailReport(context, { root, to: to === undefined ? null : await readAddresses(to), window });
}

async function readAddresses(text: string): Promise<string> {
  const { isAddress } = await import('../../settings/channels.ts');
  const addresses = text.split(',').map((each) => each.trim());
  if (addresses.every(isAddress)) return addresses.join(', ');
  throw new UsageError(`--to must be an address such as me@example.org, found ${JSON.stringify(text)}.`);
}

interface Request {
  readonly filter: RunFilter;
  readonly options: ReportOptions;
}

async function reportAll(context: CommandContext, site: Site, { filter, options }: Request): Promise<string> {
  const { readOverview } = await import('../../report/model/overview.ts');
  const overview = await readOverview(site, { ...filter, tier: options.tier });
  if (options.tier !== undefined && overview.tiers.length === 0) {
    const { unknownTier } = await import('../../report/model/runs/history.ts');
    throw unknownTier(
      options.tier,
      ((await site.known()) ?? []).map(({ tier }) => tier),
    );
  }
  if (options.json) {
    const { formatJson } = await import('../../report/json.ts');
    const { overviewRecord } = await import('../../report/model/overview.ts');
    return formatJson(overviewRecord.toJson(overview));
  }
  if (options.csv) return await scriptsToCsv(overview.scripts);
  const { createScreen } = await import('../../report/terminal/screen.ts');
  const { renderNothing, renderOverview } = await import('../../report/terminal/overview.ts');
  const screen = createScreen(context);
  const hasRuns = overview.scripts.some((script) => script.lastRun !== null);
  if (hasRuns || overview.running.length > 0) return renderOverview(overview, screen);
  return renderNothing(overview, site.root, screen, options.tier);
}

async function reportScript(
  context: CommandContext,
  site: Site,
  { word, filter, options }: Request & { readonly word: string },
): Promise<string> {
  const { scriptNameOf } = await import('../../discovery/find-script.ts');
  const { readScriptRuns } = await import('../../report/model/runs/history.ts');
  const isForMachines = options.json === true || options.csv === true;
  const limit = filter.limit ?? (isForMachines ? undefined : SCREEN_RUNS);
  const query = { ...filter, limit, tier: options.tier };
  const found = await readScriptRuns(site, scriptNameOf(word, { cwd: context.cwd, root: site.root }), query);
  if (options.json) {
    const { formatJson } = await import('../../report/json.ts');
    const { runRecord } = await import('../../report/model/runs/run.ts');
    return formatJson({ script: found.script, runs: found.runs.map(runRecord.toJson) });
  }
  if (options.csv) return await runsToCsv(found.runs);
  const { createScreen } = await import('../../report/terminal/screen.ts');
  const { renderRuns } = await import('../../report/terminal/runs.ts');
  return renderRuns(found, createScreen(context));
}

/** Show one screenful; a note below says how many are hidden. */
const SCREEN_RUNS = 50;

async function readFilter(options: ReportOptions, nowMs: number): Promise<RunFilter> {
  const { parseTimeWindow, parseOutcomes } = await import('../../report/text/filters.ts');
  return {
    ...parseTimeWindow(options, nowMs),
    outcomes: options.outcome === undefined ? undefined : parseOutcomes(options.outcome),
    limit: options.limit === undefined ? undefined : parseLimit(options.limit),
  };
}

function parseLimit(text: string): number {
  const limit = /^\d{1,9}$/.test(text) ? Number(text) : 0;
  if (limit > 0) return limit;
  throw new UsageError(`--limit must be a whole number from 1, found ${JSON.stringify(text)}.`);
}

/** `runner report --csv`: one line for each script. Instants are ISO strings, unknown is empty. */
export function scriptsToCsv(scripts: readonly ScriptOverview[]): Promise<string> {
  return formatCsv(scriptTitles, (isoInstant) =>
    scripts.map(({ lastRun, ...script }) => ({
      ...script,
      lastRunId: lastRun?.id,
      lastOutcome: lastRun?.outcome,
      lastStartedAt: isoInstant(lastRun?.startedAtMs ?? null),
      lastWarning: lastRun?.warning,
    })),
  );
}

/** `runner report <script> --csv`: one line for each run. */
export function runsToCsv(runs: readonly RunRecord[]): Promise<string> {
  return formatCsv(runTitles, (isoInstant) =>
    runs.map(({ error, ...run }) => ({
      ...run,
      job: run.jobId,
      scheduledFor: isoInstant(run.scheduledForMs),
      startedAt: isoInstant(run.startedAtMs),
      finishedAt: isoInstant(run.finishedAtMs),
      errorName: error?.name,
      errorMessage: error?.message,
    })),
  );
}

const scriptTitles =
  'script tier presence runs succeeded failed released successRate p50DurationMs p95DurationMs ' +
  'maxDurationMs cpuMs maxRssBytes lastRunId lastOutcome lastStartedAt lastError lastWarning';

const runTitles =
  'id script tier outcome attempt scheduledFor startedAt finishedAt durationMs userCpuMs systemCpuMs ' +
  'maxRssBytes measuredBy exitCode signal reason warning errorName errorMessage contentHash pid ' +
  'outputBytes outputDroppedBytes job';

type Row = Readonly<Record<string, unknown>>;

/**
 * File names and errors come from anywhere: a spreadsheet must not take one for a formula, so such
 * a cell gets an apostrophe in front (https://owasp.org/www-community/attacks/CSV_Injection).
 */
export async function formatCsv(
  titles: string,
  toRows: (instant: (atMs: number | null) => string | null) => readonly Row[],
): Promise<string> {
  const { stringify } = await import('csv-stringify/sync');
  const { printable } = await import('../../system/base/text.ts');
  const { isoInstant } = await import('../../system/base/record.ts');
  const columns = titles.split(' ');
  const toCell = (cell: unknown) => (typeof cell === 'string' ? printable(cell) : cell);
  const rows = toRows(isoInstant).map((row) => columns.map((title) => toCell(row[title])));
  return stringify([columns, ...rows], { escape_formulas: true });
}

interface HtmlRequest {
  readonly root: string | undefined;
  /** As it was given: from the current folder. */
  readonly path: string;
  readonly isWithOutput: boolean;
  /** Undefined: as it seems fit. */
  readonly protect: boolean | undefined;
}

/** `runner report --html`: the dashboard of this moment as a file. */
async function writeHtmlReport(context: CommandContext, request: HtmlRequest): Promise<void> {
  const { cwd, env, version, now, distFolder } = context;
  const root = rootOf(context, request.root);
  const { findReportFile } = await import('../../dashboard/static/write.ts');
  const { replaceFile } = await import('../../system/base/plain-file.ts');
  const { makeStaticReport } = await import('../../dashboard/static/report.ts');
  const { isServed, protectReport } = await import('../../dashboard/static/protect.ts');
  const { formatBytes } = await import('../../system/base/format.ts');
  const file = findReportFile(resolve(cwd, request.path));
  const { isWithOutput, protect = isServed(file) } = request;
  const report = await makeStaticReport({ site: { root, env, version, now }, distFolder, isWithOutput });
  // Before anybody could read it.
  const login = request.protect === true || context.stdout.isTTY ? 'login' : 'deny';
  const protection = await protectReport({ file, by: protect ? login : 'none' });
  replaceFile(file, report.html, 0o644);
  const { runsSince } = report;
  const size = formatBytes(Buffer.byteLength(report.html));
  const what = isWithOutput ? 'with what scripts have printed' : 'without output, errors and data of jobs';
  const older = runsSince === null ? '' : `; runs before ${runsSince} were left out for its size`;
  await print(context, `${printable(file)} ${size}, ${what}${older}\n${describeLogin(protection)}`);
  if (protection.warning !== null) context.stderr.write(`runner: WARNING: ${printable(protection.warning)}\n`);
}

function describeLogin({ done, login }: Protection): string {
  const lines = [
    ...(done === null ? [] : [printable(done)]),
    ...(login === null ? [] : [`user ${login.user}, password ${login.password} (shown only now)`]),
  ];
  return lines.map((line) => `${line}\n`).join('');
}
