import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { type ClaimedJob, openQueue } from '../../../src/index.ts';
import { changeLog, queryLog } from '../../support/log.ts';
import { openTestQueue } from '../../support/queue.ts';
import { tries } from '../../support/tries.ts';

const BLOCKED = 2;

/** A queue whose group `a` is full, with these jobs of it in front of a claim. */
async function openFull(priorities: readonly number[]) {
  const log = await openTestQueue({ groupLimit: 1 });
  const running = await log.take('x', { group: 'a' });
  const ids = await log.queue.addMany(priorities.map((priority) => ({ name: 'x', group: 'a', priority })));
  expect(await log.queue.claim('*')).toBeNull();
  return { ...log, running, ids };
}

describe('jobs of a full group', () => {
  test('are out of the way of claims, and due for everybody else', async () => {
    const { queue, row, ids } = await openFull([500, 500]);
    expect(ids.map((id) => row(id).ready)).toEqual([BLOCKED, BLOCKED]);
    expect(await queue.count('*')).toMatchObject([{ name: 'x', ready: 2, delayed: 0, running: 1 }]);
    for (const order of ['newest', 'oldest', 'soonest'] as const) {
      const listed = await queue.list({ state: ['queued', 'retrying'], due: 'ready', order });
      expect(listed.map(({ id }) => id).sort()).toEqual(ids);
    }
  });

  test('are taken in their order as soon as there is room', async () => {
    const { queue, running, ids } = await openFull([400, 600, 500]);
    const taken: number[] = [];
    let held = running;
    for (let turn = 0; turn < ids.length; turn += 1) {
      await queue.finish(held);
      const claimed = await queue.claim('*');
      if (claimed === null) throw new Error('nothing was taken');
      taken.push(claimed.id);
      held = claimed;
      expect(await queue.claim('*')).toBeNull();
    }
    const [low, high, middle] = ids;
    expect(taken).toEqual([high, middle, low]);
  });

  test('stay behind a job of their group that comes later and is more urgent', async () => {
    const { queue, running } = await openFull([500]);
    const id = await queue.add('x', {}, { group: 'a', priority: 900 });
    await queue.finish(running);
    expect(await queue.claim('*')).toMatchObject({ id });
    expect(await queue.claim('*')).toBeNull();
  });

  test('are taken all of them once groups have no limit', async () => {
    const { root, clock, ids } = await openFull([500, 500, 500]);
    writeFileSync(join(root, 'runner.config.json'), '{}');
    const queue = await openQueue({ root, now: () => clock.at });
    const claimed = await queue.claimMany('*', 10);
    await queue.close();
    expect(claimed.map(({ id }) => id).sort()).toEqual(ids);
  });

  test('are taken at once when plain SQL takes them out of it', async () => {
    const { queue, root, ids } = await openFull([500]);
    changeLog(root, 'update jobs set concurrency_key = null where ready = ?', BLOCKED);
    expect(await queue.claim('*')).toMatchObject({ id: ids[0] });
  });

  test('are taken by their number only when there is room', async () => {
    const { queue, running, ids } = await openFull([500, 500]);
    const [, last = 0] = ids;
    await expect(queue.claimJob(last)).rejects.toMatchObject({ code: 'wrong-state' });
    await queue.finish(running);
    expect(await queue.claimJob(last)).toMatchObject({ id: last });
  });

  test('are taken one by one behind thousands of their kind, and others past them', async () => {
    const { queue, root, running } = await openFull([]);
    await queue.addMany(Array.from({ length: 6_000 }, () => ({ name: 'x', group: 'a' })));
    const others = await queue.addMany(['b', 'c', 'd'].map((group) => ({ name: 'x', group })));
    for (const id of others) expect(await queue.claim('*')).toMatchObject({ id });
    expect(await queue.claim('*')).toBeNull();
    const [blocked] = queryLog<{ jobs: number }>(root, 'select count(*) as jobs from jobs where ready = ?', BLOCKED);
    expect(Number(blocked?.jobs)).toBe(6_000);
    await queue.finish(running);
    expect(await queue.claim('*')).not.toBeNull();
    expect(await queue.claim('*')).toBeNull();
  });

  interface Waiting {
    readonly id: number;
    readonly group: string | null;
    readonly priority: number;
    readonly runAt: number;
  }

  const steps = fc.array(
    fc.oneof(
      fc.record({
        what: fc.constant('add' as const),
        group: fc.constantFrom(null, 'a', 'a', 'b'),
        priority: fc.constantFrom(1, 2),
      }),
      fc.record({ what: fc.constantFrom('claim' as const, 'finish' as const, 'retry' as const), pick: fc.nat(9) }),
    ),
    { minLength: 1, maxLength: 60 },
  );

  test('never hold up a job of a group with room, whatever comes and goes', async () => {
    await fc.assert(
      fc.asyncProperty(steps, fc.constantFrom(1, 2), async (all, groupLimit) => {
        const { queue, clock } = await openTestQueue({ groupLimit });
        const waiting: Waiting[] = [];
        const held: (Waiting & { readonly job: ClaimedJob })[] = [];
        const hasRoom = ({ group }: Waiting): boolean =>
          group === null || held.filter((job) => job.group === group).length < groupLimit;
        for (const step of all) {
          // Each job is due later than those before it.
          clock.at += 1;
          if (step.what === 'add') {
            const { group, priority } = step;
            const id = await queue.add('x', {}, { priority, ...(group === null ? {} : { group }) });
            waiting.push({ id, group, priority, runAt: clock.at });
            continue;
          }
          if (step.what === 'claim') {
            const [first = null] = waiting
              .filter(hasRoom)
              .toSorted((one, other) => other.priority - one.priority || one.runAt - other.runAt);
            const claimed = await queue.claim('*');
            expect(claimed?.id ?? null).toBe(first?.id ?? null);
            if (first === null || claimed === null) continue;
            waiting.splice(waiting.indexOf(first), 1);
            held.push({ ...first, job: claimed });
            continue;
          }
          const [ended] = held.splice(step.pick % Math.max(held.length, 1), 1);
          if (ended === undefined) continue;
          const { job, ...row } = ended;
          if (step.what === 'finish') await queue.finish(job);
          else {
            await queue.retry(job, { delay: '0s' });
            waiting.push({ ...row, runAt: clock.at });
          }
        }
        await queue.close();
      }),
      { numRuns: tries(200) },
    );
  });
});
