import { describe, expect, test } from 'vitest';
import type { whyRecord } from '../../../src/report/why/explain.ts';
import type { JsonOf } from '../../../src/system/base/record.ts';
import { inRoot } from '../../support/command.ts';
import { changeLog, queryLog } from '../../support/log.ts';
import { executable, makeTemporaryRoot } from '../../support/root.ts';
import { NO_SUCH_PID, running, writeLog } from '../../support/written-log.ts';

const DAY = 24 * 3_600_000;

async function textOf(root: string, topic: string): Promise<string | undefined> {
  const { findings }: JsonOf<typeof whyRecord> = JSON.parse((await inRoot(root, 'why', 'yearly/a', '--json')).stdout);
  return findings.find((each) => each.topic === topic)?.text;
}

const makeRoot = (tags = '') =>
  makeTemporaryRoot({
    'jobs/yearly/a.sh': executable(`#!/bin/sh\n${tags}`),
    'jobs/by-hand/b.sh': executable('#!/bin/sh\n'),
    'runner.config.json': '{ "tiers": { "yearly": { "catchUp": "skip" } } }',
  });

describe('a pass that was left out', () => {
  test('as it was missed, and is not made up for', async () => {
    const root = makeRoot();
    const { addPass } = await writeLog(root);
    await addPass('yearly', Date.now() - 400 * DAY);
    expect(await textOf(root, 'skipped')).toBeUndefined();
    expect(await inRoot(root, 'due')).toMatchObject({ status: 0, stderr: '' });
    expect(queryLog(root, "select state from workers where state = 'skipped'")).toHaveLength(1);
    expect(await textOf(root, 'skipped')).toMatch(
      /^the pass of .+ was skipped: it was missed by \d+d, and its tier's catchUp is 'skip'$/,
    );
  });

  test('is told until there is another one', async () => {
    const root = makeRoot();
    const { addPass } = await writeLog(root);
    await addPass('yearly', Date.now() - 2000, { state: 'skipped', reason: 'yearly is held' });
    expect(await textOf(root, 'skipped')).toContain('was skipped: yearly is held');
    expect((await inRoot(root, 'yearly')).status).toBe(0);
    expect(await textOf(root, 'skipped')).toBeUndefined();
  });
});

test('a pass that another one kept away is told with the span of that one', async () => {
  const root = makeRoot();
  const { addPass, addRun } = await writeLog(root);
  const at = Date.now() - 2000;
  await addRun('yearly/a', at, { worker_id: await addPass('yearly', at) });
  await addPass('yearly', at + 500, { state: 'skipped', reason: 'another pass of yearly was running' });
  const why = String.raw`because the pass before it was still running \((?:\d\d:\d\d|\S+ \w+ \S+) to [\w :]+\)`;
  expect(await textOf(root, 'skipped')).toMatch(new RegExp(`^the pass of .+ was skipped, ${why}$`));
  expect((await inRoot(root, 'report')).stdout).toMatch(new RegExp(`1 pass skipped, last .+\\n? *·? *${why}`));
});

test('instants of a reason are told by the clock of the reader', async () => {
  const root = makeRoot();
  const { addPass, addRun } = await writeLog(root);
  await addRun('by-hand/b', Date.now() - 3000);
  const reason = 'yearly was paused until 2031-11-01T10:00:00.000Z';
  await addPass('yearly', Date.now() - 2000, { state: 'skipped', reason });
  const told = 'yearly was paused until 2031-11-01';
  expect(await textOf(root, 'skipped')).toMatch(new RegExp(`was skipped: ${told}$`));
  for (const command of [['report'], ['activity']])
    expect((await inRoot(root, ...command)).stdout).toMatch(`${told}\n`);
});

test('a job whose run crashed and that is not to be tried again says so', async () => {
  const root = makeRoot('# @on-crash skip\n');
  const { addPass, addRun } = await writeLog(root);
  const at = Date.now() - 2000;
  const worker_id = await addPass('yearly', at, { state: 'running', pid: NO_SUCH_PID });
  await addRun('yearly/a', at, { ...running, worker_id, claim_number: 1 });
  changeLog(root, 'update jobs set attempts = 1, claim_token = ?', `${worker_id}.1`);
  expect(await inRoot(root, 'by-hand')).toMatchObject({ status: 0 });
  expect(await textOf(root, 'last job')).toMatch(
    /^that of .+ was cancelled after try 1: the runner \(pid 5000000 .+; by its @on-crash skip it is not tried again$/,
  );
});
