import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { readProbeResult, tellsEnd } from '../../../src/execution/result/report.ts';
import { defaultSettings } from '../../../src/settings/settings.ts';
import { makeTemporaryRoot } from '../../support/root.ts';
import { createMasker } from '../../support/run.ts';

const result = {
  exitCode: 1,
  userCpuMs: 12.5,
  systemCpuMs: 3,
  maxRssBytes: 40_000_000,
  error: { name: 'Error', message: 'x', stack: 'Error: x' },
};

function readBack(content: string): unknown {
  const path = join(makeTemporaryRoot(), '1.json');
  writeFileSync(path, content);
  return readProbeResult(path, createMasker(defaultSettings, {}));
}

test('a record of what keeps a script running tells no end', () => {
  const path = join(makeTemporaryRoot(), '1.json');
  writeFileSync(path, JSON.stringify({ lingering: { isFunction: true, afterMs: 1, resources: [] } }));
  expect(tellsEnd(path)).toBe(false);
  writeFileSync(path, JSON.stringify(result));
  expect(tellsEnd(path)).toBe(true);
});

test('what the probe left is read', () => {
  expect(readBack(JSON.stringify(result))).toEqual(result);
  expect(readBack(JSON.stringify({ ...result, error: null }))).toEqual({ ...result, error: null });
});

test.for<readonly [string, string]>([
  ['nothing', ''],
  ['half of it', JSON.stringify(result).slice(0, 40)],
  ['null', 'null'],
  ['a text for a figure', JSON.stringify({ ...result, userCpuMs: '12' })],
  ['an infinite figure', JSON.stringify(result).replace('12.5', '1e999')],
  ['an error without a message', JSON.stringify({ ...result, error: { name: 'Error' } })],
  ['an object for a stack', JSON.stringify({ ...result, error: { ...result.error, stack: {} } })],
  ['no error at all', JSON.stringify({ ...result, error: undefined })],
])('%s counts as no result', ([, content]) => {
  expect(readBack(content)).toBeNull();
});

test('a missing file counts as no result', () => {
  expect(readProbeResult(join(makeTemporaryRoot(), 'none.json'), createMasker(defaultSettings, {}))).toBeNull();
});
