import { expect, test } from 'vitest';
import { findSettingLine, validateSettings } from '../../../src/settings/config-file.ts';
import { scriptSettings } from '../../../src/settings/script-settings.ts';
import { defineConfig } from '../../../src/settings/settings.ts';
import { describeProblem } from '../../../src/settings/table.ts';
import { nearestName, nearestPath } from '../../../src/system/base/suggest.ts';

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

test('settings come back as they are given', () => {
  const settings = { tiers: { daily: { timeout: '30m' } } };
  expect(defineConfig(settings)).toBe(settings);
});

test('a setting of the wrong type is found by the type checker', () => {
  // @ts-expect-error: a duration has a unit.
  expect(defineConfig({ defaults: { timeout: 30 } })).toBeDefined();
  // @ts-expect-error: there is no such setting.
  expect(defineConfig({ concurency: 2 })).toBeDefined();
});

const problem = {
  file: 'jobs/hourly/clean.sh',
  line: 3,
  setting: '@timeout',
  expected: 'a duration such as 30s, 10m or 2h',
};

test('a problem names file, line, setting, expectation and value', () => {
  expect(describeProblem({ ...problem, found: '10 parsecs' })).toBe(
    'jobs/hourly/clean.sh:3: @timeout must be a duration such as 30s, 10m or 2h, found "10 parsecs"',
  );
});

test('a problem without a known line names the file alone', () => {
  expect(describeProblem({ ...problem, line: null, found: 3 })).toBe(
    'jobs/hourly/clean.sh: @timeout must be a duration such as 30s, 10m or 2h, found 3',
  );
});

test('of a secret only the kind is told', () => {
  const kindOf = (found: unknown) => describeProblem({ ...problem, found, isSecret: true }).split(', found ')[1];
  expect(['hunter2', 4711, true, null, ['x'], undefined].map(kindOf)).toEqual([
    'a string',
    'a number',
    'a boolean',
    'null',
    'a list',
    'nothing',
  ]);
});

test.each([
  [undefined, 'nothing'],
  [null, 'null'],
  [true, 'true'],
  [[], 'an empty list'],
  [['a'], 'a list'],
  [{}, 'an object'],
  [() => 1, 'a function'],
  ['', '""'],
  ['a\u001b[31m\n"b', '"a\\u001b[31m\\n\\"b"'],
  ['x'.repeat(61), `"${'x'.repeat(60)}…"`],
])('the value %j is shown as %s', (found, shown) => {
  expect(describeProblem({ ...problem, found }).split(', found ')[1]).toBe(shown);
});

function readOne(key: string, found: unknown): unknown {
  const setting = scriptSettings.find((each) => each.key === key);
  const reading = setting?.read(found) ?? { expected: 'a known key' };
  return 'value' in reading ? { value: { [setting?.name ?? '']: reading.value } } : reading;
}

test.each([
  ['description', 'Cleans up.', { description: 'Cleans up.' }],
  ['timeout', '10m', { timeoutMs: 600_000 }],
  ['timeout', ' 10m ', { timeoutMs: 600_000 }],
  ['timeout', '24d', { timeoutMs: 2_073_600_000 }],
  ['retries', '3', { retries: 3 }],
  ['retries', 0, { retries: 0 }],
  ['retryDelay', '5m', { retryDelay: { firstMs: 300_000, factor: 1, longestMs: 300_000 } }],
  ['memory', '256mb', { memoryBytes: 268_435_456 }],
  ['memory', '16mb', { memoryBytes: 16_777_216 }],
  ['nice', '19', { nice: 19 }],
  ['env', 'API_KEY', { env: ['API_KEY'] }],
  ['env', 'A, B  C,A', { env: ['A', 'B', 'C'] }],
  ['env', ['A', 'B'], { env: ['A', 'B'] }],
  ['tags', 'night größe', { tags: ['night', 'größe'] }],
  ['schedule', ' weekly on monday at 07:00 ', { schedule: 'weekly on monday at 07:00' }],
  ['timezone', 'America/Argentina/Buenos_Aires', { timezone: 'America/Argentina/Buenos_Aires' }],
])('%s takes %j', (key, found, options) => {
  expect(readOne(key, found)).toEqual({ value: options });
});

const duration = 'a duration such as 30s, 10m or 2h';
const delay = 'a duration such as 5m, or exponential with a first and a longest one, such as exponential 1m 1h';
const rule = 'a time or a rule such as daily at 02:30, weekly on monday at 07:00 or 0 7 * * 1';
const size = 'a size such as 64mb, 512mb or 1gb';
const variables = 'names of environment variables such as API_KEY';
const noCode = (name: string) =>
  `variables that load no code into programs, as ${name} does (env in runner.config.* may set it)`;

test.each([
  ['description', 3, 'a text'],
  ['schedule', 7, rule],
  ['schedule', '', `${rule} (in a /* comment, */15 ends it: write every 15min)`],
  ['timezone', 'Europe/Berlin, UTC', 'one time zone such as Europe/Berlin or UTC'],
  ['timeout', '', duration],
  ['timeout', 30, duration],
  ['timeout', '25d', 'a duration of at most 24 days'],
  ['retries', '-1', 'a whole number from 0 to 100'],
  ['retries', '101', 'a whole number from 0 to 100'],
  ['retries', 1.5, 'a whole number from 0 to 100'],
  ['retries', '0x10', 'a whole number from 0 to 100'],
  ['retries', '', 'a whole number from 0 to 100'],
  ['retries', null, 'a whole number from 0 to 100'],
  ['retryDelay', 'soon', delay],
  ['memory', '256', size],
  ['memory', '1kb', 'a size of at least 16mb'],
  ['nice', '20', 'a whole number from 0 to 19'],
  ['env', '', variables],
  ['env', [], variables],
  ['env', 'API-KEY', variables],
  ['env', ['A', 3], variables],
  ['env', { A: 'b' }, variables],
  ['env', 'API_KEY NODE_OPTIONS', noCode('NODE_OPTIONS')],
  ['env', ['LD_PRELOAD'], noCode('LD_PRELOAD')],
  ['tags', ' ', 'one or more words'],
  ['tags', ['two words'], 'one or more words'],
])('%s does not take %j', (key, found, expected) => {
  expect(readOne(key, found)).toEqual({ expected });
});

const source = `// timeout: is explained below
export default {
  defaults: { timeout: '1m' },
  /* tiers: none */
  tiers: {
    '15min': { retries: 1 },
    hourly: {
      "timeout": '2m',
    },
  },
  scripts: { 'hourly/clean-*': { nice: 1 } },
};`;

test.each([
  [['defaults', 'timeout'], 3],
  [['tiers'], 5],
  [['tiers', '15min', 'retries'], 6],
  [['tiers', 'hourly', 'timeout'], 8],
  [['scripts', 'hourly/clean-*', 'nice'], 11],
  [['retention'], null],
  [[], null],
])('%j is in line %j', (path, line) => {
  expect(findSettingLine(source, path)).toBe(line);
});

const tags = ['timeout', 'retries', 'retry-delay', 'memory', 'nice', 'env', 'tags', 'description'];

test.each([
  ['timout', 'timeout'],
  ['tmieout', 'timeout'],
  ['TIMEOUT', 'timeout'],
  ['retry', 'retry-delay'],
  ['retrydelay', 'retry-delay'],
  ['retryDelay', 'retry-delay'],
  ['retires', 'retries'],
  ['evn', null],
  ['en', 'env'],
  ['see', null],
  ['tag', 'tags'],
  ['mem', null],
  ['author', null],
  ['', null],
])('%j is taken for %j', (word, nearest) => {
  expect(nearestName(word, tags)).toBe(nearest);
});

test('the nearest of several wins', () => {
  expect(nearestName('hurly', ['daily', 'hourly', 'early'])).toBe('hourly');
});

test('nothing is near where there is nothing', () => {
  expect(nearestName('hourly', [])).toBeNull();
});

test.each([
  ['mail/welcom', 'mail/welcome'],
  ['welcome', 'mail/welcome'],
  ['elcome', 'mail/welcome'],
  ['bye', 'a/bye'],
  ['exprt', 'export'],
  ['other', null],
])('with folders %j is taken for %j', (word, nearest) => {
  expect(nearestPath(word, ['mail/welcome', 'export', 'a/bye', 'b/bye'])).toBe(nearest);
});
