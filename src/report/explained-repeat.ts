import { explainRepeat } from '../queue/repeat/explain-repeat.ts';
import { formatInstant } from '../queue/repeat/instant.ts';
import type { PlannedTime } from '../queue/repeat/plan-next.ts';
import type { RepeatRule } from '../queue/repeat/repeat-rule.ts';
import { hostZone } from '../queue/repeat/time-zone.ts';
import type { MissedPolicy } from '../store/schema.ts';
import { createClock } from './clock.ts';

/** A rule and the times that it gives. */
export interface ExplainedRepeat {
  readonly rule: RepeatRule;
  readonly times: readonly number[];
  readonly isStuck: boolean;
  /** Null: the times are those of the rule alone. */
  readonly plan: { readonly missed: MissedPolicy; readonly times: readonly PlannedTime[] } | null;
}

/** `runner repeat --json`; docs/repeat.md has the keys. */
export function repeatToJson({ rule, times, plan }: ExplainedRepeat): object {
  return {
    valid: true,
    rule: rule.text,
    explanation: explainRepeat(rule),
    next: times.map(formatInstant),
    ...(rule.kind === 'calendar' && localTimes(rule.zone ?? hostZone(), times)),
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

function localTimes(zone: string, times: readonly number[]) {
  const clock = createClock(0, zone);
  return { zone, local: times.map((time) => clock.dateTime(time)) };
}

/** `runner repeat`. */
export function renderRepeat(explained: ExplainedRepeat): string {
  const { rule, times, isStuck, plan } = explained;
  const lines = plan === null ? times.map(describeTime(rule)) : plan.times.map(describePlan);
  if (isStuck) {
    lines.push('', 'It does not get ahead by itself: a job would wait 1 second and run again.');
  }
  if (lines.length === 0) lines.push('It gives no time before the year 10000.');
  return `${[rule.text, explainRepeat(rule), '', ...lines].join('\n')}\n`;
}

function describeTime(rule: RepeatRule): (time: number) => string {
  if (rule.kind === 'moment') return (time) => `${formatInstant(time)} UTC`;
  const clock = createClock(0, rule.zone ?? hostZone());
  return (time) => `${formatInstant(time)} UTC  ${clock.dateTime(time)} ${clock.zone}`;
}

function describePlan({ runAt, scheduledFor, skipped }: PlannedTime): string {
  const rest = skipped === 0 ? '' : `, ${skipped} skipped`;
  return `${formatInstant(runAt)} UTC  for ${formatInstant(scheduledFor)}${rest}`;
}
