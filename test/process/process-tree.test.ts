import { expect, test } from 'vitest';
import { listTree, readTreeUsage, type TreeUsage } from '../../src/system/process/tree.ts';
import { startNode, startProcess } from '../support/start-command.ts';
import { until } from '../support/until.ts';

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
    usage = readTreeUsage(parent.pid);
    return usage !== null && listTree(parent.pid).length === 1;
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
