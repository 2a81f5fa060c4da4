import { relative, resolve } from 'node:path';
import type { DisabledScript } from '../../discovery/not-run.ts';
import {
  type Discovery,
  describeHosts,
  type Ignored,
  type Script,
  type Tier,
  type Unread,
} from '../../discovery/script.ts';
import { EVERYTHING, WHOLE_QUEUE } from '../../queue/pauses.ts';
import { describeMisnamed } from '../../schedule/period.ts';
import type { Pause } from '../../store/statements/pauses.ts';
import { isFailure } from '../../store/words.ts';
import { EXEC } from '../../system/base/exec-name.ts';
import {
  countOf,
  countSucceeded,
  describeOutcome,
  describeRises,
  formatBytes,
  formatCount,
  formatDuration,
  formatElapsed,
  formatPeriod,
  formatRate,
  hasWarning,
  UNKNOWN,
} from '../../system/base/format.ts';
import { printableLine } from '../../system/base/text.ts';
import type { NextTime } from '../model/next/next-times.ts';
import type { LastPassSummary, Overview, ScriptOverview, TierOverview } from '../model/overview.ts';
import { type RunningRun, tierOf } from '../model/runs/run.ts';
import type { RecentRun } from '../model/runs/runs.ts';
import type { WaitingScriptJob } from '../model/tier.ts';
import { describeNextTime } from '../text/next-time.ts';
import {
  describePaused,
  describeResume,
  describeSetOptions,
  describeSkip,
  describeUnusual,
  describeWarning,
} from '../text/words.ts';
import { type Palette, paintOutcome, type Screen } from './screen.ts';
import { describeLiveness, NO_TIERS, tellWait } from './status.ts';
import {
  type Column,
  drawTable,
  type FittedColumn,
  fitColumns,
  joinBlocks,
  joinFitting,
  noteHidden,
  renderTable,
  truncate,
  wrap,
} from './table.ts';

const INDENT = '  ';

/** The overview as lines of text: what runs, one block for each tier, totals. */
export function renderOverview(overview: Overview, screen: Screen): string {
  const columns = scriptColumns(screen, overview.totals.released > 0);
  const fitted = fitColumns(columns, overview.scripts, screen.columns - INDENT.length);
  return joinBlocks([
    [...renderHead(overview, screen), ...renderPauseOfAll(overview, screen)],
    ...(overview.running.length > 0 ? [renderRunning(overview.running, screen)] : []),
    ...overview.tiers.map((tier) => renderTier(tier, overview, fitted, screen)),
    [...renderTotals(overview, screen), ...noteHidden(columns, fitted, overview.scripts, screen, INDENT)],
  ]);
}

/** All scripts in one table: a heading, then a line for each. */
export function renderScriptTable({ scripts, totals }: Overview, screen: Screen): string[] {
  const [, ...figures] = scriptColumns(screen, totals.released > 0);
  const name = (script: ScriptOverview): string => `${printableLine(`${script.tier}/`)}${nameOf(script)}`;
  const columns: Column<ScriptOverview>[] = [
    { title: 'script', text: name, shrinks: { first: 24, last: 12 }, isName: true },
    ...figures,
  ];
  return drawTable(columns, scripts, screen);
}

/**
 * Renders what to do if there is nothing to show yet.
 *
 * @param only the tier that the user named
 */
export function renderNothing(overview: Overview, root: string, screen: Screen, only?: string): string {
  const count = overview.scripts.length;
  const first = overview.scripts.find(({ tier, presence }) => tier !== WHOLE_QUEUE && presence !== 'disabled');
  const wanted = only === WHOLE_QUEUE ? undefined : only;
  const tier = printableLine(wanted ?? first?.tier ?? 'hourly');
  const folder = `${printableLine(root)}/jobs${only === undefined ? '' : `/${printableLine(only)}`}`;
  const found =
    count === 0
      ? `There is no script in ${folder} yet: add one to jobs/${printableLine(only ?? tier)}.`
      : `Nothing has run yet; ${countOf(count, 'script')} in ${folder}.`;
  const next =
    count === 0
      ? [`\`npx folder-runner new ${printableLine(only ?? tier)}/<name>\` creates one to begin with.`]
      : [`\`npx folder-runner ${tier}\` runs that tier now.`, '`npx folder-runner cron --install` makes cron run it.'];
  const concerns = ({ name }: Pause): boolean =>
    only === undefined || [EVERYTHING, only].includes(name) || name.startsWith(`${only}/`);
  const paused = overview.pauses
    .filter(concerns)
    .map((pause) => `${describePaused(pause, '', screen.clock)} · \`${describeResume(pause)}\` ends it`);
  const { palette, columns } = screen;
  return [
    ...wrap(found, columns),
    ...next.flatMap((line) => wrap(line, columns)).map(palette.dim),
    ...paused.flatMap((each) => wrap(each, columns)).map(palette.warning),
    '',
  ].join('\n');
}

function renderHead({ sinceMs, untilMs }: Overview, { clock, ...screen }: Screen): string[] {
  const until = Math.abs(untilMs - screen.nowMs) < 60_000 ? 'now' : clock.short(untilMs);
  const parts = [`${clock.short(sinceMs)} to ${until}`, `times in ${clock.zone}`];
  return joinFitting(parts, screen.columns).map(screen.palette.dim);
}

function renderPauseOfAll({ pauses }: Overview, { palette, clock }: Screen): string[] {
  const pause = pauses.find(({ name }) => name === EVERYTHING);
  if (pause === undefined) return [];
  const what = describePaused(pause, '', clock);
  return [palette.warning(`${what} · \`${describeResume(pause)}\` ends it`)];
}

function renderRunning(running: readonly RunningRun[], screen: Screen): string[] {
  const { palette } = screen;
  const lines = running.flatMap((run) => {
    const paint = run.liveness === 'dead' ? palette.bad : palette.live;
    return fitIndented(describeRunning(run, screen), screen).map((line) => INDENT + paint(line));
  });
  return [palette.bold('running now'), ...lines];
}

function describeRunning(run: RunningRun, { nowMs }: Screen): string[] {
  return [
    printableLine(run.script),
    `for ${formatElapsed(nowMs - run.startedAtMs)}`,
    describeLiveness(run),
    run.pid === null ? '' : `pid ${run.pid}`,
    `run ${run.id}`,
  ].filter(Boolean);
}

/** One part to a line on the narrowest terminals, and never wider than those. */
function fitIndented(parts: readonly string[], { columns }: Screen): string[] {
  return joinFitting(parts, columns - INDENT.length);
}

function renderTier(
  tier: TierOverview,
  overview: Overview,
  columns: readonly FittedColumn<ScriptOverview>[],
  screen: Screen,
): string[] {
  const scripts = overview.scripts.filter((script) => script.tier === tier.tier);
  const below = (script: ScriptOverview): string[] => renderBelow(script, screen);
  const table = renderTable(columns, scripts, { palette: screen.palette, indent: INDENT, below });
  const empty = `${INDENT}${screen.palette.dim('no scripts')}`;
  return [...renderTierHead(tier, screen), ...(scripts.length > 0 ? table : [empty])];
}

function renderTierHead(tier: TierOverview, screen: Screen): string[] {
  const { palette } = screen;
  const name = printableLine(tier.tier) + (tier.presence === 'gone' ? ' (gone)' : '');
  const [first = '', ...more] = fitIndented([name, ...describePasses(tier, screen)], screen);
  const [title = '', ...rest] = first.split(' · ');
  return [
    [palette.bold(title), ...rest].join(' · '),
    ...more.map((line) => INDENT + line),
    ...describeTierPause(tier, screen),
    ...describeTrouble(tier, screen).map((line) => INDENT + palette.warning(line)),
  ];
}

function describeTierPause({ pause, tier }: TierOverview, { palette, clock }: Screen): string[] {
  // A pause of everything stands at the top.
  if (pause?.name !== tier) return [];
  const text = `${describePaused(pause, tier, clock)} · \`${describeResume(pause)}\` ends it`;
  return [INDENT + palette.warning(text)];
}

const COMMANDS = 'commands of `npx folder-runner exec`';

function describePasses(tier: TierOverview, { clock }: Screen): string[] {
  if (tier.tier === WHOLE_QUEUE) return ['handlers of queued jobs'];
  if (tier.tier === EXEC) return [COMMANDS];
  const period = tier.periodMs === null ? 'runs by hand' : formatPeriod(tier.periodMs);
  const { lastPass } = tier;
  if (lastPass === null) return [period, 'never called'];
  const when = `last pass ${clock.short(lastPass.startedAtMs)}`;
  return [period, when, describeResult(lastPass)];
}

function describeResult(pass: LastPassSummary): string {
  if (pass.state === 'running') return 'running now';
  if (pass.state === 'crashed') return 'crashed';
  const counts = [
    pass.succeeded > 0 ? countSucceeded(pass.succeeded, pass.withWarning) : '',
    pass.failed > 0 ? `${formatCount(pass.failed)} failed` : '',
  ].filter(Boolean);
  const { startedAtMs, finishedAtMs } = pass;
  const took = formatDuration(finishedAtMs === null ? null : finishedAtMs - startedAtMs);
  return `${counts.join(', ') || 'nothing to run'} in ${took}`;
}

function describeTrouble(tier: TierOverview, screen: Screen): string[] {
  return [describeMissed(tier, screen), describeSkipped(tier, screen)].flatMap((parts) => fitIndented(parts, screen));
}

function describeMissed({ missed }: TierOverview, { clock }: Screen): string[] {
  const gap = missed?.gaps.at(-1);
  if (!missed || !gap) return [];
  const count = countOf(missed.count, 'expected pass', 'expected passes');
  const after = clock.short(gap.fromMs);
  const when = gap.toMs === null ? `none since ${after}` : `last from ${after} to ${clock.short(gap.toMs)}`;
  return [`${count} did not happen`, when];
}

function describeSkipped(tier: TierOverview, { clock }: Screen): string[] {
  const last = tier.lastSkipped;
  if (last === null) return [];
  const [pass, passes] = tier.tier === EXEC ? ['call', 'calls'] : ['pass', 'passes'];
  const count = countOf(tier.skippedPasses, pass, passes);
  return [`${count} skipped, last ${clock.short(last.startedAtMs)}`, describeSkip(last, clock)];
}

/** Lines about a script besides its figures. A pause of its whole tier stands above. */
function renderBelow(script: ScriptOverview, screen: Screen): string[] {
  const { columns, palette, clock } = screen;
  const { lastError, lastRun, waiting, pause } = script;
  const cut = (text: string): string => truncate(text, columns - INDENT.length - 2);
  const wait = waiting === null || isNext(waiting) ? [] : [tellWait(waiting, screen)];
  const isOwn = pause !== null && pause.name === script.script;
  const warning = lastRun?.warning ? [describeWarning(lastRun.warning)] : [];
  const risen = describeRises(script, clock.short);
  const unusual = describeUnusual(lastRun?.deviations ?? [], script, clock);
  const paused = isOwn ? [describePaused(pause, script.script, clock)] : [];
  return [
    ...(lastError === null ? [] : [palette.bad(cut(lastError))]),
    ...[...warning, ...risen, ...unusual, ...wait, ...paused].map((text) => palette.warning(cut(text))),
  ].map((line) => `  ${line}`);
}

/** The pass that runs now comes to it. */
function isNext({ state }: WaitingScriptJob): boolean {
  return state === 'queued' || state === 'claimed';
}

function renderTotals({ totals, scripts }: Overview, { palette, columns }: Screen): string[] {
  const warned = scripts.filter(({ lastRun }) => lastRun && hasWarning(lastRun)).length;
  const parts = [
    countOf(scripts.length, 'script'),
    countOf(totals.runs, 'run'),
    `${formatCount(totals.failed)} failed`,
    ...(totals.released > 0 ? [`${formatCount(totals.released)} released`] : []),
    ...(totals.stopped > 0 ? [`${formatCount(totals.stopped)} stopped`] : []),
    `${formatRate(totals.successRate)} succeeded`,
    ...(warned > 0 ? [`${countOf(warned, 'script')} with a warning`] : []),
    `${formatDuration(totals.totalDurationMs)} in total`,
    `${formatDuration(totals.totalCpuMs)} of CPU`,
    `${formatBytes(totals.maxRssBytes)} at most`,
  ];
  return joinFitting(parts, columns).map(palette.dim);
}

function scriptColumns(screen: Screen, hasReleased: boolean): readonly Column<ScriptOverview>[] {
  const { palette } = screen;
  const figure = (title: string, rank: number, text: Column<ScriptOverview>['text']) =>
    ({ title, rank, text, align: 'right' }) as const;
  const released = figure('released', 2, (script) => formatCount(script.released));
  return [
    { title: 'script', text: nameOf, shrinks: { first: 24, last: 12 }, isName: true },
    { ...figure('last run', 9, (script) => lastRunOf(script, screen)), paint: palette.dim },
    {
      title: 'outcome',
      text: outcomeOf,
      paint: (text, script) => paintLast(text, script, palette),
    },
    figure('runs', 7, (script) => formatCount(script.runs)),
    ...(hasReleased ? [released] : []),
    figure('success', 8, (script) => formatRate(script.successRate)),
    figure('p50', 5, (script) => formatDuration(script.p50DurationMs)),
    figure('p95', 6, (script) => formatDuration(script.p95DurationMs)),
    figure('max', 2, (script) => formatDuration(script.maxDurationMs)),
    figure('cpu', 1, (script) => formatDuration(script.cpuMs)),
    figure('memory', 4, (script) => formatBytes(script.maxRssBytes)),
    {
      title: 'last 20',
      rank: 3,
      text: (script) => sparkline(script.recentRuns),
      paint: (text, script) => paintSparkline(text, script.recentRuns, palette),
    },
  ];
}

/** Without the tier, which stands above. */
function nameOf(script: ScriptOverview): string {
  const name = printableLine(script.script.slice(tierOf(script.script).length + 1));
  return ['gone', 'disabled'].includes(script.presence) ? `${name} (${script.presence})` : name;
}

function lastRunOf(script: ScriptOverview, { clock }: Screen): string {
  return script.lastRun === null ? UNKNOWN : clock.short(script.lastRun.startedAtMs);
}

function outcomeOf(script: ScriptOverview): string {
  return script.lastRun === null ? 'never run' : describeOutcome(script.lastRun);
}

function paintLast(text: string, { lastRun }: ScriptOverview, palette: Palette): string {
  return lastRun === null ? palette.dim(text) : paintOutcome(palette, lastRun)(text);
}

const BARS = [...'▁▂▃▄▅▆▇█'];

/** Measured from zero: a bar twice as high took twice as long. */
function sparkline(runs: readonly RecentRun[]): string {
  const durations = runs.map((run) => run.durationMs);
  if (durations.every((duration) => duration === null)) return '';
  const longest = Math.max(...durations.map((duration) => duration ?? 0)) || 1;
  const barOf = (duration: number): string =>
    BARS[Math.max(0, Math.ceil((duration / longest) * BARS.length) - 1)] as string;
  return durations.map((duration) => (duration === null ? ' ' : barOf(duration))).join('');
}

/** One character is one run; those that failed stand out. */
function paintSparkline(text: string, runs: readonly RecentRun[], palette: Palette): string {
  return [...text]
    .map((bar, index) => (isFailure(runs[index]?.outcome ?? 'running') ? palette.bad(bar) : bar))
    .join('');
}

/** Every tier with its scripts, and the handlers; then every file that is none, and why; then what fits nothing. */
export function renderList(
  discovery: Discovery,
  root: string,
  screen: Screen,
  { pauses = [], disabled = [], times = [], commands = [] }: Partial<ListFacts> = {},
): string {
  const ignored = discovery.ignored.filter(({ path }) => !disabled.some((script) => script.path === path));
  const list: List = { root, screen, pauses, times };
  return joinBlocks([
    renderPause(EVERYTHING, list),
    ...discovery.tiers.map((tier) => renderTierList(tier, list)),
    discovery.tiers.length + discovery.unread.length > 0 ? [] : wrap(NO_TIERS, screen.columns),
    ...(discovery.unread.length > 0 ? [renderUnread(discovery.unread, screen)] : []),
    ...(discovery.handlers.length > 0 ? [renderHandlers(discovery.handlers, list)] : []),
    ...(commands.length > 0 ? [renderCommands(commands, list)] : []),
    ...(discovery.elsewhere.length > 0 ? [renderElsewhere(discovery.elsewhere, list)] : []),
    ...(disabled.length > 0 ? [renderDisabled(disabled, list)] : []),
    ...(ignored.length > 0 ? [renderIgnored(ignored, root, screen)] : []),
    ...(discovery.warnings.length > 0 ? [renderWarnings(discovery.warnings, screen)] : []),
  ]);
}

/** Facts about scripts that their files do not hold. */
interface ListFacts {
  readonly pauses: readonly Pause[];
  readonly disabled: readonly DisabledScript[];
  readonly times: readonly NextTime[];
  /** Names of commands that the log knows. */
  readonly commands: readonly string[];
}

/** Values that every line of the list needs. */
interface List extends Omit<ListFacts, 'disabled' | 'commands'> {
  readonly root: string;
  readonly screen: Screen;
}

function renderTierList(tier: Tier, list: List): string[] {
  const { palette } = list.screen;
  const misnamed = describeMisnamed(tier.name);
  const period = tier.periodMs === null ? 'runs by hand' : formatPeriod(tier.periodMs);
  const called = misnamed === null ? period : palette.warning(misnamed);
  const head = `${palette.bold(printableLine(tier.name))} · ${called}`;
  const none = `  ${palette.dim('no scripts')}`;
  const scripts = tier.scripts.flatMap((script) => renderScript(script, list));
  const pause = renderPause(tier.name, list);
  return [head, ...pause.map((line) => `  ${line}`), ...(scripts.length > 0 ? scripts : [none])];
}

function renderHandlers(handlers: readonly Script[], list: List): string[] {
  const head = `${list.screen.palette.bold('queue')} · handlers of queued jobs`;
  const pause = renderPause('queue', list);
  const scripts = handlers.flatMap((handler) => renderScript(handler, list));
  return [head, ...pause.map((line) => `  ${line}`), ...scripts];
}

function renderCommands(names: readonly string[], list: List): string[] {
  const head = `${list.screen.palette.bold(EXEC)} · ${COMMANDS}, as the log knows them`;
  const pause = renderPause(EXEC, list);
  const lines = names.flatMap((name) => [printableLine(name), ...renderPause(name, list).map((line) => `  ${line}`)]);
  return [head, ...[...pause, ...lines].map((line) => `  ${line}`)];
}

function renderScript(script: Script, list: List): string[] {
  const { root, screen } = list;
  const { palette } = screen;
  const path = printableLine(relative(root, resolve(root, script.path)));
  const name = printableLine(script.name);
  const time = list.times.find((each) => each.script === script.name);
  const next = time === undefined || time.schedule === null ? '' : describeNextTime(time, screen.clock, screen.nowMs);
  const details = [script.options.description ?? '', ...describeSetOptions(script.options), next];
  return [
    ...fitLine([name, palette.dim(path)], screen, 2),
    ...fitLine(details.filter(Boolean).map(printableLine), screen, 4, 0),
    ...script.refusals.flatMap((refusal) => wrapIn(`refused: ${refusal}`, screen, 4).map(palette.bad)),
    ...script.warnings.flatMap((warning) => wrapIn(warning, screen, 4).map(palette.warning)),
    ...renderPause(script.name, list).map((line) => `    ${line}`),
  ];
}

/** Only its own: a pause of more stands above. */
function renderPause(name: string, { pauses, screen }: List): string[] {
  const pause = pauses.find((each) => each.name === name);
  if (pause === undefined) return [];
  const of = name === EVERYTHING ? '' : name;
  return [screen.palette.warning(describePaused(pause, of, screen.clock))];
}

/** @param hanging by how much what goes on in another line stands below what it belongs to */
function fitLine(parts: readonly string[], { columns }: Screen, indent: number, hanging = 2): string[] {
  const lines = joinFitting(parts, columns - indent - hanging);
  return lines.map((line, index) => ' '.repeat(index === 0 ? indent : indent + hanging) + line);
}

function wrapIn(text: string, { columns }: Screen, indent: number): string[] {
  return wrap(printableLine(text), columns - indent).map((line) => ' '.repeat(indent) + line);
}

function renderIgnored(ignored: readonly Ignored[], root: string, screen: Screen): string[] {
  const { bold, dim } = screen.palette;
  const lines = ignored.flatMap(({ path, reason }) =>
    fitLine([printableLine(relative(root, resolve(root, path))), dim(printableLine(reason))], screen, 2),
  );
  return [`${bold('not scripts')} · ${countOf(ignored.length, 'file')}`, ...lines];
}

function renderElsewhere(scripts: readonly Script[], { screen }: List): string[] {
  const { bold, dim } = screen.palette;
  const lines = scripts.flatMap((script) =>
    fitLine([printableLine(script.name), dim(printableLine(describeHosts(script)))], screen, 2),
  );
  return [`${bold('on other machines')} · ${countOf(scripts.length, 'script')}`, ...lines];
}

function renderDisabled(scripts: readonly DisabledScript[], { root, screen }: List): string[] {
  const { bold, dim } = screen.palette;
  const lines = scripts.flatMap(({ name, path }) =>
    fitLine([printableLine(name), dim(printableLine(relative(root, path)))], screen, 2),
  );
  return [
    `${bold('disabled')} · ${countOf(scripts.length, 'script')} · \`npx folder-runner enable <script>\` ends it`,
    ...lines,
  ];
}

function renderUnread(unread: readonly Unread[], screen: Screen): string[] {
  return unread.flatMap(({ reason }) => wrapIn(reason, screen, 0).map(screen.palette.bad));
}

function renderWarnings(warnings: readonly string[], screen: Screen): string[] {
  return warnings.flatMap((warning) => wrapIn(warning, screen, 0).map(screen.palette.warning));
}
