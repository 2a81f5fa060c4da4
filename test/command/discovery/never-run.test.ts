import { expect, test } from 'vitest';
import { discover } from '../../../src/discovery/discover.ts';
import { describeCures, describeNeverRun, findNeverRun } from '../../../src/discovery/not-run.ts';
import { defaultSettings } from '../../../src/settings/settings.ts';
import { inRoot, runPass } from '../../support/command.ts';
import { executable, makeTemporaryRoot } from '../../support/root.ts';

const SHELL = '#!/bin/sh\necho ran\n';

const find = async (files: Parameters<typeof makeTemporaryRoot>[0]) => {
  const root = makeTemporaryRoot(files);
  return findNeverRun(root, (await discover(root, defaultSettings)).ignored);
};

test('files with a #! line that nothing runs are found, each with the command that has it run', async () => {
  const found = await find({
    'jobs/hourly/backup': SHELL,
    'jobs/hourly/it’s one.job': SHELL,
    'jobs/hourly/sub/db.sh': SHELL,
    'jobs/hourly/sub/deep/more': SHELL,
  });
  expect(found).toEqual([
    { file: 'jobs/hourly/backup', cure: 'chmod +x jobs/hourly/backup' },
    { file: 'jobs/hourly/it’s one.job', cure: "chmod +x 'jobs/hourly/it’s one.job'" },
    { file: 'jobs/hourly/sub/db.sh', cure: 'mv jobs/hourly/sub/db.sh jobs/hourly/db.sh' },
    { file: 'jobs/hourly/sub/deep/more', cure: 'mv jobs/hourly/sub/deep/more jobs/hourly/more' },
  ]);
  expect(describeNeverRun(found)).toBe(
    '4 files with a #! line never run: jobs/hourly/backup, jobs/hourly/it’s one.job, jobs/hourly/sub/db.sh and 1 more',
  );
  expect(describeCures(found)).toContain('`chmod +x jobs/hourly/backup`, ');
});

test('what runs, what is meant not to run, and what has no such line are none', async () => {
  const found = await find({
    'jobs/hourly/a.sh': SHELL,
    'jobs/hourly/b': executable(SHELL),
    'jobs/hourly/_c': SHELL,
    'jobs/hourly/d.sh.disabled': SHELL,
    'jobs/hourly/e.csv': 'a;b\n',
    'jobs/hourly/lib/f.sh': SHELL,
    'jobs/hourly/sub/_g.sh': SHELL,
    'jobs/hourly/sub/data.csv': 'a;b\n',
  });
  expect(found).toEqual([]);
});

test('a folder is marked as one without an index, whatever is said of it', async () => {
  const files = Array.from({ length: 30 }, (_, index) => [`jobs/hourly/sub/${index}.csv`, 'a;b\n']);
  const root = makeTemporaryRoot({ 'jobs/hourly/sub/db.sh': SHELL, ...Object.fromEntries(files) });
  const { ignored } = await discover(root, defaultSettings);
  expect(ignored).toEqual([
    {
      path: `${root}/jobs/hourly/sub`,
      isPlainFolder: true,
      reason: 'a folder without an index.* file; it contains 31 files',
    },
  ]);
  const found = findNeverRun(
    root,
    ignored.map((one) => ({ ...one, reason: 'other words' })),
  );
  expect(found.map(({ file }) => file)).toEqual(['jobs/hourly/sub/db.sh']);
});

test('doctor and why tell of them', async () => {
  const root = makeTemporaryRoot({ 'jobs/hourly/a.sh': SHELL, 'jobs/hourly/noext': SHELL });
  const doctor = await inRoot(root, 'doctor');
  expect(doctor.stdout.replace(/\s+/g, ' ')).toContain('1 file with a #! line never runs: jobs/hourly/noext');
  expect(doctor.stdout.replace(/\s+/g, ' ')).toContain('`chmod +x jobs/hourly/noext`');
  const why = await inRoot(root, 'why', 'noext');
  expect(why.stdout.replace(/\s+/g, ' ')).toContain('→ Make it executable: `chmod +x jobs/hourly/noext`');
});

test('an extension counts in any case, and .bash is run by bash', () => {
  const { runs } = runPass({
    'a.SH': 'echo ran\n',
    'b.Mjs': `import 'node:fs';\nconsole.log('ran');\n`,
    'c.TS': `const word: string = 'ran';\nconsole.log(word);\nexport {};\n`,
    'd.bash': `[[ ran == r* ]] && echo ran\n`,
    'e.PY': `print('ran')\n`,
  });
  expect(runs.map(({ script, output }) => [script, output])).toEqual(
    ['a', 'b', 'c', 'd', 'e'].map((name) => [`hourly/${name}`, 'ran\n']),
  );
});

test.for(['lib', 'src', 'Utils', 'vendor'])(
  'a folder of the name %s is no script, and a note says so',
  async (name) => {
    const root = makeTemporaryRoot({
      [`jobs/hourly/${name}/index.ts`]: 'export const one = 1;\n',
      'jobs/hourly/backup/index.ts': 'console.log(1);\n',
    });
    const { tiers, ignored } = await discover(root, defaultSettings);
    expect(tiers[0]?.scripts.map((script) => script.name)).toEqual(['hourly/backup']);
    expect(ignored.map(({ reason }) => reason)).toEqual([
      `a folder of code that scripts share, by its name; if it is a script, give it another name than ${name}`,
    ]);
  },
);
