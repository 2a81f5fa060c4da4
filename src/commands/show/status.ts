import { Command } from 'commander';
import type { Discovery } from '../../discovery/script.ts';
import type { Site } from '../../discovery/site.ts';
import type { NextTime, Upcoming } from '../../report/model/next-times.ts';
import type { Palette, Screen } from '../../report/terminal/screen.ts';
import { widthOf, wrap } from '../../report/terminal/table.ts';
import type { Why, WhyFinding } from '../../report/why/explain.ts';
import { machinesOf } from '../../store/statements/registers.ts';
import { printableLine } from '../../system/base/text.ts';
import type { CommandContext, CommonOptions } from '../shared/context.ts';
import { noteSpooled, print, rootOf, withLogIfAny } from '../shared/open.ts';
import { readCount } from '../shared/options.ts';

const STATUS_HELP = `
Examples:
  runner status              what is running, waiting and paused, and when each tier is called next
  runner status --upcoming   what comes next, in order: calls of tiers, times of scripts, jobs
  runner status --json       for programs; docs/json.md names the keys

The next call of a tier is the next time of its crontab line. If the crontab cannot be read, it is
estimated from the last call, because cron calls at the same minute of each period.`;

/** `runner status`: how things stand now. */
export function statusCommand(context: CommandContext): Command {
  const command = new Command('status');
  return command
    .description('show what is running, waiting and paused, and what comes next')
    .option('--upcoming [n]', 'the next n times of tiers, scripts and jobs, in order (default: 20)')
    .option('--json', 'as JSON')
    .addHelpText('after', STATUS_HELP)
    .action(() => showStatus(context, command.optsWithGlobals<StatusOptions>()));
}

interface StatusOptions extends CommonOptions {
  readonly upcoming?: string | true;
}

const DEFAULT_UPCOMING = '20';
const MOST_UPCOMING = 1000;

async function showStatus(context: CommandContext, options: StatusOptions): Promise<void> {
  const text = await withLogIfAny(context, options.root, (site) => describeStatus(context, site, options));
  await print(context, text);
}

async function describeStatus(context: CommandContext, site: Site, options: StatusOptions): Promise<string> {
  const { upcoming } = options;
  const limit = readCount('--upcoming', typeof upcoming === 'string' ? upcoming : DEFAULT_UPCOMING, MOST_UPCOMING);
  const { readStatus } = await import('../../report/model/status.ts');
  const { settingsProblem } = await site.jobs();
  if (settingsProblem !== null) tellWrongSettings(context, settingsProblem);
  const status = await readStatus(site);
  if (upcoming !== undefined) {
    const { readAllUpcoming } = await import('../../report/model/next-times.ts');
    return await describeUpcoming(context, await readAllUpcoming(site, status, limit), options);
  }
  if (options.json) {
    const { formatJson } = await import('../../report/json.ts');
    const { statusToJson } = await import('../../report/model/status.ts');
    return formatJson(statusToJson(status));
  }
  const { createScreen } = await import('../../report/terminal/screen.ts');
  const { renderStatus } = await import('../../report/terminal/status.ts');
  return renderStatus(status, createScreen(context));
}

async function describeUpcoming(context: CommandContext, upcoming: readonly Upcoming[], { json }: CommonOptions) {
  if (json) {
    const { formatJson } = await import('../../report/json.ts');
    const { upcomingRecord } = await import('../../report/model/next-times.ts');
    return formatJson({ upcoming: upcoming.map(upcomingRecord.toJson) });
  }
  const { createScreen } = await import('../../report/terminal/screen.ts');
  const { renderUpcomingTimes } = await import('../../report/terminal/next-times.ts');
  return renderUpcomingTimes(upcoming, createScreen(context));
}

/** Without this, what waits would look as if it were only a matter of time. */
function tellWrongSettings({ stderr }: CommandContext, problem: string): void {
  stderr.write(`Note: no call starts anything until the settings are fixed. ${problem}\n`);
}

const WHY_HELP = `
Examples:
  runner why hourly/clean-tmp        why it did or didn't run, and when it will
  runner why jobs/hourly/notes.txt   also for a file that is not a script
  runner why clean-tmp --json        for programs; docs/json.md names the keys

✔ fine · ! worth knowing · ✖ keeps it from running · → how to fix it`;

/** `runner why`: why a script did or didn't run. */
export function whyCommand(context: CommandContext): Command {
  const command = new Command('why');
  return command
    .description("explain why a script did or didn't run, and what to do about it")
    .argument('<script>', 'the name of a script, or a file in jobs/')
    .option('--json', 'as JSON')
    .addHelpText('after', WHY_HELP)
    .action((word: string) => tellWhy(context, word, command.optsWithGlobals<CommonOptions>()));
}

async function tellWhy(context: CommandContext, word: string, options: CommonOptions): Promise<void> {
  const text = await withLogIfAny(context, options.root, (site) => describeWhy(context, site, word, options));
  await print(context, text);
}

async function describeWhy(context: CommandContext, site: Site, word: string, options: CommonOptions): Promise<string> {
  const { readWhy } = await import('../../report/why/why.ts');
  const { createScreen } = await import('../../report/terminal/screen.ts');
  const screen = createScreen(context);
  await site.jobs();
  await noteSpooled(context, site.root);
  const why = await readWhy(site, { word, cwd: context.cwd, clock: screen.clock });
  if (options.json) return (await import('../../report/json.ts')).formatJson(why);
  return renderWhy(why, screen);
}

/** A line for each finding, the cure below where there is one, and what they come to. */
function renderWhy({ script, findings, conclusion }: Why, screen: Screen): string {
  const { palette, columns, clock } = screen;
  const width = Math.max(...findings.map(({ topic }) => topic.length));
  const head = script === null ? [] : [palette.bold(printableLine(script)), ''];
  return `${[
    ...head,
    ...findings.flatMap((finding) => renderFinding(finding, width, screen)),
    '',
    ...wrap(conclusion, columns).map(palette.bold),
    palette.dim(`times in ${clock.zone}`),
  ].join('\n')}\n`;
}

function renderFinding({ topic, verdict, text, cure }: WhyFinding, width: number, screen: Screen) {
  const { palette, columns } = screen;
  const start = `${marks[verdict]} ${topic.padEnd(width)}  `;
  const room = columns - widthOf(start);
  const [first = '', ...more] = wrap(text, room).map(paintOf(verdict, palette));
  const indent = ' '.repeat(widthOf(start));
  const cures = cure === null ? [] : wrap(cure, room - ARROW.length);
  return [
    paintMark(verdict, palette)(marks[verdict]) + palette.dim(start.slice(1)) + first,
    ...more.map((line) => indent + line),
    ...cures.map((line, index) => indent + (index === 0 ? ARROW : '  ') + line),
  ];
}

const ARROW = '→ ';

const marks: Readonly<Record<WhyFinding['verdict'], string>> = {
  fine: '✔',
  notable: '!',
  wrong: '✖',
};

function paintMark(verdict: WhyFinding['verdict'], palette: Palette) {
  return { fine: palette.good, notable: palette.warning, wrong: palette.bad }[verdict];
}

function paintOf(verdict: WhyFinding['verdict'], palette: Palette) {
  return verdict === 'wrong' ? palette.bad : (text: string): string => text;
}

const LIST_HELP = `
Examples:
  runner list           each tier with its scripts; which files are ignored, and why
  runner list --json    for programs; docs/json.md names the keys

A refused script is skipped until you fix the problem shown.`;

/** `runner list`: what is in `jobs/`. */
export function listCommand(context: CommandContext): Command {
  const command = new Command('list');
  return command
    .description('show every tier, its scripts with their options, and ignored files')
    .option('--json', 'as JSON')
    .addHelpText('after', LIST_HELP)
    .action(() => list(context, command.optsWithGlobals<CommonOptions>()));
}

/** Which scripts machines that share the log do not have alike. */
async function readDifferences({ store, nowMs }: Site): Promise<readonly string[]> {
  if (store === null || store.fleet === null) return [];
  const { compareCopies, recentCopies } = await import('../../monitor/machines.ts');
  return compareCopies(await machinesOf(store.statements).copies(recentCopies(nowMs)));
}

/** What tells them is loaded where a script has times of its own. */
async function readTimes({ tiers }: Discovery, site: Site): Promise<readonly NextTime[]> {
  const { hasOwnTimes } = await import('../../discovery/script.ts');
  if (!tiers.some(({ scripts }) => scripts.some(hasOwnTimes))) return [];
  const { readNextTimes } = await import('../../report/model/next-times.ts');
  return await readNextTimes(site, tiers);
}

async function list(context: CommandContext, options: CommonOptions): Promise<void> {
  const root = rootOf(context, options.root);
  const { discoverScripts } = await import('../../discovery/discover.ts');
  const found = await discoverScripts(root);
  const { pauses, differences, times } = await withLogIfAny(context, options.root, async (site) => ({
    pauses: await site.pauses(),
    differences: await readDifferences(site),
    times: await readTimes(found, site),
  }));
  const { createScreen } = await import('../../report/terminal/screen.ts');
  const screen = createScreen(context);
  const { withFarPasses } = await import('../../report/text/next-time.ts');
  const tiers = withFarPasses(found.tiers, times, screen.clock);
  const discovery = { ...found, tiers, warnings: [...found.warnings, ...differences] };
  const disabled = (await import('../../discovery/not-run.ts')).findDisabled(root);
  const { openTextOutput } = await import('../../report/terminal/screen.ts');
  const output = openTextOutput(context.stdout);
  if (options.json) {
    const { discoveryToJson, formatJson } = await import('../../report/json.ts');
    await output.write(formatJson(discoveryToJson(discovery, pauses, disabled, times)));
    return;
  }
  const { renderList } = await import('../../report/terminal/overview.ts');
  await output.write(renderList(discovery, root, screen, { pauses, disabled, times }));
}
