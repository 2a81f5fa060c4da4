import { existsSync } from 'node:fs';
import { expect } from 'vitest';
import { stateFolderOf } from '../../../src/system/place/state-folder.ts';
import { checkSeenTries, readSeenTries } from '../queue/queue-evidence.ts';
import { checkActivity } from './invariants-activity.ts';
import { checkEvidence, readEvidence } from './invariants-evidence.ts';
import { checkFiles, listRunProcesses } from './invariants-files.ts';
import { checkJobs, checkRunning, checkRuns, checkWorkers, readLog } from './invariants-log.ts';
import { checkQueue } from './invariants-queue.ts';

/** What the test itself has done that some invariants do not survive. */
export interface Circumstances {
  /** A pass has looked since anything died, and nothing runs any more. True unless said otherwise. */
  readonly isSettled?: boolean;
  /** The clock was set, so instants prove nothing. */
  readonly hasClockMoved?: boolean;
  /** Old rows were deleted, so what the log does not know may have been. */
  readonly isPruned?: boolean;
  /** A lease ran out while its holder lived, so that a job was given to somebody else meanwhile. */
  readonly mayOverlap?: boolean;
}

/**
 * Proves from the log, the file system, the process table and from what the scripts themselves have
 * left that nothing is lost, counted twice or told as what it was not:
 *
 * - every job has one final state, or is open for a reason: waiting for its turn or its next try, or
 *   running in a process that lives
 * - every run has one outcome and one job; there are as many as there were attempts, and no more than
 *   allowed; no two of one script overlap
 * - every job of the queue has had a life that can be, each claim of it ended once, and what waits for
 *   a parent or a child will be resumed
 * - every start and every end that a script or a handler has written down itself is in the log, once, as it was
 *   (for those of `invariants-evidence.ts` and `queue-handlers.ts`)
 * - every transition was told once, in an order that can be
 * - no process, no lock, no file is left of what has ended
 * - the database file is sound
 */
export function checkInvariants(root: string, circumstances: Circumstances = {}): void {
  expect(findViolations(root, circumstances)).toEqual([]);
}

/** The same as a list, for tests that look at many roots. */
export function findViolations(
  root: string,
  { isSettled = true, hasClockMoved = false, isPruned = false, mayOverlap = false }: Circumstances = {},
): string[] {
  const log = readLog(root);
  const processes = listRunProcesses(root);
  const evidence = readEvidence(root);
  const ofState = isSettled ? checkSettled(root, log, processes) : [];
  if (log === null) {
    return [...ofState, ...evidence.map(({ script }) => `${script} ran, and there is no log`)];
  }
  return [
    ...log.damage,
    ...checkJobs(log),
    ...checkRuns(log, hasClockMoved),
    ...checkWorkers(log, isSettled),
    // What happened is told in the order of its instants.
    ...checkQueue(log, isPruned || hasClockMoved, isSettled),
    ...checkSeenTries(readSeenTries(root), log, mayOverlap),
    ...(isPruned ? [] : [...checkActivity(log), ...checkEvidence(evidence, log)]),
    ...ofState,
  ];
}

function checkSettled(
  root: string,
  log: ReturnType<typeof readLog>,
  processes: ReturnType<typeof listRunProcesses>,
): string[] {
  return [
    ...(log === null && existsSync(stateFolderOf(root).database) ? ['the log cannot be read'] : []),
    ...processes.map(({ pid, script }) => `process ${pid} of ${script} still runs`),
    ...(log === null ? [] : checkRunning(log, processes)),
    ...checkFiles(root, log),
  ];
}
