import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { LogContent } from '../faults/invariants-log.ts';
import { groupBy } from '../group-by.ts';
import type { LoggedJob, LoggedRun } from '../log/log-tables.ts';
import { QUEUE_EVIDENCE } from './queue-handlers.ts';

/** A try of a job as its handler saw it. */
export interface SeenTry {
  readonly jobId: number;
  /** Its claim's token. */
  readonly key: string;
  readonly attempt: number;
  /** Null: it did not come to its end. */
  readonly end: 'done' | 'failed' | null;
  /** Where its first and its last line stand among all lines. */
  readonly from: number;
  readonly to: number | null;
}

/** What the handlers of a root say that has been done, in the order of their starts. */
export function readSeenTries(root: string): readonly SeenTry[] {
  const path = join(root, QUEUE_EVIDENCE);
  const lines = existsSync(path) ? readFileSync(path, 'utf8').trimEnd().split('\n') : [];
  const words = lines.map((line) => line.split(' '));
  const ends = new Map(words.flatMap(([what, , key, end], at) => (what === 'ended' ? [[key, { at, end }]] : [])));
  return words.flatMap(([what, jobId, key = '', attempt], from) => {
    if (what !== 'started') return [];
    const end = ends.get(key);
    return {
      jobId: Number(jobId),
      key,
      attempt: Number(attempt),
      end: (end?.end ?? null) as SeenTry['end'],
      from,
      to: end?.at ?? null,
    };
  });
}

/**
 * Compares what handlers did with what the log says: nothing is missing, nothing told as what it was
 * not, no run was executed twice.
 *
 * @param mayOverlap whether a job may have been given to somebody else while its handler went on
 */
export function checkSeenTries(seen: readonly SeenTry[], log: LogContent, mayOverlap: boolean): string[] {
  const runs = new Map(log.runs.map((run) => [run.key ?? '', run]));
  const jobs = new Map(log.jobs.map((job) => [job.id, job]));
  return [
    ...findDoubled(seen),
    ...seen.flatMap((each) => checkSeenTry(each, runs.get(each.key), isKept(jobs.get(each.jobId), each))),
    ...(mayOverlap ? [] : findOverlaps(seen)),
    ...findInventions(seen, log),
    ...checkFamilies(seen, log),
  ];
}

/** What has begun and is still claimed has no row yet. */
function isKept(job: LoggedJob | undefined, { key }: SeenTry): boolean {
  return job !== undefined && job.claim_token !== key;
}

function findDoubled(seen: readonly SeenTry[]): string[] {
  const keys = new Set<string>();
  return seen.flatMap(({ key, jobId }) => {
    if (!keys.has(key)) {
      keys.add(key);
      return [];
    }
    return [`run ${key} of job ${jobId} was executed twice`];
  });
}

function checkSeenTry(seen: SeenTry, run: LoggedRun | undefined, isWanted: boolean): string[] {
  const name = `job ${seen.jobId}, run ${seen.key}`;
  if (run === undefined) {
    return isWanted ? [`${name}: it started, and the log knows nothing of it`] : [];
  }
  if (run.job_id !== seen.jobId) return [`${name}: the log has it of job ${run.job_id}`];
  if (run.attempt !== seen.attempt) return [`${name}: attempt ${seen.attempt} is ${run.attempt}`];
  const isFalse =
    (run.outcome === 'succeeded' && seen.end !== 'done') || (run.outcome === 'failed' && seen.end === 'done');
  return isFalse ? [`${name}: it was ${seen.end}, and is told as ${run.outcome}`] : [];
}

/** By the order of the lines, which no clock changes. */
function findOverlaps(seen: readonly SeenTry[]): string[] {
  const last = new Map<number, SeenTry>();
  return seen.flatMap((each) => {
    const before = last.get(each.jobId);
    last.set(each.jobId, each);
    const overlaps = before !== undefined && before.to !== null && before.to > each.from;
    return overlaps ? [`job ${each.jobId}: run ${each.key} started while run ${before.key} ran`] : [];
  });
}

/** Only of handlers that leave evidence at all; whoever claims from outside leaves none. */
function findInventions(seen: readonly SeenTry[], { runs }: LogContent): string[] {
  const told = new Set(seen.map(({ key }) => key));
  const scripts = new Set(runs.filter(({ key }) => told.has(key ?? '')).map(({ script }) => script));
  const done = new Set(seen.filter(({ end }) => end === 'done').map(({ key }) => key));
  return runs.flatMap(({ id, key, script, outcome, tier, worker_id }) => {
    const isOurs = tier === 'queue' && worker_id !== null && scripts.has(script);
    const isInvented = isOurs && outcome === 'succeeded' && !done.has(key ?? '');
    return isInvented ? [`run ${id} (${script}) succeeded, and never came to its end`] : [];
  });
}

/** Children are worked off between two runs of their parent, and not while one of these goes on. */
function checkFamilies(seen: readonly SeenTry[], { jobs, runs }: LogContent): string[] {
  const outside = new Set(runs.flatMap((run) => (run.worker_id === null ? [run.job_id] : [])));
  const parents = new Map(
    jobs.flatMap(({ id, parent_id }: LoggedJob) => (parent_id === null ? [] : [[id, parent_id]])),
  );
  const ofJob = groupBy(seen, ({ jobId }) => jobId);
  return seen.flatMap(({ jobId, key, from, to }) => {
    const parentId = parents.get(jobId);
    // Who is no worker of the runner has left no evidence of the parent's runs.
    if (parentId === undefined || outside.has(parentId)) return [];
    const tries = ofJob.get(parentId) ?? [];
    const hasPaused = tries.some((each) => each.end === 'done' && (each.to as number) < from);
    const meets = tries.some((each) => each.from > from && to !== null && each.from < to);
    return [
      ...(hasPaused ? [] : [`job ${jobId}: run ${key} started before its parent had paused`]),
      ...(meets ? [`job ${jobId}: its parent went on while run ${key} ran`] : []),
    ];
  });
}
