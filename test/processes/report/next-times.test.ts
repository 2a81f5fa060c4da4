import { expect, test } from 'vitest';
import { callAt, runAt } from '../../support/faults/faults.ts';
import { makeTemporaryRoot } from '../../support/root.ts';

const scheduled = (schedule: string) => `#!/bin/sh\n# @schedule ${schedule}\nexit 0\n`;

/** Tiers that were called at minute 13, daily ones at 04:13. */
async function makeRoot(): Promise<string> {
  const root = makeTemporaryRoot({
    'jobs/hourly/weekly.sh': scheduled('weekly on monday at 07:00 in Europe/Berlin'),
    'jobs/hourly/each.sh': 'exit 0\n',
    'jobs/daily/backup.sh': scheduled('daily at 02:30'),
    'jobs/daily/warm.sh': '#!/bin/sh\n# @reboot\nexit 0\n',
  });
  await callAt(root, ['2026-11-24 04:13'], 'daily');
  await callAt(root, ['2026-11-24 05:13'], 'hourly');
  return root;
}

const at = '2026-11-24 05:30';
const readJson = async (root: string, time: string, ...args: readonly string[]) =>
  JSON.parse((await runAt(root, time, ...args, '--json')).stdout);

test('status tells the next time of each script that has its own, and the pass that runs it then', async () => {
  const root = await makeRoot();
  const { scheduled: times } = await readJson(root, at, 'status');
  const minutes = (text: string | null) => text?.slice(0, '2026-11-24T05:30'.length) ?? null;
  expect(
    times.map((time: { next: string | null; nextPass: string | null }) => ({
      ...time,
      next: minutes(time.next),
      nextPass: minutes(time.nextPass),
    })),
  ).toEqual([
    {
      ...{ script: 'hourly/weekly', tier: 'hourly', schedule: 'weekly on monday at 07:00 in Europe/Berlin' },
      ...{ timezone: null, isAfterBoot: false, next: '2026-11-30T06:00', nextPass: '2026-11-30T06:13' },
    },
    {
      ...{ script: 'daily/backup', tier: 'daily', schedule: 'daily at 02:30', timezone: null },
      ...{ isAfterBoot: false, next: '2026-11-25T02:30', nextPass: '2026-11-25T04:13' },
    },
    {
      ...{ script: 'daily/warm', tier: 'daily', schedule: null, timezone: null },
      ...{ isAfterBoot: true, next: null, nextPass: null },
    },
  ]);
  const { stdout } = await runAt(root, at, 'status');
  expect(stdout).toMatch(/\nhourly\/weekly +30 Nov 06:00 +weekly on monday at 07:00/);
  expect(stdout).toMatch(/\ndaily\/backup +25 Nov 02:30, with the pass of 25 Nov 04:13 /);
  expect(stdout).toMatch(/\ndaily\/warm +after the next boot /);
});

test('a time that has come and waits for a pass is shown as that', async () => {
  const root = await makeRoot();
  const time = '2026-11-25 03:00';
  expect((await runAt(root, time, 'status')).stdout).toMatch(
    /\ndaily\/backup +due since 25 Nov 02:30, with the pass of /,
  );
  const { conclusion } = await readJson(root, time, 'why', 'backup');
  expect(conclusion).toBe(
    'Its time, 25 Nov 02:30, has come: it will run with the next pass of daily, about 25 Nov 04:13.',
  );
});

test('why tells that a script waits for its next time, and list where that is far from a pass', async () => {
  const root = await makeRoot();
  const { findings, conclusion } = await readJson(root, at, 'why', 'weekly');
  expect(findings).toContainEqual({
    ...{ topic: 'schedule', verdict: 'fine', cure: null },
    text: 'weekly on monday at 07:00 in Europe/Berlin: next 30 Nov 06:00',
  });
  expect(conclusion).toBe(
    'It waits for its next time, 30 Nov 06:00, and will run with the pass of hourly after that, about 30 Nov 06:13.',
  );
  expect((await readJson(root, at, 'why', 'warm')).conclusion).toBe(
    'It runs once after the next boot of this machine, with the first pass of any tier.',
  );
  const { tiers } = await readJson(root, at, 'list');
  const warnings = tiers.flatMap(({ scripts }: { scripts: { script: string; warnings: string[] }[] }) =>
    scripts.flatMap((script) => script.warnings.map((warning) => `${script.script}: ${warning}`)),
  );
  expect(warnings).toEqual([
    'daily/backup: its next time is 25 Nov 02:30, but the pass of daily is at 25 Nov 04:13: in jobs/hourly it would run sooner',
  ]);
  expect((await runAt(root, at, 'list')).stdout).toContain(
    'weekly on monday at 07:00 in Europe/Berlin · next 30 Nov 06:00',
  );
});

test('a frequent tier that cron has not called is not compared with a sooner one', async () => {
  const root = makeTemporaryRoot({ 'jobs/15min/a.sh': scheduled('daily at 02:30') });
  await callAt(root, ['2026-11-24 02:13'], '15min');
  const { stdout } = await runAt(root, '2026-11-24 09:00', 'why', 'a');
  expect(stdout).toMatch(/schedule +daily at 02:30: due since 24 Nov 02:30, with the pass of 24 Nov 09:/);
  expect(stdout).not.toContain('sooner');
});

test('next has passes, scripts and jobs in the order of time, and what waits first', async () => {
  const root = await makeRoot();
  await runAt(root, at, 'add', 'mail/welcome', '--at', '2026-11-24 06:00');
  const { items } = await readJson(root, at, 'next', '--for', '7d', '--limit', '1000');
  const told = (items as { at: string; kind: string; name: string; due: string | null }[])
    .filter(({ kind, name }) => kind !== 'tier' || name !== 'hourly')
    .map(({ at: time, kind, name, due }) => [time.slice(5, 16), kind, name, due?.slice(5, 16)].join(' ').trim());
  expect(told.slice(0, 3)).toEqual([
    '11-24T06:00 job mail/welcome',
    '11-25T04:13 script daily/backup 11-25T02:30',
    '11-26T04:13 script daily/backup 11-26T02:30',
  ]);
  expect(told).toContain('11-30T06:13 script hourly/weekly 11-30T06:00');
  const { late } = await readJson(root, '2026-11-25 03:00', 'next');
  expect(late).toContainEqual(
    expect.objectContaining({ kind: 'script', name: 'daily/backup', code: 'waits', count: null }),
  );
  const { stdout } = await runAt(root, '2026-11-25 03:00', 'next');
  expect(stdout).toContain('daily/backup · waits for a pass of its tier · due since 25 Nov 02:30, for 30m');
  expect(stdout).toContain('after the next boot: daily/warm');
});
