import { existsSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { gzipSync } from 'node:zlib';
import { expect, test } from 'vitest';
import { keepReserve, releaseReserve } from '../../../src/store/sqlite/reserve.ts';
import { stateFolderOf } from '../../../src/system/place/state-folder.ts';
import { makeTemporaryRoot } from '../../support/root.ts';
import { makeStateOf } from '../../support/store.ts';

test('the reserve is of bytes that really take room, and nobody else’s', () => {
  const state = makeStateOf(makeTemporaryRoot());
  keepReserve(state);
  const { size, blocks, mode } = statSync(state.reserve);
  expect({ size, mode: mode & 0o777 }).toEqual({ size: 262_144, mode: 0o600 });
  expect(blocks * 512).toBeGreaterThanOrEqual(size);
  expect(gzipSync(readFileSync(state.reserve)).length).toBeGreaterThan(size * 0.99);
});

test('one that is there is left as it is; one that was cut off is made whole', () => {
  const state = makeStateOf(makeTemporaryRoot());
  keepReserve(state);
  const before = readFileSync(state.reserve);
  keepReserve(state);
  expect(readFileSync(state.reserve).equals(before)).toBe(true);
  writeFileSync(state.reserve, 'short');
  keepReserve(state);
  expect(statSync(state.reserve).size).toBe(262_144);
});

test('giving it up says whether there was something to give up', () => {
  const state = makeStateOf(makeTemporaryRoot());
  expect(releaseReserve(state)).toBe(false);
  keepReserve(state);
  expect(releaseReserve(state)).toBe(true);
  expect(existsSync(state.reserve)).toBe(false);
});

test('where it cannot be made, nothing is thrown and nothing half made stays', () => {
  const missing = stateFolderOf(makeTemporaryRoot());
  keepReserve(missing);
  expect(existsSync(missing.path)).toBe(false);
  const state = makeStateOf(makeTemporaryRoot());
  mkdirSync(state.reserve);
  keepReserve(state);
  expect(releaseReserve(state)).toBe(false);
});
