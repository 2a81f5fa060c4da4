import { expect, test } from 'vitest';
import { defineConfig } from '../../../src/settings/settings.ts';

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
