import type { LoggedJob } from '../support/engines/engine.ts';
import { readLog } from '../support/faults/log-content.ts';
import { queryLog } from '../support/log.ts';

/** What differs between two runs of the same command that did the same. */
const byChance = /_at$|^scheduled_for$|^claim_token$|^reason$/;

/**
 * All that the queue's jobs, runs, activity and pauses say, but for instants and tokens: the same text
 * means that the same has been done.
 */
export function readSnapshot(root: string): string {
  const log = readLog(root);
  const jobs = (log?.jobs ?? []).map((job) => ({ ...withoutChance(job), ...factsOf(job) }));
  const runs = (log?.runs ?? []).map(({ job_id, attempt, outcome }) => [job_id, attempt, outcome]);
  const activity = (log?.activity ?? []).map(({ job_id, run_id, event }) => [job_id, run_id, event]).sort(byText);
  const pauses = log === null ? [] : queryLog(root, 'select name, kind from pauses order by name');
  return [...jobs, ...runs, ...activity, ...pauses].map((row) => JSON.stringify(row)).join('\n');
}

/** Of what happened in the same millisecond, either may come first. */
function byText(one: unknown, other: unknown): number {
  return JSON.stringify(one) < JSON.stringify(other) ? -1 : 1;
}

function withoutChance(job: LoggedJob): object {
  return Object.fromEntries(Object.entries(job).filter(([column]) => !byChance.test(column)));
}

function factsOf({ claim_token, finished_at, run_at, created_at }: LoggedJob): object {
  const isLater = run_at - created_at > 1_800_000;
  return { isClaimed: claim_token !== null, hasEnded: finished_at !== null, isLater };
}
