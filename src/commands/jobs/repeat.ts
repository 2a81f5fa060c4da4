import { formatJson } from '../../report/json.ts';
import { openTextOutput } from '../../report/terminal/screen.ts';
import { createClock } from '../../report/text/clock.ts';
import { parseRepeat, parseSchedule } from '../../schedule/repeat/grammar/parse.ts';
import { describeDates } from '../../schedule/repeat/limits.ts';
import {
  explainRepeat,
  formatInstant,
  type Moments,
  parseInstant,
  type RepeatRule,
} from '../../schedule/repeat/rule.ts';
import { listPlans, listTimes, type PlannedTime } from '../../schedule/repeat/series.ts';
import { defaultSettings } from '../../settings/settings.ts';
import type { MissedPolicy } from '../../store/words.ts';
import { UsageError } from '../../system/base/errors.ts';
import { hostZone } from '../../system/base/zone.ts';
import type { CommandContext } from '../shared/context.ts';
import type { Given } from '../table.ts';

/** `runner repeat`: what a repeat rule means. */
export async function explain(context: CommandContext, options: Given<'repeat'>): Promise<void> {
  const output = openTextOutput(context.stdout);
  const { rule: text, count } = options;
  const moments = readMoments(options, context.now());
  const parsed = parseChecked(text, options.script === true);
  if ('problem' in parsed) {
    const { problem } = parsed;
    if (options.json) await output.write(formatJson({ valid: false, problem }));
    throw new UsageError(problem);
  }
  const explained = await computeTimes(parsed.rule, { moments, count, missed: options.missed });
  await output.write(options.json ? formatJson(repeatToJson(explained)) : renderRepeat(explained));
}

function parseChecked(text: string, isOfScript: boolean) {
  const parsed = isOfScript ? parseSchedule(text, null) : parseRepeat(text);
  if ('problem' in parsed) return parsed;
  const problem = describeDates(isOfScript ? 'The schedule' : 'The repeat rule', parsed.rule);
  return problem === null ? parsed : { problem: `${problem}.` };
}

interface Wanted {
  readonly moments: Readonly<Record<keyof Moments, number>>;
  readonly count: number;
  readonly missed: MissedPolicy | undefined;
}

async function computeTimes(rule: RepeatRule, { moments, count, missed }: Wanted): Promise<ExplainedRepeat> {
  if (missed === undefined) return { rule, ...(await listTimes(rule, moments, count)), plan: null };
  const options = { missed, cap: defaultSettings.queue.missedCap, nowMs: moments.finished };
  const plans = await listPlans(rule, moments, options, count);
  const times = plans.map(({ runAt }) => runAt);
  return { rule, times, isStuck: false, plan: { missed, times: plans } };
}

/** Those that are not given are the same as the one that comes next to them. */
function readMoments(options: Given<'repeat'>, nowMs: number): Wanted['moments'] {
  const read = (option: keyof Moments): number | undefined => {
    const text = options[option];
    if (text === undefined) return undefined;
    const atMs = parseInstant(text);
    if (atMs !== null) return atMs;
    throw new UsageError(
      `--${option} must be a time in UTC such as 2026-03-10 or "2026-03-10 13:00:00", found ${JSON.stringify(text)}.`,
    );
  };
  const [scheduled, started, finished] = [read('scheduled'), read('started'), read('finished')];
  return {
    scheduled: scheduled ?? started ?? finished ?? nowMs,
    started: started ?? scheduled ?? finished ?? nowMs,
    finished: finished ?? started ?? scheduled ?? nowMs,
  };
}

/** A rule and the times that it gives. */
interface ExplainedRepeat {
  readonly rule: RepeatRule;
  readonly times: readonly number[];
  readonly isStuck: boolean;
  /** Null: the times are those of the rule alone. */
  readonly plan: { readonly missed: MissedPolicy; readonly times: readonly PlannedTime[] } | null;
}

/** `runner repeat --json`; docs/scripts.md has the keys. */
function repeatToJson({ rule, times, plan }: ExplainedRepeat): object {
  return {
    valid: true,
    rule: rule.text,
    explanation: explainRepeat(rule),
    next: times.map(formatInstant),
    ...(isLocal(rule) && localTimes(rule.zone ?? hostZone(), times)),
    ...(plan && {
      missed: plan.missed,
      plan: plan.times.map(({ runAt, scheduledFor, skipped }) => ({
        runAt: formatInstant(runAt),
        scheduledFor: formatInstant(scheduledFor),
        skipped,
      })),
    }),
  };
}

/** Whether local times decide when the rule runs. */
function isLocal({ kind, limits }: RepeatRule): boolean {
  return kind === 'calendar' || limits !== undefined;
}

function localTimes(zone: string, times: readonly number[]) {
  const clock = createClock(0, zone);
  return { zone, local: times.map((time) => clock.dateTime(time)) };
}

/** `runner repeat`. */
function renderRepeat(explained: ExplainedRepeat): string {
  const { rule, times, isStuck, plan } = explained;
  const lines = plan === null ? times.map(describeTime(rule)) : plan.times.map(describePlan);
  if (isStuck) {
    lines.push('', 'It never moves forward: a job would wait 1 second and run again.');
  }
  if (lines.length === 0) lines.push('It gives no time before the year 10000.');
  return `${[rule.text, explainRepeat(rule), '', ...lines].join('\n')}\n`;
}

function describeTime(rule: RepeatRule): (time: number) => string {
  if (!isLocal(rule)) return (time) => `${formatInstant(time)} UTC`;
  const clock = createClock(0, rule.zone ?? hostZone());
  return (time) => {
    const [utc, local] = [formatInstant(time), clock.dateTime(time)];
    return `${utc} UTC${local === utc ? '' : `  ${local} ${clock.zone}`}`;
  };
}

function describePlan({ runAt, scheduledFor, skipped }: PlannedTime): string {
  const rest = skipped === 0 ? '' : `, ${skipped} skipped`;
  return `${formatInstant(runAt)} UTC  for ${formatInstant(scheduledFor)}${rest}`;
}
