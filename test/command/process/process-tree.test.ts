import { spawn } from 'node:child_process';
import { expect, onTestFinished, test } from 'vitest';
import { readStatFields } from '../../../src/system/process/identity.ts';
import { readSharedRss } from '../../../src/system/process/memory.ts';
import {
  listGroup,
  listPids,
  listTree,
  readTreeUsage,
  readUsage,
  type TreeUsage,
} from '../../../src/system/process/tree.ts';
import { startNode, startProcess } from '../../support/command.ts';
import { killGroup } from '../../support/faults/faults.ts';
import { until } from '../../support/until.ts';

const env = { PATH: '/usr/bin:/bin', NODE: process.execPath };
const MEGABYTE = 1_048_576;

// By CPU time, not by the clock: other tests may have the processors.
const burn = `while (process.cpuUsage().user < 200_000) for (let i = 0; i < 1e6; i += 1);`;
const holdMemory = `globalThis.held = Buffer.alloc(60 * ${MEGABYTE}, 1);`;
const wait = `setTimeout(() => {}, 30_000);`;

test('the tree holds children and grandchildren, and nobody else', async () => {
  const script = 'sh -c "sleep 30 & sleep 30 & wait" & wait';
  const parent = startProcess('/bin/sh', ['-c', script], { cwd: '/', env });
  await until('all four run', () => listTree(parent.pid).length === 4);
  const tree = listTree(parent.pid);
  expect(tree[0]).toBe(parent.pid);
  expect(new Set(tree).size).toBe(4);
  expect(tree).not.toContain(process.pid);
  for (const pid of tree.slice(1)) process.kill(pid);
});

test('a grandchild’s CPU time and memory count', async () => {
  const program = burn + holdMemory + wait;
  const script = `"$NODE" -e '${program}' & sleep 0; "$NODE" -e '${program}' & wait`;
  const parent = startProcess('/bin/sh', ['-c', `(${script}) & wait`], { cwd: '/', env });
  await until('both hold their memory', () => {
    const usage = readTreeUsage(parent.pid);
    return usage !== null && usage.rssBytes > 150 * MEGABYTE && usage.userCpuMs >= 300;
  });
  const usage = readTreeUsage(parent.pid);
  expect(usage?.peakRssBytes).toBeGreaterThan(60 * MEGABYTE);
  // The peak is that of one process, not of all.
  expect(usage?.peakRssBytes).toBeLessThan(usage?.rssBytes as number);
  for (const pid of listTree(parent.pid).slice(1)) process.kill(pid, 'SIGKILL');
});

test('the CPU time of children that have ended counts', async () => {
  const script = `"$NODE" -e '${burn}'; exec sleep 30`;
  const parent = startProcess('/bin/sh', ['-c', script], { cwd: '/', env });
  await until('the child has ended', () => {
    const usage = readTreeUsage(parent.pid);
    return usage !== null && usage.userCpuMs >= 150;
  });
  let usage: TreeUsage | null = null;
  await until('it is counted with its parent alone', () => {
    if (listTree(parent.pid).length > 1) return false;
    // Read only now: what has ended is counted with its parent once that has waited for it.
    usage = readTreeUsage(parent.pid);
    return usage !== null;
  });
  expect(usage).toMatchObject({ userCpuMs: expect.toSatisfy((cpuMs: number) => cpuMs >= 150) });
});

test('a process of its own uses something, one that is gone is unknown', async () => {
  expect(readTreeUsage(process.pid)?.rssBytes).toBeGreaterThan(10 * MEGABYTE);
  const child = startNode(['--version']);
  await child.ended;
  expect(readTreeUsage(child.pid)).toBeNull();
  expect(listTree(child.pid)).toEqual([child.pid]);
});

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
