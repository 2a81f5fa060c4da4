import { baseOf, nextTime } from './next-time.ts';
import { type PlannedTime, type PlanOptions, planNext } from './plan-next.ts';
import type { Moments, RepeatRule } from './repeat-rule.ts';

/** The times that a rule gives, whether they have passed or not. */
export interface ListedTimes {
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
