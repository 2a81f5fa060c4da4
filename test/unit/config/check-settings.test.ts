import { expect, test } from 'vitest';
import { validateSettings } from '../../../src/settings/config-file.ts';

const read = (checks: object) => {
  const checked = validateSettings({ checks });
  return 'settings' in checked
    ? checked.settings.checks
    : checked.issues.map(({ path, expected }) => [path.join('.'), expected]);
};

test('a check has a threshold, none where it is switched off, and its default where it is switched on or left out', () => {
  expect(
    read({ jobsLate: '10m', diskFull: '1gb', crashes: 1, utilization: 0.8, tierOverdue: false, noWorker: true }),
  ).toEqual({
    ...{ jobsLate: 600_000, diskFull: 1024 ** 3, crashes: 1, utilization: 0.8, tierOverdue: null },
  });
});

test('what is no threshold is said, with what was expected', () => {
  expect(read({ crashes: 0, jobsLate: 10, utilization: 2 })).toEqual([
    ['checks.jobsLate', expect.stringMatching(/^a duration .*, or true or false$/)],
    ['checks.crashes', 'a whole number from 1 to 1000000, or true or false'],
    ['checks.utilization', 'a number above 0, up to 1, or true or false'],
  ]);
  expect(validateSettings({ checks: { jobLate: '1m' } })).toMatchObject({
    issues: [{ path: ['checks', 'jobLate'], statement: expect.stringContaining('did you mean jobsLate?') }],
  });
});
