import { expect, test } from 'vitest';
import { findSettingLine } from '../../../src/settings/config-file.ts';

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
