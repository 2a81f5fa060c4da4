import { listOf, timeOf } from './amounts.ts';
import { type Check, type Finding, note, ok, problem, unknownWithoutLog } from './finding.ts';
import { findLastCalls, type LastCall } from './last-calls.ts';

export const checkCalls: Check = {
  name: 'calls',
  run: async (place) => {
    const calls = await findLastCalls(place);
    if (calls.length === 0) return [ok('no tier with a period has scripts')];
    if (await place.isLogUnread()) return [unknownWithoutLog];
    const never = calls.filter(({ calledAt }) => calledAt === null).map(({ tier }) => tier);
    return [
      ...calls.flatMap((call) => describe(call, place.nowMs)),
      ...(never.length === 0 ? [] : [describeNever(never)]),
    ];
  },
};

function describeNever(tiers: readonly string[]): Finding {
  return note(
    `never called by schedule yet: ${listOf(tiers)}`,
    'Look again when the time of its crontab line has come.',
  );
}

function describe({ tier, everyMs, calledAt, isOverdue }: LastCall, nowMs: number): Finding[] {
  if (calledAt === null) return [];
  const ago = timeOf(Math.max(0, nowMs - calledAt));
  if (!isOverdue) return [ok(`${tier} was called ${ago} ago`)];
  return [
    problem(
      `${tier} was last called ${ago} ago, and should be every ${timeOf(everyMs)}`,
      'If its crontab line works, ask the host whether cron runs for you, or was switched off.',
    ),
  ];
}
