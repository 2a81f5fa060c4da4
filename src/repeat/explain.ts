import { months, weekdays } from './parse.ts';
import { type PlannedTime, type PlanOptions, planNext } from './plan.ts';
import {
  type BaseMoment,
  type CalendarDay,
  type CalendarRule,
  hostZone,
  type Modifier,
  type MomentRule,
  type Moments,
  type RepeatRule,
} from './rule.ts';
import { baseOf, nextTime } from './series.ts';

/** One sentence of plain words: "Runs again 1 hour after the time for which it was scheduled." */
export function explainRepeat(rule: RepeatRule): string {
  return rule.kind === 'moment' ? explainMoment(rule) : explainCalendar(rule);
}

const baseWords: Readonly<Record<BaseMoment, string>> = {
  scheduled: 'the time for which it was scheduled',
  started: 'the time at which it started',
  finished: 'the time at which it finished',
};

function explainMoment({ base, modifiers }: MomentRule): string {
  const [first, ...others] = modifiers;
  const from = baseWords[base];
  if (first.kind === 'add' && others.length === 0) {
    return `Runs again ${explainAmount(first)} ${first.count < 0 ? 'before' : 'after'} ${from}.`;
  }
  return `Runs again at a time counted in UTC from ${from}: ${modifiers.map(explainStep).join(', then ')}.`;
}

function explainStep(modifier: Modifier): string {
  if (modifier.kind === 'start-of') return `back to the beginning of the ${modifier.unit}`;
  if (modifier.kind === 'add') {
    return `${explainAmount(modifier)} ${modifier.count < 0 ? 'earlier' : 'later'}`;
  }
  // The names begin with Monday, the numbers with Sunday.
  const name = capitalized(weekdays[(modifier.weekday + 6) % 7] ?? '');
  return `on to ${name} unless it is one`;
}

function explainAmount({ count, unit }: { readonly count: number; readonly unit: string }): string {
  const amount = Math.abs(count);
  return `${amount} ${unit}${amount === 1 ? '' : 's'}`;
}

function explainCalendar({ on, hour, minute, zone }: CalendarRule): string {
  const time = [hour, minute].map((part) => String(part).padStart(2, '0')).join(':');
  const where = zone ?? `the zone of this host, ${hostZone()}`;
  return `Runs ${explainDay(on)} at ${time} in ${where}.`;
}

function explainDay(on: CalendarDay): string {
  if (on.period === 'daily') return 'every day';
  if (on.period === 'weekly') return `every ${capitalized(weekdays[on.weekday - 1] ?? '')}`;
  if (on.period === 'yearly') {
    const date = `every year on ${on.day} ${capitalized(months[on.month - 1] ?? '')}`;
    return on.day === 29 && on.month === 2 ? `${date}, or 28 February,` : date;
  }
  if (on.day === 31) return 'on the last day of every month';
  const day = `on day ${on.day} of every month`;
  return on.day > 28 ? `${day}, or on its last one,` : day;
}

function capitalized(word: string): string {
  return `${word.charAt(0).toUpperCase()}${word.slice(1)}`;
}

/** The times that a rule gives, whether they have passed or not. */
interface ListedTimes {
  /** Epoch milliseconds; fewer than asked for where the rule ends. */
  readonly times: readonly number[];
  /** One of them is not later than the moment before: only the floor keeps such a rule in check. */
  readonly isStuck: boolean;
}

/** Each further time is computed as if the job had been scheduled, started and finished at the one before. */
export async function listTimes(
  rule: RepeatRule,
  moments: Moments,
  count: number,
): Promise<ListedTimes> {
  const times: number[] = [];
  let isStuck = false;
  for (let last = moments; times.length < count; ) {
    const next = await nextTime(rule, last);
    if (next === null) break;
    isStuck ||= next <= (last[baseOf(rule)] ?? next);
    times.push(next);
    last = { scheduled: next, started: next, finished: next };
  }
  return { times, isStuck };
}

/** For what a job would be queued again and again, if each run took no time. */
export async function listPlans(
  rule: RepeatRule,
  moments: Moments,
  options: Pick<PlanOptions, 'missed' | 'cap' | 'nowMs'>,
  count: number,
): Promise<readonly PlannedTime[]> {
  const plans: PlannedTime[] = [];
  let [last, nowMs] = [moments, options.nowMs];
  while (plans.length < count) {
    const plan = await planNext(rule, last, { ...options, nowMs });
    if (plan === null) break;
    plans.push(plan);
    nowMs = Math.max(nowMs, plan.runAt);
    last = { scheduled: plan.scheduledFor, started: nowMs, finished: nowMs };
  }
  return plans;
}
