import { discover, findTier } from '../../discovery/discover.ts';
import { formatJson } from '../../report/json.ts';
import { createScreen, type Screen } from '../../report/terminal/screen.ts';
import { joinFitting, wrap } from '../../report/terminal/table.ts';
import type { Runner } from '../../settings/settings.ts';
import { countOf, formatDuration } from '../../system/base/format.ts';
import { isoInstant } from '../../system/base/record.ts';
import { printableLine, withInstants } from '../../system/base/text.ts';
import { shellWord } from '../../system/base/values.ts';
import type { TierRequest } from '../../worker/invocation/invocation.ts';
import { type PassPlan, type PlannedRun, planPass, type WhyNot } from '../../worker/pass/plan-pass.ts';
import { type CommandContext, openRunner } from '../shared/context.ts';
import { print, withLogIfAny } from '../shared/open.ts';
import type { Given } from '../table.ts';

/** `runner <tier> --dry-run`. */
export async function planTier(context: CommandContext, name: string, options: Given<'tier'>): Promise<void> {
  const runner = await openRunner(context, options.root);
  const tier = await findTier(runner, name);
  await showPlan(context, runner, [{ kind: 'tier', tier, scripts: tier.scripts }], options);
}

/** `runner due --dry-run`. */
export async function planDue(context: CommandContext, options: Given<'due'>): Promise<void> {
  const runner = await openRunner(context, options.root);
  const { tiers } = await discover(runner.root, runner.settings);
  const called = tiers.filter(({ periodMs }) => periodMs !== null);
  const requests = called.map((tier) => ({ kind: 'tier' as const, tier, scripts: tier.scripts, isDue: true as const }));
  await showPlan(context, runner, requests, options);
}

interface DryRun {
  readonly json?: boolean | undefined;
  /** Milliseconds. */
  readonly budget?: number | undefined;
  readonly args?: readonly string[];
}

/** Shows what a call would do, in which order and how; nothing is run, and nothing is changed. */
export async function showPlan(
  context: CommandContext,
  runner: Runner,
  requests: readonly TierRequest[],
  { args = [], budget, json: isJson }: DryRun,
): Promise<void> {
  const text = await withLogIfAny(context, runner.root, async ({ store }) => {
    const plans: PassPlan[] = [];
    for (const request of requests)
      plans.push(await planPass({ runner, store, args, budgetMs: budget ?? null }, request));
    return isJson ? toJson(plans) : renderPlans(plans, runner.root, createScreen(context));
  });
  await print(context, text);
}

function toJson(plans: readonly PassPlan[]): string {
  const toWhy = (why: WhyNot | null) => why && { reason: why.reason, until: isoInstant(why.untilMs) };
  const passes = plans.map(({ tier, skipped, runs }) => ({
    tier,
    skipped: toWhy(skipped),
    runs: runs.map((run) => ({ ...run, why: toWhy(run.why) })),
  }));
  return formatJson({ passes });
}

/** Pass by pass: what would run, what would not, and the environment that all have alike. */
export function renderPlans(plans: readonly PassPlan[], root: string, screen: Screen): string {
  const { palette, columns } = screen;
  const runs = plans.flatMap((plan) => (plan.skipped === null ? plan.runs.filter(({ fate }) => fate === 'runs') : []));
  const common = findCommon(runs);
  const blocks = [
    ...plans.map((plan) => renderPlan(plan, { root, common, screen })),
    runs.length === 0 ? [] : renderEnvironment(runs, common, screen),
    wrap('Nothing was run, and nothing was changed.', columns).map(palette.dim),
  ];
  return `${blocks
    .filter((lines) => lines.length > 0)
    .map((lines) => lines.join('\n'))
    .join('\n\n')}\n`;
}

interface Drawing {
  readonly root: string;
  readonly common: ReadonlyMap<string, string | null>;
  readonly screen: Screen;
}

function renderPlan(plan: PassPlan, drawing: Drawing): string[] {
  const { palette, columns } = drawing.screen;
  const name = palette.bold(printableLine(plan.tier));
  if (plan.skipped !== null) {
    return joinFitting(
      [name, palette.warning(`would be skipped: ${describeWhy(plan.skipped, drawing.screen)}`)],
      columns,
    );
  }
  const running = plan.runs.filter(({ fate }) => fate === 'runs');
  const others = plan.runs.filter(({ fate }) => fate !== 'runs');
  const head = [name, `${countOf(running.length, 'script')} would run`, ...describeTotal(running)];
  return [
    ...joinFitting(head, columns),
    ...running.flatMap((run, index) => renderRun(run, index + 1, drawing)),
    ...others.flatMap((run) => renderOther(run, drawing.screen)),
  ];
}

/** The usual time of all runs, one after the other. */
function describeTotal(runs: readonly PlannedRun[]): string[] {
  const known = runs.flatMap(({ usualDurationMs }) => usualDurationMs ?? []);
  if (known.length === 0) return [];
  const total = formatDuration(known.reduce((sum, ms) => sum + ms, 0));
  return [`${known.length < runs.length ? 'at least' : 'about'} ${total} in all`];
}

function renderRun(run: PlannedRun, place: number, { root, common, screen }: Drawing): string[] {
  const { columns, palette } = screen;
  const parts = [
    printableLine(run.script),
    run.attempt > 1 ? `try ${run.attempt}` : '',
    `time limit ${formatDuration(run.timeoutMs)}`,
    run.usualDurationMs === null ? '' : `usually ${formatDuration(run.usualDurationMs)}`,
  ];
  const command = run.command.map((word) => shellWord(word.replace(`${root}/`, ''))).join(' ');
  const own = Object.entries(run.environment).filter(
    ([name, value]) => !common.has(name) && value !== null && !isOfRun(name),
  );
  const number = `${String(place).padStart(3)}  `;
  return [
    ...hang(number, joinFitting(parts.filter(Boolean), columns - number.length)),
    ...hang(' '.repeat(7), wrap(printableLine(command), columns - 7)).map(palette.dim),
    ...own
      .flatMap(([name, value]) => hang(' '.repeat(7), wrap(printableLine(`${name}=${value}`), columns - 7)))
      .map(palette.dim),
  ];
}

function renderOther({ script, fate, why }: PlannedRun, screen: Screen): string[] {
  const { columns, palette } = screen;
  const paint = fate === 'refused' ? palette.bad : palette.warning;
  const lines = joinFitting([printableLine(script), why === null ? fate : describeWhy(why, screen)], columns - 5);
  return hang('  -  ', lines).map(paint);
}

function describeWhy({ reason, untilMs }: WhyNot, { clock }: Screen): string {
  return withInstants(printableLine(reason), clock.short) + (untilMs === null ? '' : ` until ${clock.short(untilMs)}`);
}

function renderEnvironment(
  runs: readonly PlannedRun[],
  common: Drawing['common'],
  { palette, columns }: Screen,
): string[] {
  const shown = [...common].filter(([name, value]) => value !== null && !isOfRun(name));
  const ofEach = [...new Set(runs.flatMap(({ environment }) => Object.keys(environment)))].filter(
    (name) => isOfRun(name) || common.get(name) === null,
  );
  return [
    palette.bold('environment'),
    ...shown.flatMap(([name, value]) => hang('  ', wrap(printableLine(`${name}=${value}`), columns - 2))),
    ...hang('  ', wrap(`and of each run: ${ofEach.join(' ')}`, columns - 2)).map(palette.dim),
  ];
}

/** Which script it is, and which try: the lines above say so. */
function isOfRun(name: string): boolean {
  return name === 'RUNNER_SCRIPT' || name === 'RUNNER_ATTEMPT';
}

/** Variables that are alike in all runs. */
function findCommon([first, ...others]: readonly PlannedRun[]): ReadonlyMap<string, string | null> {
  const entries = Object.entries(first?.environment ?? {});
  return new Map(entries.filter(([name, value]) => others.every(({ environment }) => environment[name] === value)));
}

function hang(start: string, lines: readonly string[]): string[] {
  return lines.map((line, index) => (index === 0 ? start : ' '.repeat(start.length)) + line);
}
