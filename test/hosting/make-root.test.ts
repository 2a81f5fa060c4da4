import { lstatSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { UsageError } from '../../src/config/usage-error.ts';
import { makeRoot } from '../../src/hosting/make-root.ts';
import { makeTemporaryRoot } from '../support/temporary-root.ts';

const packageFolder = new URL('../..', import.meta.url).pathname;

const make = (root: string, isServed = false) => makeRoot({ root, packageFolder, isServed });

const modeOf = (...path: string[]): number => lstatSync(join(...path)).mode & 0o777;

test('a new root has three tiers and the queue with one example each, and a state folder', () => {
  const root = join(makeTemporaryRoot(), 'deep', 'root');
  expect(make(root)).toEqual(
    [
      'jobs/15min',
      'jobs/15min/check-site.ts',
      'jobs/hourly',
      'jobs/hourly/clean-temporary-files.ts',
      'jobs/daily',
      'jobs/daily/backup-activity-log.ts',
      'jobs/queue',
      'jobs/queue/post-webhook.ts',
      '.runner',
      '.runner/.gitignore',
    ].map((path) => ({ path, state: 'made' })),
  );
  const copy = readFileSync(join(root, 'jobs/15min/check-site.ts'), 'utf8');
  expect(copy).toBe(readFileSync(join(packageFolder, 'jobs/15min/check-site.ts'), 'utf8'));
});

test('a second time everything is there already and stays as it is', () => {
  const root = makeTemporaryRoot();
  make(root);
  const example = join(root, 'jobs/hourly/clean-temporary-files.ts');
  writeFileSync(example, 'console.log("mine")');
  expect(new Set(make(root).map(({ state }) => state))).toEqual(new Set(['already there']));
  expect(readFileSync(example, 'utf8')).toBe('console.log("mine")');
});

test('a tier with scripts of its own gets no example', () => {
  const root = makeTemporaryRoot({ 'jobs/hourly/mine.sh': 'true' });
  expect(make(root)).toContainEqual({ path: 'jobs/hourly', state: 'already there' });
  expect(readdirSync(join(root, 'jobs/hourly'))).toEqual(['mine.sh']);
});

test('nobody else can read the state folder or write to jobs, even under umask 000', () => {
  const umask = process.umask(0);
  onTestFinished(() => {
    process.umask(umask);
  });
  const root = makeTemporaryRoot();
  make(root);
  expect(modeOf(root, '.runner')).toBe(0o700);
  expect(modeOf(root, 'jobs/hourly')).toBe(0o755);
  expect(modeOf(root, 'jobs/hourly/clean-temporary-files.ts')).toBe(0o644);
});

test('the state folder keeps itself out of git', () => {
  const root = makeTemporaryRoot({ '.gitignore': 'dist\n' });
  make(root);
  expect(readFileSync(join(root, '.runner/.gitignore'), 'utf8')).toBe('*\n');
  expect(readFileSync(join(root, '.gitignore'), 'utf8')).toBe('dist\n');
});

test('in a web root both folders refuse visitors, by the words of Apache 2.4 and 2.2', () => {
  const root = makeTemporaryRoot();
  make(root, true);
  for (const folder of ['jobs', '.runner']) {
    const rules = readFileSync(join(root, folder, '.htaccess'), 'utf8');
    expect(rules).toMatch(/Require all denied[\s\S]*Deny from all/);
  }
});

test('a file where a folder is needed is told in a sentence', () => {
  const root = makeTemporaryRoot({ 'jobs/15min': 'a file' });
  expect(() => make(root)).toThrow(UsageError);
  expect(() => make(root)).toThrow(/jobs\/15min.*a file is where a folder is needed\.$/);
  expect(() => make(join(root, 'jobs/15min/deeper'))).toThrow(/a file is where a folder is needed/);
});
