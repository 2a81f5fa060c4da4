import { spawn } from 'node:child_process';
import { expect, onTestFinished, test } from 'vitest';
import { readStatFields } from '../../src/system/process/identity.ts';
import { readSharedRss } from '../../src/system/process/memory.ts';
import { listGroup, listPids, readUsage } from '../../src/system/process/tree.ts';

import { killGroup } from '../support/end-orphans.ts';
import { until } from '../support/until.ts';

/** Its leader, as a run's is, in a session of its own. */
function startGroup(source: string): number {
  const child = spawn('/bin/sh', ['-c', source], { detached: true, stdio: 'ignore' });
  const pid = child.pid as number;
  onTestFinished(() => killGroup(pid));
  return pid;
}

test('a group holds whose parent has ended, also after its leader', async () => {
  const pid = startGroup('(sleep 30 & sleep 30 &); exec sleep 0.5');
  await until('all three run', () => listGroup(pid).length === 3);
  await until('the leader has ended', () => !listGroup(pid).includes(pid));
  expect(listGroup(pid)).toHaveLength(2);
});

test('and descendants that made a session of their own', async () => {
  const pid = startGroup('setsid -w sleep 30; true');
  await until('all three run', () => listGroup(pid).length >= 2);
  const [, child] = listGroup(pid).toSorted((one, other) => one - other);
  process.kill(child as number, 'SIGKILL');
});

test('nobody else, and no zombies', async () => {
  const pid = startGroup('true & exec sleep 30');
  const isItsZombie = (each: number): boolean => {
    const [state, parent] = readStatFields(each) ?? [];
    return state === 'Z' && Number(parent) === pid;
  };
  await until('its child is a zombie', () => listPids().some(isItsZombie));
  expect(listGroup(pid)).toEqual([pid]);
  expect(listGroup(2 ** 22 + 1)).toEqual([]);
});

test('what two processes share counts half for each', async () => {
  const source = `perl -e 'vec(my $held, 60_000_000, 8) = 1; fork; sleep 30'`;
  const pid = startGroup(`exec ${source}`);
  await until('both hold it', () => {
    const usage = readUsage(listGroup(pid));
    return usage !== null && usage.rssBytes > 120_000_000;
  });
  const shared = readSharedRss(listGroup(pid));
  expect(shared).toBeGreaterThan(60_000_000);
  expect(shared).toBeLessThan(90_000_000);
});
