import { expect, test } from 'vitest';
import { callCommand } from '../../support/command.ts';
import { makeFakeCrontab, makeTemporaryRoot } from '../../support/root.ts';
import { writeLog } from '../../support/written-log.ts';

test('the line for all tiers says when those begin that were never called', async () => {
  const script = 'exit 0\n';
  const root = makeTemporaryRoot({
    'jobs/daily/a.sh': script,
    'jobs/monthly/a.sh': script,
    'jobs/by-hand/a.sh': script,
  });
  const place = { cwd: root, env: { ...makeFakeCrontab().env, TZ: 'UTC' } };
  const install = async (...args: string[]) => (await callCommand(['cron', '--install', ...args], place)).stdout;
  expect(await install('--due')).toMatch(
    /\nTiers that were never called begin with their next period: daily \d+ \w+ \d\d:\d\d, monthly (?:1 \w+ \d\d:\d\d|\d{4}-01-01)\.\n/,
  );
  const log = await writeLog(root);
  await log.addPass('monthly', Date.now());
  expect(await install('--due')).toMatch(
    /\nTiers that were never called begin with their next period: daily [^,]+\.\n/,
  );
  expect(await install('--tiers', 'daily,monthly')).not.toContain('never called');
});
