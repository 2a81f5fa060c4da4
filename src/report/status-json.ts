import { runningToJson } from './json.ts';
import { instant, pauseToJson, waitingToJson } from './shared-json.ts';
import type { Status, StatusRun } from './status.ts';
import type { TierHolder, TierState } from './tier-state.ts';

/** `runner status --json`, as docs/json.md describes it. */
export function statusToJson(status: Status): object {
  return {
    at: instant(status.atMs),
    running: status.running.map(runToJson),
    waiting: status.waiting.map(waitingToJson),
    pauses: status.pauses.map(pauseToJson),
    queue: queueToJson(status),
    tiers: status.tiers.map(tierToJson),
    isLogUnread: status.isLogUnread,
    hasSpool: status.hasSpool,
    logsSetAside: status.setAside,
  };
}

function runToJson(run: StatusRun): object {
  return { ...runningToJson(run), usualDurationMs: run.usualDurationMs };
}

function queueToJson({ queue, isLogUnread }: Status): object {
  const { counts, withoutHandler, workers } = queue;
  const known = Object.entries({ ...counts, workers });
  return {
    ...Object.fromEntries(known.map(([key, count]) => [key, isLogUnread ? null : count])),
    withoutHandler: withoutHandler.map(({ name, jobs, nearest }) => ({ name, jobs, nearest })),
  };
}

function tierToJson(state: TierState): object {
  const { lastPass, expected, holder, pause } = state;
  return {
    tier: state.tier,
    periodMs: state.periodMs,
    lastPass: lastPass && { state: lastPass.state, startedAt: instant(lastPass.startedAt) },
    lastCalledBySchedule: instant(state.lastScheduledCallMs),
    nextCall: instant(expected?.atMs ?? null),
    isOverdue: expected?.isOverdue ?? false,
    isDueAgain: state.dueAgainFor !== null,
    holder: holder && holderToJson(holder),
    pause: pause && pauseToJson(pause),
  };
}

function holderToJson({ kind, pid, host, sinceMs }: TierHolder): object {
  return { kind, pid, host, since: instant(sinceMs) };
}
