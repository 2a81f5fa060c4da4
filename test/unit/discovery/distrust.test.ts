import { chmodSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { discover } from '../../../src/discovery/discover.ts';
import { defaultSettings } from '../../../src/settings/settings.ts';
import { type FileContent, makeTemporaryRoot } from '../../support/root.ts';

type Files = Readonly<Record<string, FileContent>>;

function makeHourly(files: Files): string {
  const inTier = Object.entries(files).map(([name, file]) => [`jobs/hourly/${name}`, file]);
  return makeTemporaryRoot(Object.fromEntries(inTier));
}

/** The refusals of each script. */
async function refusalsIn(root: string, settings = defaultSettings) {
  const { tiers } = await discover(root, settings, { tier: 'hourly' });
  return Object.fromEntries((tiers[0]?.scripts ?? []).map(({ name, refusals }) => [name, refusals]));
}

const orAllow = ', or allow it with allowUnsafe: true in runner.config.* or RUNNER_ALLOW_UNSAFE=1 in the environment';

test('a script that anybody can write is refused, and only that one', async () => {
  const root = makeHourly({ 'a.sh': { content: '', mode: 0o666 }, 'b.sh': '' });
  expect(await refusalsIn(root)).toEqual({
    'hourly/a': [
      `jobs/hourly/a.sh can be written by anybody (mode 0666); close it with: chmod go-w jobs/hourly/a.sh${orAllow}`,
    ],
    'hourly/b': [],
  });
});

test.each(['.', 'jobs', 'jobs/hourly'])(
  'whoever can write %s can replace what is in it: all is refused',
  async (folder) => {
    const root = makeHourly({ 'a.sh': '', 'b.mjs': '' });
    chmodSync(join(root, folder), 0o777);
    const refusals = await refusalsIn(root);
    const name = folder === '.' ? root : folder;
    const reason = `${name} can be written by anybody (mode 0777); close it with: chmod go-w ${name}${orAllow}`;
    expect(refusals).toEqual({ 'hourly/a': [reason], 'hourly/b': [reason] });
  },
);

test('a script in a folder is judged with its folder', async () => {
  const root = makeHourly({ 'a/index.sh': '', 'b.sh': '' });
  chmodSync(join(root, 'jobs/hourly/a'), 0o757);
  const refusals = await refusalsIn(root);
  expect(refusals['hourly/a']).toEqual([
    expect.stringMatching(/^jobs\/hourly\/a can be written by anybody \(mode 0757\)/),
  ]);
  expect(refusals['hourly/b']).toEqual([]);
});

test('a script behind a link is judged with all that the link leads through', async () => {
  const root = makeHourly({ 'c.sh': '' });
  const elsewhere = makeTemporaryRoot({ 'bin/a.sh': '', 'b.sh': { content: '', mode: 0o602 } });
  chmodSync(join(elsewhere, 'bin'), 0o777);
  symlinkSync(join(elsewhere, 'bin/a.sh'), join(root, 'jobs/hourly/a.sh'));
  symlinkSync(join(elsewhere, 'b.sh'), join(root, 'jobs/hourly/b.sh'));
  expect(await refusalsIn(root)).toEqual({
    'hourly/a': [expect.stringContaining(`${elsewhere}/bin can be written by anybody (mode 0777)`)],
    'hourly/b': [expect.stringContaining(`${elsewhere}/b.sh can be written by anybody (mode 0602)`)],
    'hourly/c': [],
  });
});

test('a tier behind a link is judged likewise', async () => {
  const root = makeTemporaryRoot({ 'releases/1/a.sh': '' });
  symlinkSync('../releases/1', join(root, 'jobs/hourly'));
  expect(await refusalsIn(root)).toEqual({ 'hourly/a': [] });
  chmodSync(join(root, 'releases'), 0o777);
  expect((await refusalsIn(root))['hourly/a']).toEqual([expect.stringMatching(/^releases can be written by anybody/)]);
});

test('what is wrong with its tags is told as well', async () => {
  const root = makeHourly({ 'a.sh': { content: '# @timeout soon\n', mode: 0o646 } });
  expect((await refusalsIn(root))['hourly/a']).toEqual([
    expect.stringContaining('anybody'),
    expect.stringContaining('@timeout must be'),
  ]);
});

test('allowUnsafe lets all of it run', async () => {
  const root = makeHourly({ 'a.sh': { content: '', mode: 0o666 } });
  chmodSync(join(root, 'jobs'), 0o777);
  expect(await refusalsIn(root, { ...defaultSettings, allowUnsafe: true })).toEqual({ 'hourly/a': [] });
});

test('a file that is no script is judged by nobody', async () => {
  const root = makeHourly({ 'notes.txt': { content: '', mode: 0o666 } });
  expect(await refusalsIn(root)).toEqual({});
});
