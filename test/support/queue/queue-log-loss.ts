import { expect } from 'vitest';
import { checkInvariants } from '../faults/invariants.ts';
import { type LogContent, readLog } from '../faults/invariants-log.ts';
import { readSeenTries } from './queue-evidence.ts';
import { nodeHandler, programHandler } from './queue-handlers.ts';
import { drain, untilNothingRuns } from './queue-rounds.ts';
import { addJob, letGo, startWaiting, UNTIL_GO, untilStarted } from './queue-workers.ts';

const soon = '@retry-delay 1ms';

/** Handlers for a worker that loses its log while the first one is at work. */
export const handlersOfLoss = {
  'jobs/queue/warm.mjs': nodeHandler({ tags: [soon], does: UNTIL_GO }),
  'jobs/queue/apart.mjs': nodeHandler({ tags: [soon, '@isolate'], does: UNTIL_GO }),
  'jobs/queue/after.sh': programHandler({ tags: [soon] }),
};

export interface Loss {
  /** The handler that is at work. */
  readonly name: string;
  /** Takes the log away, or what it needs. */
  readonly lose: () => void | Promise<void>;
  readonly giveBack: () => void | Promise<void>;
  /** What the worker says of it. */
  readonly says: RegExp;
  /** Whether how the run ended may be lost, too: then it is done again. Default false. */
  readonly mayLoseEnd?: boolean;
}

/**
 * A worker whose log is lost under it says so and ends; what its handler has done then is neither lost
 * nor done twice, and what waits is done by the next one.
 */
export async function loseLog(root: string, loss: Loss): Promise<void> {
  const { name, lose, giveBack, says, mayLoseEnd = false } = loss;
  const worker = startWaiting(root);
  const id = await addJob(root, name);
  await untilStarted(root, id);
  const after = await addJob(root, 'after');
  await lose();
  letGo(root);
  const { status, stderr } = await worker.ended;
  await untilNothingRuns(root);
  expect(stderr).toMatch(says);
  expect(status).toBe(1);
  await giveBack();
  expect(readSeenTries(root)).toMatchObject([{ jobId: id, end: 'done' }]);
  expect(await drain(root, 2)).toEqual([]);
  const { jobs } = readLog(root) as LogContent;
  const tries = readSeenTries(root).filter(({ jobId }) => jobId === id).length;
  expect(mayLoseEnd ? [1, 2] : [1]).toContain(tries);
  expect(jobs.filter((job) => [id, after].includes(job.id))).toMatchObject([
    { state: 'finished', attempts: tries },
    { state: 'finished', attempts: 1 },
  ]);
  expect(readSeenTries(root)).toHaveLength(tries + 1);
  checkInvariants(root);
}
