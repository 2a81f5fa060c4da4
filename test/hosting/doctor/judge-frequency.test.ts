import { expect, test } from 'vitest';
import { tierPeriodMs } from '../../../src/discovery/tier-period.ts';
import { type CronCall, dueCall, tierCalls } from '../../../src/hosting/cron-calls.ts';
import { crontabLines } from '../../../src/hosting/crontab-lines.ts';
import { parseCrontab } from '../../../src/hosting/doctor/crontab-line.ts';
import { judgeFrequency } from '../../../src/hosting/doctor/judge-frequency.ts';
import { makeScript } from '../../support/plain-script.ts';

/** What is said of each line where there are these tiers, each with a script. */
function judge(lines: readonly string[], names: readonly string[]): (string | null)[] {
  const tiers = names.map((name) => ({
    name,
    periodMs: tierPeriodMs(name),
    scripts: [makeScript(`${name}/a`)],
  }));
  const crontab = lines.map((line) => `${line}\n`).join('');
  const parsed = parseCrontab(crontab, { home: '/home/me', name: 'me' });
  return parsed.map((line) => judgeFrequency(line, tiers));
}

test.each([
  ['0 0 * * *', 'hourly', 'comes up to 1d apart, less often than hourly says'],
  ['0 8-18 * * *', 'hourly', 'comes up to 14h apart, less often than hourly says'],
  ['@reboot', 'hourly', 'comes only when the machine starts, less often than hourly says'],
  ['30 4 * * 1', 'due', 'comes up to 7d apart, less often than hourly, daily say'],
  ['* * * * *', 'daily', 'comes at least every 1m, more often than daily says'],
  ['5,10 * * * *', 'hourly', 'comes at least every 55m, more often than hourly says'],
])('%s for %s is told', (time, call, said) => {
  expect(judge([`${time} /bin/runner ${call}`], ['hourly', 'daily'])).toEqual([said]);
});

test('what is as it is meant, or cannot be told, is not', () => {
  const lines = [
    '7 * * * * /bin/runner hourly',
    '0 0 31 * * /bin/runner manual',
    '* * * * * /bin/runner due',
    '0~59 * * * * /bin/runner hourly',
    '61 * * * * /bin/runner hourly',
    '* * * * * [ -e /tmp/late ] && /bin/runner daily',
    '* * * * * /bin/runner work --for 55s',
    '0 0 1 1 * /bin/runner run hourly/a',
  ];
  expect(judge(lines, ['hourly', 'daily', 'manual'])).toEqual(lines.map(() => null));
});

const tiers = [
  ...['1min', '7min', '15min', '45min', '90min', 'hourly', '5hours', '36hours', 'daily', '3days'],
  ...['45days', 'weekly', 'monthly', 'yearly'],
];

test('the lines that are written come as often as their tiers’ names say', () => {
  const write = (calls: readonly CronCall[]): string[] =>
    crontabLines({
      nodePath: '/usr/bin/node',
      commandPath: '/opt/bin.cjs',
      root: '/home/me/runner',
      calls,
      zoneOffsetMinutes: -60,
    });
  expect(judge(write(tierCalls(tiers)), tiers)).toEqual(tiers.map(() => null));
  expect(judge(write([dueCall(tiers, [])]), tiers)).toEqual([null]);
});
