import { expect, test } from 'vitest';
import { openQueue } from '../../src/index.ts';
import { runWithFault } from '../support/faults/faults.ts';
import { checkInvariants, findViolations } from '../support/faults/invariants.ts';
import { readLog } from '../support/faults/log-content.ts';
import { findOutOfTurn, nodeHandler } from '../support/faults/queue.ts';
import { copyRoot } from '../support/faults/queue-rounds.ts';
import { lieInLog } from '../support/log.ts';
import { makeTemporaryRoot } from '../support/root.ts';

const addTwo = 'if (children.finished.length === 0) await addChildren(2);';

/** A parent (1), what repeats (2), two of low priority (3, 4), and the children (5, 6). */
async function makeWorkedOff(): Promise<string> {
  const root = makeTemporaryRoot({
    'jobs/queue/parent.mjs': nodeHandler({ does: addTwo }),
    'jobs/queue/child.mjs': nodeHandler(),
    'jobs/queue/plain.mjs': nodeHandler(),
  });
  const queue = await openQueue({ root });
  await queue.add('parent');
  await queue.add('plain', {}, { repeat: 'FINISHED, +1 HOUR' });
  for (const priority of [2, 1]) await queue.add('plain', {}, { priority });
  await queue.close();
  expect(await runWithFault(root, ['work'])).toMatchObject({ status: 0 });
  return root;
}

/** Each makes of a sound log one that says what cannot be. */
const lies: readonly (readonly [what: string, sql: string])[] = [
  ['an end that was told of nobody', 'update runs set finished_at = null where job_id = 3'],
  ['an end of which nothing came', "update runs set left_job = 'queued' where job_id = 3"],
  ['a run that is lost', 'delete from runs where job_id = 3'],
  [
    'a run that was never executed',
    `insert into runs (job_id, worker_id, script_id, claim_number, attempt, outcome, started_at,
       finished_at) select job_id, worker_id, script_id, 99, 1, outcome, 1, 2 from runs where job_id = 3`,
  ],
  [
    'a claim that ended twice',
    `update runs set claim_number = (select claim_number from runs where job_id = 4) where job_id = 3`,
  ],
  ['a claim that nobody holds', "update jobs set claim_token = '1.9' where id = 3"],
  ['a lease without a claim', 'update jobs set lease_expires_at = 1 where id = 3'],
  ['a try that nobody made', 'update jobs set attempts = 2 where id = 3'],
  ['a job that ended without an end', 'update jobs set finished_at = null where id = 3'],
  ['an ended job among those that wait', 'update jobs set ready = 1 where id = 3'],
  ['a job that waits where nobody looks', 'update jobs set ready = null where id = 2'],
  ['a parent that waits for ever', "update jobs set state = 'paused', finished_at = null where id = 1"],
  [
    'a child that waits beside its ended parent',
    "update jobs set state = 'queued', ready = 1, finished_at = null where id = 5",
  ],
  ['a state that nothing has led to', "update jobs set state = 'cancelled' where id = 3"],
  ['a child of a parent that did not pause', 'update jobs set parent_id = 3 where id = 2'],
  [
    'a success that was a failure',
    "update runs set outcome = 'failed', left_job = 'failed', reason = 'no' where job_id = 3",
  ],
  [
    'a run that was given back, though its job was not',
    "update runs set outcome = 'released', reason = 'no' where job_id = 3",
  ],
];

test('a sound log has no violations, and each lie in it is found', async () => {
  const template = await makeWorkedOff();
  checkInvariants(template);
  const believed = lies.filter(([, sql]) => {
    const root = copyRoot(template);
    lieInLog(root, sql);
    return findViolations(root).length === 0;
  });
  expect(believed.map(([what]) => what)).toEqual([]);
}, 120_000);

test('a claim out of its turn is found', async () => {
  const root = await makeWorkedOff();
  const outOfTurn = () => findOutOfTurn(readLog(root) as NonNullable<ReturnType<typeof readLog>>);
  // Of what comes back with a time of its own it knows nothing.
  lieInLog(root, 'delete from jobs where id not in (3, 4)');
  expect(outOfTurn()).toEqual([]);
  lieInLog(root, 'update jobs set priority = 900 where id = 4');
  expect(outOfTurn()).toEqual(['job 3 began before job 4, the first of 1']);
});
