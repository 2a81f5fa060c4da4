import { discoverScripts } from '../../discovery/discover.ts';
import { findDisabled } from '../../discovery/not-run.ts';
import { type Discovery, hasOwnTimes } from '../../discovery/script.ts';
import type { Site } from '../../discovery/site.ts';
import { readDifferences } from '../../monitor/machines.ts';
import { discoveryToJson, formatJson } from '../../report/json.ts';
import { type NextTime, readNextTimes } from '../../report/model/next/next-times.ts';
import { readStatus, statusRecord, withFigures } from '../../report/model/status.ts';
import { renderWhy } from '../../report/terminal/findings.ts';
import { renderList } from '../../report/terminal/overview.ts';
import { createScreen, openTextOutput } from '../../report/terminal/screen.ts';
import { renderStatus } from '../../report/terminal/status.ts';
import { withFarPasses } from '../../report/text/next-time.ts';
import { whyRecord } from '../../report/why/explain.ts';
import { readWhy } from '../../report/why/why.ts';
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
  const why = await readWhy(site, { word, cwd: context.cwd, clock: screen.clock });
  return json ? formatJson(whyRecord.toJson(why)) : renderWhy(why, screen);
}

async function readTimes({ tiers }: Discovery, site: Site): Promise<readonly NextTime[]> {
  if (!tiers.some(({ scripts }) => scripts.some(hasOwnTimes))) return [];
  return await readNextTimes(site, tiers);
}

/** `runner list`: what is in `jobs/`. */
export async function list(context: CommandContext, options: Given<'list'>): Promise<void> {
  const root = rootOf(context, options.root);
  const found = await discoverScripts(root);
  const { pauses, differences, times } = await withLogIfAny(context, options.root, async (site) => ({
    pauses: await site.pauses(),
    differences: site.store === null ? [] : await readDifferences(site.store, site.nowMs),
    times: await readTimes(found, site),
  }));
  const screen = createScreen(context);
  const tiers = withFarPasses(found.tiers, times, screen.clock);
  const discovery = { ...found, tiers, warnings: [...found.warnings, ...differences] };
  const disabled = findDisabled(root);
  const output = openTextOutput(context.stdout);
  await output.write(
    options.json
      ? formatJson(discoveryToJson(discovery, pauses, disabled, times))
      : renderList(discovery, root, screen, { pauses, disabled, times }),
  );
}
