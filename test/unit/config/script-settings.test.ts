import { expect, test } from 'vitest';
import { scriptSettings } from '../../../src/settings/script-settings.ts';

function read(key: string, found: unknown): unknown {
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
  expect(read(key, found)).toEqual({ value: options });
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
  expect(read(key, found)).toEqual({ expected });
});
