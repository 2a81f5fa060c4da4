import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import stringWidth from 'string-width';
import { expect, test } from 'vitest';
import { callAt, cronEnv } from '../../support/command.ts';
import { makeFakeCrontab, makeTemporaryRoot } from '../../support/root.ts';
import { writeLog } from '../../support/written-log.ts';

const now = Date.parse('2026-11-03T14:05:00Z');
const MINUTE = 60_000;
const HOUR = 60 * MINUTE;

const files = {
  'jobs/hourly/clean.sh': 'true\n',
  'jobs/hourly/nightly.sh': '# @schedule daily at 02:30\n',
  'jobs/hourly/booted.sh': '# @reboot\n',
  'jobs/hourly/wrong.sh': '# @timeout soon\n',
  'jobs/hourly/old.sh.disabled': 'true\n',
  'jobs/daily/backup.sh': 'true\n',
};

/** A site whose crontab calls hourly at :20, and daily at 04:42; both were called in time. */
async function makeSite(more: Readonly<Record<string, string>> = {}) {
  const root = makeTemporaryRoot({ ...files, ...more });
  const log = await writeLog(root);
  await log.addPass('hourly', now - 45 * MINUTE);
  await log.addPass('daily', Date.parse('2026-11-03T04:42:00Z'));
  const crontab = makeFakeCrontab();
  crontab.write(
    `20 * * * * npx folder-runner --root ${root} hourly\n42 4 * * * npx folder-runner --root ${root} daily\n`,
  );
  const call = (...args: readonly string[]) => {
    const env = { ...cronEnv(root), ...crontab.env, TZ: 'UTC', COLUMNS: '80' };
    return callAt(args, { cwd: root, env }, now);
  };
  return { root, log, crontab, call };
}

test('the coming day on 80 columns: passes by their lines, scripts at their times, what is left out', async () => {
  const { call, log } = await makeSite();
  await log.addRun('daily/backup', now - 9 * HOUR, { duration_us: 600_000_000 });
  const { stdout, status } = await call('next', '--limit', '3');
  const lines = stdout.split('\n');
  expect(status).toBe(0);
  expect(lines.filter((line) => stringWidth(line) > 80)).toEqual([]);
  expect(stdout).toMatch(/\n3 Nov 14:20 +15m +tier +hourly +– .*1 script: clean\n/);
  expect(stdout).toContain('23 more from 3 Nov 17:20 on; --limit shows more entries, --for a shorter time');
  const notes = 'Refused: 1 script; `npx folder-runner list` says why.';
  expect(stdout).toContain(`${notes}\nafter the next boot: hourly/booted\ndisabled: hourly/old\ntimes in UTC\n`);
  const { stdout: day } = await call('next');
  expect(day).toMatch(/\n4 Nov 03:20 .* script +hourly\/nightly .* daily at 02:30 · due/);
  expect(day).toMatch(/\n4 Nov 04:42 +14h 37m +tier +daily +10m .*1 script: backup\n/);
});

test('JSON has instants in UTC and null for what is unknown', async () => {
  const { call } = await makeSite();
  const next = JSON.parse((await call('next', '--until', '15:00', '--json')).stdout);
  expect(next).toEqual({
    ...{ from: '2026-11-03T14:05:00.000Z', until: '2026-11-03T15:00:00.000Z', late: [] },
    items: [
      {
        ...{ at: '2026-11-03T14:20:00.000Z', kind: 'tier', name: 'hourly', reason: 'call', count: 1, job: null },
        ...{ rule: null, due: null, isPaused: false, links: [], usualMs: null, end: null },
      },
    ],
    ...{ more: 0, waiting: [], completeUntil: '2026-11-03T15:00:00.000Z' },
    passes: [
      { tier: 'hourly', scripts: ['hourly/clean'], usualMs: null, linked: [] },
      { tier: 'daily', scripts: ['daily/backup'], usualMs: null, linked: [] },
    ],
    ...{ afterBoot: ['hourly/booted'], pauses: [], disabled: ['hourly/old'], refused: ['hourly/wrong'] },
    ...{ isLogUnread: false, isCrontabUnread: false, settingsProblem: null },
  });
});

test('a paused script says so, and comes again when the pause ends', async () => {
  const { call } = await makeSite();
  await call('pause', 'hourly', '--for', '30m');
  const { stdout } = await call('next', '--for', '2h');
  expect(stdout).toMatch(/\n3 Nov 14:20 .*paused · 1 script/);
  expect(stdout).toMatch(/\n3 Nov 15:20 .* {2}1 script: clean\n/);
  expect(stdout).toContain('paused\n  hourly · until 3 Nov 14:35');
});

test('missed runs stand first: calls that cron did not make, and tiers without a line', async () => {
  const { call, crontab, root } = await makeSite();
  crontab.write(`40 * * * * npx folder-runner --root ${root} hourly\n`);
  const { stdout } = await call('next', '--for', '1h');
  expect(stdout.split('\n').slice(0, 4)).toEqual([
    'did not come',
    '  daily · no crontab line calls it',
    '',
    expect.stringContaining('when'),
  ]);
  crontab.write(`0 * * * * npx folder-runner --root ${root} hourly\n`);
  const { late } = JSON.parse((await call('next', '--tier', 'hourly', '--json')).stdout);
  expect(late).toEqual([]);
});

test('wrong settings, an empty jobs/ and wrong options are told', async () => {
  const { call, root } = await makeSite();
  expect(await call('next', '--tier', 'houry')).toMatchObject({ status: 2, stderr: expect.stringContaining('hourly') });
  const far = 'The time to look up to must be in the future, within 31 days.\n';
  expect(await call('next', '--for', '32d')).toMatchObject({ status: 2, stderr: expect.stringContaining(far) });
  expect(await call('next', '--until', 'yesterday')).toMatchObject({ status: 2, stderr: expect.stringContaining(far) });
  expect((await call('next', '--until', 'soon')).stderr).toContain('--until must be a day such as tomorrow or friday');
  expect((await call('next', '--for', '1h', '--until', '15:00')).status).toBe(2);
  writeFileSync(join(root, 'runner.config.json'), '{"concurency": 2}');
  expect((await call('next')).stdout).toContain('No call starts anything until the settings are fixed.');
  const empty = makeTemporaryRoot({ 'jobs/.keep': '' });
  const env = { ...cronEnv(empty), ...makeFakeCrontab().env, TZ: 'UTC', COLUMNS: '80' };
  expect((await callAt(['next'], { cwd: empty, env }, now)).stdout).toContain('Nothing is expected. There is no tier');
});
