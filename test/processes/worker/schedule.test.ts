import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { callAt, noted, notesTime, readMissed, runAt, runWithFault } from '../../support/faults/faults.ts';
import { readJobs, testOfSqlite } from '../../support/log.ts';
import { makeTemporaryRoot } from '../../support/root.ts';

const scheduled = (schedule: string, name = 'a', more = '') =>
  `#!/bin/sh\n# @schedule ${schedule}\n${more}${notesTime(name)}`;

const DAY_MS = 86_400_000;

const quiet = { status: 0, stdout: '', stderr: '' };

test('a script runs in the first pass at or after each time of its schedule, once', async () => {
  const root = makeTemporaryRoot({
    'jobs/hourly/a.sh': scheduled('daily at 02:30'),
    'jobs/hourly/each.sh': notesTime('each'),
  });
  for (const time of ['2026-11-23 01:13', '2026-11-23 02:13', '2026-11-23 03:13', '2026-11-23 04:13']) {
    expect(await runAt(root, time, 'hourly')).toEqual(quiet);
  }
  const ofA = () => noted(root).filter((line) => line.startsWith('a '));
  expect(ofA()).toEqual(['a 2026-11-23T02:30:00.000Z']);
  await callAt(root, ['2026-11-24 02:13', '2026-11-24 02:30', '2026-11-24 03:13'], 'hourly');
  expect(ofA()).toEqual(['a 2026-11-23T02:30:00.000Z', 'a 2026-11-24T02:30:00.000Z']);
  expect(noted(root).filter((line) => line.startsWith('each '))).toHaveLength(7);
});

test('in spring, a time that the clocks skip comes when they go on; in autumn, one that comes twice runs once', async () => {
  const root = makeTemporaryRoot({
    'jobs/hourly/a.sh': scheduled('daily at 02:30', 'a', '# @timezone Europe/Berlin\n'),
  });
  await callAt(root, ['2026-03-29 00:13', '2026-03-29 01:13', '2026-03-29 02:13'], 'hourly');
  expect(noted(root)).toEqual(['a 2026-03-29T01:00:00.000Z']);
  await callAt(root, ['2026-10-25 00:13', '2026-10-25 01:13', '2026-10-25 02:13'], 'hourly');
  expect(noted(root).slice(1)).toEqual(['a 2026-10-24T00:30:00.000Z', 'a 2026-10-25T00:30:00.000Z']);
});

test('leap days and ends of months', async () => {
  const root = makeTemporaryRoot({
    'jobs/daily/leap.sh': scheduled('yearly on 29 february at 01:00', 'leap'),
    'jobs/daily/month.sh': scheduled('monthly on last at 02:00', 'month'),
  });
  await callAt(root, ['2028-02-28 04:00', '2028-02-29 04:00', '2028-03-01 04:00', '2028-03-31 04:00'], 'daily');
  expect(noted(root)).toEqual([
    'leap 2028-02-29T01:00:00.000Z',
    'month 2028-02-29T02:00:00.000Z',
    'month 2028-03-31T02:00:00.000Z',
  ]);
});

test('a script leaves out the dates of a file, waits for its window, and counts weeks from a date', async () => {
  const root = makeTemporaryRoot({
    'jobs/hourly/day.sh': scheduled('daily at 02:30 except days.txt', 'day'),
    'jobs/hourly/night.sh': scheduled('daily at 01:30 except days.txt between 03:00 and 04:00', 'night'),
    'jobs/hourly/weeks.sh': scheduled('every 2 weeks from 2026-11-10 at 02:45', 'weeks'),
    'jobs/hourly/month.sh': scheduled('monthly on the last working day at 02:50 except days.txt', 'month'),
    'days.txt': '2026-11-23\n2026-11-30\n',
  });
  const calls = ['23', '24', '25', '26', '27', '30'].flatMap((day) => [`2026-11-${day} 01:43`, `2026-11-${day} 04:13`]);
  await callAt(root, calls, 'hourly');
  const dates = (name: string) =>
    noted(root)
      .filter((line) => line.startsWith(`${name} `))
      .map((line) => line.slice(`${name} 2026-`.length, -':00.000Z'.length));
  const days = ['11-24', '11-25', '11-26', '11-27'];
  expect(dates('day')).toEqual([...days, '11-29'].map((day) => `${day}T02:30`));
  expect(dates('night')).toEqual([...days, '11-29'].map((day) => `${day}T03:00`));
  expect(dates('weeks')).toEqual(['11-24T02:45']);
  expect(dates('month')).toEqual(['11-27T02:50']);
});

test('however many times were missed, the last one is made up for, once', async () => {
  const root = makeTemporaryRoot({ 'jobs/hourly/a.sh': scheduled('daily at 02:30') });
  await callAt(root, ['2026-11-20 01:13', '2026-11-23 10:13', '2026-11-23 11:13'], 'hourly');
  expect(noted(root)).toEqual(['a 2026-11-23T02:30:00.000Z']);
});

test("where its tier's catchUp is 'skip', a time that was missed is recorded as that, and not made up for", async () => {
  const root = makeTemporaryRoot({
    'jobs/hourly/a.sh': scheduled('daily at 02:30'),
    'runner.config.json': JSON.stringify({ tiers: { hourly: { catchUp: 'skip' } } }),
  });
  await callAt(root, ['2026-11-20 01:13', '2026-11-23 10:13', '2026-11-23 11:13'], 'hourly');
  expect(noted(root)).toEqual([]);
  expect(readMissed(root)).toEqual(["it was missed by 7h, and its tier's catchUp is 'skip'"]);
  // As late as a pass may be is not missed.
  await callAt(root, ['2026-11-24 03:13'], 'hourly');
  expect(noted(root)).toEqual(['a 2026-11-24T02:30:00.000Z']);
});

test('a run by hand is none of its times', async () => {
  const root = makeTemporaryRoot({ 'jobs/hourly/a.sh': scheduled('daily at 02:30') });
  await callAt(root, ['2026-11-23 01:13'], 'hourly');
  await runAt(root, '2026-11-23 02:20', 'run', 'hourly/a');
  await runAt(root, '2026-11-23 02:40', 'run', 'hourly/a');
  await callAt(root, ['2026-11-23 03:13'], 'hourly');
  const minutes = noted(root).map((line) => line.slice(0, 'a 2026-11-23T02:20'.length));
  expect(minutes).toEqual(['a 2026-11-23T02:20', 'a 2026-11-23T02:40', 'a 2026-11-23T02:30']);
});

test('a schedule that is written or changed does not begin with a time before that', async () => {
  const root = makeTemporaryRoot({ 'jobs/hourly/other.sh': 'exit 0\n' });
  await callAt(root, ['2026-11-23 09:13'], 'hourly');
  writeFileSync(join(root, 'jobs/hourly/a.sh'), scheduled('weekly on monday at 07:00'));
  await callAt(root, ['2026-11-23 10:13', '2026-11-30 06:13', '2026-11-30 07:13'], 'hourly');
  expect(noted(root)).toEqual(['a 2026-11-30T07:00:00.000Z']);
  writeFileSync(join(root, 'jobs/hourly/a.sh'), scheduled('yearly on 1 november at 07:00'));
  await callAt(root, ['2026-11-30 08:13'], 'hourly');
  writeFileSync(join(root, 'jobs/hourly/a.sh'), scheduled('daily at 08:30'));
  await callAt(root, ['2026-11-30 09:13'], 'hourly');
  expect(noted(root).slice(1)).toEqual(['a 2026-11-30T08:30:00.000Z']);
});

test('a script that has never run does not make up for a time before its file was there', async () => {
  const lastMinute = new Date(Date.now() - 60_000).toISOString().slice(11, 16);
  const root = makeTemporaryRoot({ 'jobs/hourly/a.sh': scheduled(`daily at ${lastMinute}`) });
  expect(await runWithFault(root, ['hourly'])).toEqual(quiet);
  expect(noted(root)).toEqual([]);
  await runWithFault(root, ['hourly'], { clockMs: DAY_MS });
  expect(noted(root)).toHaveLength(1);
});

test('a clock that is set back by less than 3 hours repeats nothing; one that was wrong stops nothing', async () => {
  const root = makeTemporaryRoot({ 'jobs/hourly/a.sh': scheduled('daily at 02:30') });
  await callAt(root, ['2026-11-23 01:13', '2026-11-23 03:13', '2026-11-23 02:13', '2026-11-23 03:13'], 'hourly');
  expect(noted(root)).toEqual(['a 2026-11-23T02:30:00.000Z']);
  await callAt(root, ['2027-05-05 03:13', '2026-11-24 02:13', '2026-11-24 03:13'], 'hourly');
  expect(noted(root).slice(1)).toEqual(['a 2027-05-05T02:30:00.000Z', 'a 2026-11-24T02:30:00.000Z']);
});

test('`npx folder-runner due` runs it when its time has come, within the period of its tier too', async () => {
  const root = makeTemporaryRoot({
    'jobs/daily/a.sh': scheduled('daily at 02:30'),
    'jobs/daily/each.sh': notesTime('each'),
    'jobs/nightly/b.sh': scheduled('daily at 03:00', 'b'),
  });
  await callAt(root, ['2026-11-23 02:10', '2026-11-23 02:20', '2026-11-23 02:40', '2026-11-23 02:50'], 'due');
  // A tier begins with its next period; the first call of all looks a day back where a name tells no period.
  expect(noted(root)).toEqual(['b 2026-11-22T03:00:00.000Z', 'a 2026-11-23T02:30:00.000Z']);
  await callAt(root, ['2026-11-23 03:00', '2026-11-23 03:10', '2026-11-24 02:35'], 'due');
  const next = ['a 2026-11-24T02:30:00.000Z', 'each 2026-11-24T00:00:00.000Z'];
  expect(noted(root).slice(2)).toEqual(['b 2026-11-23T03:00:00.000Z', ...next]);
});

test('what comes in a pause waits for its end', async () => {
  const root = makeTemporaryRoot({
    'jobs/hourly/a.sh': scheduled('daily at 02:30'),
    'jobs/daily/b.sh': scheduled('daily at 02:40', 'b'),
  });
  await callAt(root, ['2026-11-23 01:13'], 'hourly');
  await callAt(root, ['2026-11-23 01:14'], 'daily');
  await runAt(root, '2026-11-23 02:00', 'pause', 'hourly/a', '--for', '3h');
  await runAt(root, '2026-11-23 02:00', 'pause', 'daily', '--for', '3h');
  await callAt(root, ['2026-11-23 03:13', '2026-11-23 04:13'], 'hourly');
  await callAt(root, ['2026-11-23 03:14'], 'daily');
  expect(noted(root)).toEqual(['b 2026-11-22T02:40:00.000Z']);
  await callAt(root, ['2026-11-23 05:13', '2026-11-23 06:13'], 'hourly');
  await callAt(root, ['2026-11-23 05:14'], 'daily');
  expect(noted(root).slice(1)).toEqual(['a 2026-11-23T02:30:00.000Z', 'b 2026-11-23T02:40:00.000Z']);
});

// A log that is a file can be lost by a folder in its place.
testOfSqlite('without the log, a time counts that lies within one period before the call', async () => {
  const root = makeTemporaryRoot({
    'jobs/hourly/a.sh': scheduled('daily at 02:30'),
    '.runner/activity.db/in-the-way': '',
  });
  await callAt(root, ['2026-11-23 02:13', '2026-11-23 03:13', '2026-11-23 03:14', '2026-11-23 04:13'], 'hourly');
  expect(noted(root)).toEqual(['a 2026-11-23T02:30:00.000Z']);
  rmSync(join(root, '.runner/activity.db'), { recursive: true });
  await callAt(root, ['2026-11-23 05:13'], 'hourly');
  expect(noted(root)).toHaveLength(1);
  expect(readJobs(root)).toMatchObject([{ name: 'hourly/a', scheduled_for: Date.UTC(2026, 10, 23, 2, 30) }]);
});

test('a script whose schedule is wrong is told by the next pass, and not left out in silence', async () => {
  const root = makeTemporaryRoot({ 'jobs/hourly/a.sh': scheduled('dayly at 02:30') });
  const { status, stderr } = await runAt(root, '2026-11-23 01:13', 'hourly');
  expect(status).toBe(1);
  expect(stderr).toContain('its schedule "dayly at 02:30" is wrong');
  expect(noted(root)).toEqual([]);
});
