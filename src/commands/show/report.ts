import { resolve } from 'node:path';
import type { Site } from '../../discovery/site.ts';
import { formatJson } from '../../report/json.ts';
import { overviewRecord, readOverview } from '../../report/model/overview.ts';
import { runRecord } from '../../report/model/runs/run.ts';
import { type RunFilter, readScriptRuns } from '../../report/model/runs/runs.ts';
import { readRisesOf, risesRecord } from '../../report/model/runs/script.ts';
import { findScript, noSuchTier } from '../../report/names.ts';
import { renderNothing, renderOverview } from '../../report/terminal/overview.ts';
import { renderRuns } from '../../report/terminal/runs.ts';
import { createScreen } from '../../report/terminal/screen.ts';
import { runsToCsv, scriptsToCsv } from '../../report/text/csv.ts';
import { parseOutcomes, parseTimeWindow } from '../../report/text/filters.ts';
import { isAddress } from '../../settings/channels.ts';
import { findUnreadFile } from '../../settings/load.ts';
import { UsageError } from '../../system/base/errors.ts';
import { printable, printableLine } from '../../system/base/text.ts';
import type { CommandContext } from '../shared/context.ts';
import { print, rootOf, withLog } from '../shared/open.ts';
import type { Given } from '../table.ts';

type Options = Given<'report'>;

/** `runner report`: what the log says, of all scripts or of one. */
export async function reportCommand(context: CommandContext, options: Options): Promise<void> {
  const { html, withOutput, protect, script: word } = options;
  if ([html, withOutput, protect].some((each) => each !== undefined)) return await writeHtml(context, options);
  const filter = readFilter(options, context.now());
  if (options.mail || options.to !== undefined) return await mail(context, options, filter);
  const text = await withLog(context, options.root, async (site) => {
    await site.known();
    noteUnreadSettings(context, site.root);
    if (word !== undefined) return await reportScript(context, site, { word, filter, options });
    return await reportAll(context, site, { filter, options });
  });
  await print(context, text);
}

/** Settings are code, which a report does not run: it goes by the names of the files. */
function noteUnreadSettings({ stderr }: CommandContext, root: string): void {
  const problem = findUnreadFile(root);
  if (problem !== null) stderr.write(`Note: no script runs. ${printableLine(problem)}\n`);
}

async function writeHtml(context: CommandContext, options: Options): Promise<void> {
  const { html: path, withOutput: isWithOutput = false, protect, root, ...others } = options;
  if (path === undefined || path === '') {
    throw new UsageError('--html needs a file: `npx folder-runner report --html ~/public_html/status/index.html`.');
  }
  if (Object.keys(others).length > 0) {
    throw new UsageError(
      '--html writes the whole dashboard: leave out everything else but --with-output and --[no-]protect.',
    );
  }
  const { writeReport } = await import('../../dashboard/static/write.ts');
  const { cwd, env, version, now, distFolder, stdout } = context;
  const written = await writeReport({
    site: { root: rootOf(context, root), env, version, now },
    ...{ distFolder, path: resolve(cwd, path), isWithOutput, protect, isSeen: stdout.isTTY },
  });
  await print(context, written.text);
  if (written.warning !== null) context.stderr.write(`runner: WARNING: ${printable(written.warning)}\n`);
}

async function mail(
  context: CommandContext,
  { mail: isMail, to, root, ...options }: Options,
  window: RunFilter,
): Promise<void> {
  if (!isMail)
    throw new UsageError('--to needs --mail beside it: `npx folder-runner report --mail --to me@example.org`.');
  const { script, tier, outcome, limit, json, csv } = options;
  if ([script, tier, outcome, limit, json, csv].some((each) => each !== undefined)) {
    throw new UsageError(
      '--mail sends the report of all scripts: leave out everything else but --to, --since and --until.',
    );
  }
  const { mailReport } = await import('./report-mail.ts');
  await mailReport(context, { root, to: to === undefined ? null : readAddresses(to), window });
}

function readAddresses(text: string): string {
  const addresses = text.split(',').map((each) => each.trim());
  if (addresses.every(isAddress)) return addresses.join(', ');
  throw new UsageError(`--to must be an address such as me@example.org, found ${JSON.stringify(text)}.`);
}

interface Request {
  readonly filter: RunFilter;
  readonly options: Options;
}

async function reportAll(context: CommandContext, site: Site, { filter, options }: Request): Promise<string> {
  const overview = await readOverview(site, { ...filter, tier: options.tier });
  if (options.tier !== undefined && overview.tiers.length === 0) {
    const tiers = (await site.known()) ?? [];
    throw noSuchTier(
      options.tier,
      tiers.map(({ tier }) => tier),
    );
  }
  if (options.json) return formatJson(overviewRecord.toJson(overview));
  if (options.csv) return await scriptsToCsv(overview.scripts);
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
  const isForMachines = options.json === true || options.csv === true;
  const limit = filter.limit ?? (isForMachines ? undefined : SCREEN_RUNS);
  const script = await findScript(site, word, { cwd: context.cwd, tier: options.tier });
  const found = await readScriptRuns(await site.view(), script, { ...filter, limit });
  if (options.csv) return await runsToCsv(found.runs);
  const rises = await readRisesOf(site, script);
  if (options.json) return formatJson({ script, ...risesRecord.toJson(rises), runs: found.runs.map(runRecord.toJson) });
  return renderRuns(found, rises, createScreen(context));
}

/** Show one screenful; a note below says how many are hidden. */
const SCREEN_RUNS = 50;

function readFilter({ outcome, limit, ...window }: Options, nowMs: number): RunFilter {
  const outcomes = outcome === undefined ? undefined : parseOutcomes(outcome);
  return { ...parseTimeWindow(window, nowMs), outcomes, limit };
}
