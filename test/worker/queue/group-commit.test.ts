import { setTimeout as sleep } from 'node:timers/promises';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { recordActivity } from '../../../src/store/events.ts';
import type { Database } from '../../../src/store/store.ts';
import { createGroupCommit } from '../../../src/worker/record/group-commit.ts';

import { openRecordedStore } from '../../support/recorded-store.ts';
import { makeTemporaryRoot } from '../../support/temporary-root.ts';
import { tries } from '../../support/tries.ts';
import { until } from '../../support/until.ts';
import { writeLog } from '../../support/written-log.ts';

const change = (db: Database) => recordActivity(db, { at: 1, event: 'job-updated' });
const nothing = async (): Promise<void> => {};

async function open() {
  const root = makeTemporaryRoot();
  const workerId = await (await writeLog(root)).addPass('hourly', 1);
  const recorded = await openRecordedStore(root);
  return { ...recorded, commit: createGroupCommit(recorded.store, workerId) };
}

/** Begins just behind a write that has reached the disk. */
async function openFresh() {
  const opened = await open();
  const { commit, commits } = opened;
  await until('a write was durable', async () => {
    await commit.write(change);
    return commits.durable === commits.changing;
  });
  return opened;
}

test('a write just after another one waits for no disk, and is told of only once it is there', async () => {
  const { commit, commits } = await openFresh();
  const told: string[] = [];
  commit.onDurable(() => told.push('before'));
  expect(told).toEqual(['before']);
  await commit.write(change);
  commit.onDurable(() => told.push('at once'));
  expect([commits.changing - commits.durable, told]).toEqual([1, ['before']]);
  await commit.sync();
  expect([commits.changing - commits.durable, told]).toEqual([0, ['before', 'at once']]);
  // There is nothing more to wait for.
  const before = commits.changing;
  await commit.sync();
  expect(commits.changing).toBe(before);
});

test('what nothing follows is on the disk and told of soon, by itself', async () => {
  const { commit, commits } = await openFresh();
  await commit.write(change);
  let isTold = false;
  commit.onDurable(() => {
    isTold = true;
    expect(commits.durable).toBe(commits.changing);
  });
  await until('it is told', () => isTold);
});

test('a turn that writes nothing neither counts as a write, nor as one that reached the disk', async () => {
  const { commit, commits } = await openFresh();
  const before = commits.changing;
  await commit.write(nothing);
  await commit.sync();
  expect(commits.changing).toBe(before);
  await commit.write(change);
  let isTold = false;
  commit.onDurable(() => {
    isTold = true;
    expect(commits.durable).toBe(commits.changing);
  });
  // Long enough for the next one to be one that waits for the disk: it takes along what came before.
  await until('it is told', async () => {
    await commit.write(nothing);
    return isTold;
  });
});

test('a write that fails is told of to nobody, and takes nothing with it', async () => {
  const { commit, commits } = await openFresh();
  await commit.write(change);
  let isTold = false;
  commit.onDurable(() => {
    isTold = true;
  });
  const fail = commit.write(async () => {
    throw new Error('no');
  });
  await expect(fail).rejects.toThrow('no');
  expect([isTold, commits.durable < commits.changing]).toEqual([false, true]);
  await commit.sync();
  expect(isTold).toBe(true);
});

test('whatever is written in whatever order, nobody is told of what is not on the disk', async () => {
  const step = fc.record({
    lanes: fc.integer({ min: 1, max: 3 }),
    isChange: fc.boolean(),
    restMs: fc.constantFrom(0, 0, 0, 5, 25),
  });
  const { commit, commits } = await open();
  let told = 0;
  let asked = 0;
  const write = async (isChange: boolean): Promise<void> => {
    await commit.write(isChange ? change : nothing);
    const { changing } = commits;
    asked += 1;
    commit.onDurable(() => {
      told += 1;
      expect(commits.durable).toBeGreaterThanOrEqual(changing);
    });
  };
  const property = fc.asyncProperty(fc.array(step, { maxLength: 12 }), async (steps) => {
    for (const { lanes, isChange, restMs } of steps) {
      await Promise.all(Array.from({ length: lanes }, (_, lane) => write(isChange || lane === 1)));
      await sleep(restMs);
    }
  });
  await fc.assert(property, { numRuns: tries(40) });
  await commit.sync();
  expect(told).toBe(asked);
});

test('many writes share one wait for the disk', async () => {
  const { commit, commits } = await openFresh();
  const before = { ...commits };
  const startedAt = performance.now();
  await Promise.all(Array.from({ length: 200 }, () => commit.write(change)));
  await commit.sync();
  const most = 2 + (performance.now() - startedAt) / 20;
  expect(commits.changing - before.changing).toBeGreaterThanOrEqual(200);
  expect(commits.waits - before.waits).toBeLessThanOrEqual(most);
});
