import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { openQueue } from 'folder-runner';
import { describe, expect, onTestFinished, test } from 'vitest';
import { pathWithoutCrontab, startNode } from '../../support/command.ts';
import { noted, notesTime, runAt, runWithFault } from '../../support/faults/faults.ts';
import { makeTemporaryRoot } from '../../support/root.ts';

const scheduled = (schedule: string, name: string) => `#!/bin/sh\n# @schedule ${schedule}\n${notesTime(name)}`;

const inBerlin = { 'runner.config.json': '{ "timezone": "Europe/Berlin" }' };

/** A call at that time, in UTC, by a caller with this zone. */
async function callFrom(zone: string, root: string, time: string, ...args: readonly string[]): Promise<string> {
  const clockMs = Date.parse(`${time.replace(' ', 'T')}Z`) - Date.now();
  const env = { PATH: pathWithoutCrontab, TZ: zone };
  const { status, stdout, stderr } = await runWithFault(root, args, { clockMs, env });
  expect([status, stderr]).toEqual([0, '']);
  return stdout;
}

describe('whatever zone its caller has,', () => {
  test('a script with a time of its own runs once for it', async () => {
    const root = makeTemporaryRoot({ 'jobs/15min/a.sh': scheduled('daily at 02:30', 'a') });
    await runAt(root, '2026-11-23 02:18', '15min');
    await runAt(root, '2026-11-23 02:33', '15min');
    await callFrom('America/New_York', root, '2026-11-23 07:35', '15min');
    await callFrom('Asia/Tokyo', root, '2026-11-23 17:35', '15min');
    expect(noted(root)).toEqual(['a 2026-11-23T02:30:00.000Z']);
  });

  test('a tier is due once in its period', async () => {
    const root = makeTemporaryRoot({ 'jobs/daily/a.sh': notesTime('a') });
    await runAt(root, '2026-11-22 23:50', 'due');
    await runAt(root, '2026-11-23 00:05', 'due');
    await callFrom('America/New_York', root, '2026-11-23 05:10', 'due');
    await callFrom('Pacific/Kiritimati', root, '2026-11-23 10:10', 'due');
    expect(noted(root)).toEqual(['a 2026-11-23T00:00:00.000Z']);
  });

  test('the times that are shown are the same', async () => {
    const root = makeTemporaryRoot({ 'jobs/15min/a.sh': scheduled('daily at 02:30', 'a'), ...inBerlin });
    await runAt(root, '2026-11-23 01:18', '15min');
    const [here, there] = [
      await callFrom('UTC', root, '2026-11-23 01:20', 'why', 'a'),
      await callFrom('Asia/Tokyo', root, '2026-11-23 01:20', 'why', 'a'),
    ];
    expect(there).toBe(here);
    expect(here).toContain('23 Nov 02:30');
  });
});

test('`timezone` of the settings is where days begin, and the zone of schedules that name none', async () => {
  const root = makeTemporaryRoot({
    'jobs/daily/a.sh': notesTime('a'),
    'jobs/hourly/b.sh': scheduled('daily at 02:30', 'b'),
    ...inBerlin,
  });
  for (const time of ['22:50', '23:05']) await callFrom('UTC', root, `2026-11-22 ${time}`, 'due');
  for (const time of ['01:05', '02:05', '03:05']) await callFrom('Asia/Tokyo', root, `2026-11-23 ${time}`, 'due');
  expect(noted(root)).toEqual(['a 2026-11-22T23:00:00.000Z', 'b 2026-11-23T01:30:00.000Z']);
});

describe('a job whose rule names no zone', () => {
  const program = `
    const { openQueue } = await import('folder-runner');
    const queue = await openQueue({ root: process.argv[1] });
    await queue.add('rep', undefined, { repeat: 'daily at 10:00' });
    await queue.close();
    console.log(process.env.TZ, new Date(0).getHours());`;

  test('has its times in the zone of all others, and the program that adds it keeps its own', async () => {
    const root = makeTemporaryRoot({ 'jobs/queue/rep.sh': 'exit 0\n', ...inBerlin });
    const place = { cwd: join(import.meta.dirname, '../../..'), env: { TZ: 'Asia/Tokyo' } };
    const { stdout, stderr } = await startNode(['--input-type=module', '-e', program, root], place).ended;
    expect([stdout, stderr]).toEqual(['Asia/Tokyo 9\n', '']);
    const queue = await openQueue({ root });
    onTestFinished(() => queue.close());
    const [job] = await queue.list();
    const hour = new Intl.DateTimeFormat('en-GB', { timeZone: 'Europe/Berlin', timeStyle: 'short' });
    expect(hour.format(job?.runAt)).toBe('10:00');
    rmSync(join(root, 'runner.config.json'));
  });
});
