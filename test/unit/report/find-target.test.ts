import { join } from 'node:path';
import { expect, test } from 'vitest';
import { discover } from '../../../src/discovery/discover.ts';
import { findDisabled } from '../../../src/discovery/not-run.ts';
import { findTarget, type Target } from '../../../src/report/why/why.ts';
import { defaultSettings } from '../../../src/settings/settings.ts';
import { executable, makeTemporaryRoot } from '../../support/root.ts';

const sh = executable('#!/bin/sh\n');
const files = {
  'jobs/hourly/clean.sh': sh,
  'jobs/hourly/report/index.mjs': '',
  'jobs/hourly/same.sh': sh,
  'jobs/daily/same.sh': sh,
  'jobs/daily/old.sh.disabled': sh,
  'jobs/daily/_draft.mjs': '',
  'jobs/daily/notes.txt': '',
  'jobs/daily/plain': 'no script',
  'jobs/daily/node_modules/x/y.js': '',
  'jobs/queue/mail.sh': sh,
} as const;

async function find(word: string, cwd = ''): Promise<Target & { readonly root: string }> {
  const root = makeTemporaryRoot(files);
  const discovery = await discover(root, defaultSettings);
  const logged = ['hourly/clean', 'hourly/gone'];
  const disabled = findDisabled(root);
  const query = { word: word.replace('ROOT', root), root, cwd: join(root, cwd), discovery, disabled, logged };
  return { ...findTarget(query), root };
}

test.each([
  ['hourly/clean', '', 'hourly/clean'],
  ['clean', '', 'hourly/clean'],
  ['clean.sh', '', 'hourly/clean'],
  ['hourly/clean.sh', '', 'hourly/clean'],
  ['jobs/hourly/clean.sh', '', 'hourly/clean'],
  ['ROOT/jobs/hourly/clean.sh', '', 'hourly/clean'],
  ['./clean.sh', 'jobs/hourly', 'hourly/clean'],
  ['jobs/hourly/report', '', 'hourly/report'],
  ['report', '', 'hourly/report'],
  ['./same.sh', 'jobs/daily', 'daily/same'],
])('%s, said in %j, is the script %s', async (word, cwd, name) => {
  expect(await find(word, cwd)).toMatchObject({ kind: 'script', script: { name } });
});

test.each([
  ['jobs/daily/notes.txt', 'jobs/daily/notes.txt'],
  ['notes.txt', 'jobs/daily/notes.txt'],
  ['daily/notes', 'jobs/daily/notes.txt'],
  ['draft', 'jobs/daily/_draft.mjs'],
  ['_draft', 'jobs/daily/_draft.mjs'],
  ['daily/_draft', 'jobs/daily/_draft.mjs'],
  ['daily/plain', 'jobs/daily/plain'],
  ['jobs/daily/node_modules/x/y.js', 'jobs/daily/node_modules'],
])('%s is the file %s, which is ignored', async (word, path) => {
  const { root, ...target } = await find(word);
  expect(target).toMatchObject({ kind: 'ignored', ignored: { path: join(root, path) } });
});

test.each(['daily/old', 'jobs/daily/old.sh', 'jobs/daily/old.sh.disabled', 'old'])(
  '%s is the script daily/old, which is disabled',
  async (word) => {
    const { root, ...target } = await find(word);
    const path = join(root, 'jobs/daily/old.sh.disabled');
    expect(target).toEqual({ kind: 'disabled', disabled: { name: 'daily/old', tier: 'daily', path } });
  },
);

test('what is not there any more is known from the log', async () => {
  expect(await find('gone')).toMatchObject({ kind: 'gone', name: 'hourly/gone' });
});

test.each([
  ['hourly/claen', 'hourly/clean'],
  ['claen', 'hourly/clean'],
  ['nothing-like-it', null],
])('%s is unknown, and nearest to %s', async (word, nearest) => {
  expect(await find(word)).toMatchObject({ kind: 'unknown', nearest });
});

test.each([['queue/mail'], ['mail'], ['jobs/queue/mail.sh'], ['mail?user=7']])(
  '%s is a handler, and not asked about',
  async (word) => {
    await expect(find(word)).rejects.toThrow(
      `"${word}" is the handler of jobs called mail: \`npx folder-runner jobs mail\` lists them`,
    );
  },
);

test.each([
  ['hourly', '', 'is a tier: .* name it: hourly/<script>\\.$'],
  ['jobs/hourly', '', 'is a tier: .* name it: hourly/<script>\\.$'],
  ['ROOT/jobs/daily/', '', 'is a tier: .* name it: daily/<script>\\.$'],
  ['.', 'jobs/daily', 'is a tier: .* name it: daily/<script>\\.$'],
  ['jobs', '', 'contains the tiers: `npx folder-runner list`'],
  ['queue', '', 'contains the handlers of queued jobs: `npx folder-runner jobs`'],
  ['jobs/queue', '', 'contains the handlers of queued jobs: `npx folder-runner jobs`'],
  ['same', '', 'is ambiguous \\(2 matches\\): hourly/same, daily/same\\.'],
])('%s, said in %j, is no answerable question', async (word, cwd, answer) => {
  await expect(find(word, cwd)).rejects.toThrow(new RegExp(`^"\\S+" ${answer}`));
});

test.each([[''], [' ']])('%j names nothing', async (word) => {
  await expect(find(word)).rejects.toThrow('`npx folder-runner why` needs the name of a script, or a file in jobs/.');
});
