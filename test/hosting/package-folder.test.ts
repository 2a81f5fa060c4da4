import { existsSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { findPackageFolder } from '../../src/hosting/package-folder.ts';
import { makeTemporaryRoot } from '../support/temporary-root.ts';

test('the package is found from its dist folder, past other package files', () => {
  const root = makeTemporaryRoot({
    'package.json': '{"name":"somebody-s-site"}',
    'node_modules/folder-runner/package.json': '{"name":"folder-runner"}',
    'node_modules/folder-runner/dist/package.json': '{"type":"commonjs"}',
  });
  const folder = join(root, 'node_modules', 'folder-runner');
  expect(findPackageFolder(join(folder, 'dist'))).toBe(folder);
});

test("the project's own folder holds the jobs that init copies", () => {
  const folder = findPackageFolder(import.meta.dirname);
  expect(existsSync(join(folder, 'jobs', 'hourly'))).toBe(true);
});

test('a command outside its package is a defect, told as such', () => {
  const root = makeTemporaryRoot({ 'package.json': 'not JSON' });
  mkdirSync(join(root, 'dist'));
  expect(() => findPackageFolder(join(root, 'dist'))).toThrow(/outside its own package/);
});
