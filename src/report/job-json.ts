import type { Pause } from '../queue/pauses.ts';
import type { ClaimedJob, EndedChildren, Job, JobCount } from '../queue/queue.ts';
import { runToJson } from './json.ts';
import type { UpcomingRun } from './read-upcoming.ts';
import type { RunRecord } from './run-record.ts';
import type { JobActivity, JobChild } from './select-job-story.ts';
import { instant, pauseToJson } from './shared-json.ts';

/** One job of the queue, as docs/json.md describes it. */
export function jobToJson(job: Job): object {
  return {
    id: job.id,
    name: job.name,
    state: job.state,
    data: job.data,
    result: job.result,
    priority: job.priority,
    runAt: iso(job.runAt),
    scheduledFor: iso(job.scheduledFor),
    createdAt: iso(job.createdAt),
    startedAt: iso(job.startedAt),
    finishedAt: iso(job.finishedAt),
    attempts: job.attempts,
    maxAttempts: job.maxAttempts,
    repeat: job.repeat,
    missed: job.missed,
    uniqueKey: job.uniqueKey,
    group: job.group,
    parent: job.parent,
    leasedUntil: iso(job.leasedUntil),
    reason: job.reason,
    counters: job.counters,
  };
}

/** The same, with what keeps it from being run. */
export function heldJobToJson(job: Job, hold: Pause | null): object {
  return { ...jobToJson(job), pause: hold && pauseToJson(hold) };
}

/** What became of a job besides what its row tells. */
export interface JobStory {
  readonly job: Job;
  /** What keeps it from being run; null: nothing does. */
  readonly hold: Pause | null;
  readonly children: readonly JobChild[];
  /** Newest first. */
  readonly runs: readonly RunRecord[];
  /** Oldest first. */
  readonly activity: readonly JobActivity[];
}

/** `runner job <id> --json`. */
export function jobStoryToJson({ job, hold, children, runs, activity }: JobStory): object {
  return {
    ...heldJobToJson(job, hold),
    children: children.map(({ id, name, state }) => ({ id, name, state })),
    runs: runs.map(runToJson),
    activity: activity.map(({ atMs, event, detail, runId }) => ({
      at: instant(atMs),
      event,
      detail,
      run: runId,
    })),
  };
}

/** `runner claim`: a job, and what whoever works it off needs. */
export function claimedJobToJson(job: ClaimedJob): object {
  const { token, attempt, parentData, children } = job;
  return { ...jobToJson(job), token, attempt, parentData, children: endedToJson(children) };
}

function endedToJson({ finished, failed, cancelled }: EndedChildren): object {
  return { finished, failed, cancelled };
}

/** `runner jobs --count --json`. */
export function countToJson(count: JobCount): object {
  const { name, ready, delayed, running, retrying, paused, failed, finished, cancelled } = count;
  return { name, ready, delayed, running, retrying, paused, failed, finished, cancelled };
}

/** `runner jobs --upcoming 10 --json`. */
export function upcomingToJson({ atMs, job, isExpected }: UpcomingRun): object {
  const { id, name, state, repeat } = job;
  return { at: instant(atMs), isExpected, id, name, state, repeat };
}

function iso(date: Date | null): string | null {
  return date === null ? null : instant(date.getTime());
}
