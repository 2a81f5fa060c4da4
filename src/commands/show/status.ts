import { relative } from 'node:path';
import { findVariableFaults } from '../../checks/host/variables.ts';
import { discover } from '../../discovery/discover.ts';
import { findDisabled } from '../../discovery/not-run.ts';
import { type Discovery, hasOwnTimes, type Script } from '../../discovery/script.ts';
import type { Site } from '../../discovery/site.ts';
import { readDifferences } from '../../monitor/machines.ts';
import { discoveryToJson, formatJson } from '../../report/json.ts';
import { type NextTime, readNextTimes } from '../../report/model/next/next-times.ts';
import { selectScriptNames } from '../../report/model/runs/runs.ts';
import { readStatus, statusRecord, withFigures } from '../../report/model/status.ts';
import { renderWhy } from '../../report/terminal/findings.ts';
import { renderList } from '../../report/terminal/overview.ts';
import { createScreen, openTextOutput } from '../../report/terminal/screen.ts';
import { renderStatus } from '../../report/terminal/status.ts';
import { withFarPasses } from '../../report/text/next-time.ts';
import { whyWithChainRecord } from '../../report/why/explain.ts';
import { readWhy, withChain } from '../../report/why/why.ts';
import { loadSettings, readGivenVariables } from '../../settings/load.ts';
import { nothingGiven, type Settings } from '../../settings/settings.ts';
import { sentenceOf, UsageError } from '../../system/base/errors.ts';
import { isExecName } from '../../system/base/exec-name.ts';
import type { CommandContext } from '../shared/context.ts';
import { noteSpooled, print, rootOf, withLogIfAny } from '../shared/open.ts';
import type { Given } from '../table.ts';

/** `runner status`: how things stand now. */
export async function showStatus(context: CommandContext, options: Given<'status'>): Promise<void> {
  const text = await withLogIfAny(context, options.root, (log) => describeStatus(context, log, options));
  await print(context, text);
}

async function describeStatus(context: CommandContext, site: Site, { json }: Given<'status'>): Promise<string> {
  const { settingsProblem } = await site.jobs();
  if (settingsProblem !== null) tellWrongSettings(context, settingsProblem);
  const status = await readStatus(site);
  return json ? formatJson(statusRecord.toJson(withFigures(status))) : renderStatus(status, createScreen(context));
}

/** Without this, what waits would look as if it were only a matter of time. */
function tellWrongSettings({ stderr }: CommandContext, problem: string): void {
  stderr.write(`Note: no call starts anything until the settings are fixed. ${problem}\n`);
}

/** `runner why`: why a script did or didn't run. */
export async function tellWhy(context: CommandContext, options: Given<'why'>): Promise<void> {
  const text = await withLogIfAny(context, options.root, (log) => describeWhy(context, log, options));
  await print(context, text);
}

async function describeWhy(context: CommandContext, site: Site, { script: word, json }: Given<'why'>): Promise<string> {
  const screen = createScreen(context);
  await site.jobs();
  await noteSpooled(context, site.root);
  const found = await readWhy(site, { word, cwd: context.cwd, clock: screen.clock });
  const why = await withChain(site, found);
  return json ? formatJson(whyWithChainRecord.toJson(why)) : renderWhy(why, screen);
}

async function readTimes({ tiers }: Discovery, site: Site): Promise<readonly NextTime[]> {
  if (!tiers.some(({ scripts }) => scripts.some(hasOwnTimes))) return [];
  return await readNextTimes(site, tiers);
}

/** The content of `jobs/`, with warnings of variables that scripts read and do not get. */
async function readJobs({ env }: CommandContext, root: string): Promise<Discovery> {
  const settings = await loadSettings(root, env);
  const found = await discover(root, settings);
  const files = await tryGiven(root, settings);
  const readCalls = async () => (await import('../../checks/host/crontab-calls.ts')).readCrontabCalls(root, env);
  const scripts = [...found.tiers.flatMap((tier) => tier.scripts), ...found.handlers];
  const faults = await findVariableFaults(scripts, { ...settings, given: files.given }, readCalls);
  const warn = (script: Script): Script => {
    const own = faults.filter((fault) => fault.script === script);
    if (own.length === 0) return script;
    const file = relative(root, script.path);
    return { ...script, warnings: [...script.warnings, ...own.map((fault) => `${file}: it ${sentenceOf(fault)}`)] };
  };
  return {
    ...found,
    tiers: found.tiers.map((tier) => ({ ...tier, scripts: tier.scripts.map(warn) })),
    handlers: found.handlers.map(warn),
    warnings: [...found.warnings, ...files.problems],
  };
}

async function tryGiven(root: string, settings: Settings) {
  try {
    return { given: await readGivenVariables(root, settings), problems: [] };
  } catch (error) {
    if (!(error instanceof UsageError)) throw error;
    return { given: nothingGiven, problems: error.message.split('\n') };
  }
}

/** `runner list`: what is in `jobs/`. */
export async function list(context: CommandContext, options: Given<'list'>): Promise<void> {
  const root = rootOf(context, options.root);
  const found = await readJobs(context, root);
  const { pauses, differences, times, commands } = await withLogIfAny(context, options.root, async (site) => ({
    pauses: await site.pauses(),
    differences: site.store === null ? [] : await readDifferences(site.store, site.nowMs),
    times: await readTimes(found, site),
    commands: (await selectScriptNames((await site.view()).db)).filter(isExecName),
  }));
  const screen = createScreen(context);
  const tiers = withFarPasses(found.tiers, times, screen.clock);
  const discovery = { ...found, tiers, warnings: [...found.warnings, ...differences] };
  const disabled = findDisabled(root);
  const output = openTextOutput(context.stdout);
  await output.write(
    options.json
      ? formatJson(discoveryToJson(discovery, pauses, disabled, times, commands))
      : renderList(discovery, root, screen, { pauses, disabled, times, commands }),
  );
}
