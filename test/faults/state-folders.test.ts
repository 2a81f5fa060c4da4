import { execFileSync } from 'node:child_process';
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { fallbackStateFoldersOf } from '../../src/system/place/fallback.ts';
import { stateFolderOf } from '../../src/system/place/state-folder.ts';
import { runWithFault } from '../support/faults/faults.ts';
import { checkInvariants, nodeScript, shellScript } from '../support/faults/invariants.ts';
import { queryLog } from '../support/log.ts';
import { executable, makeTemporaryRoot } from '../support/root.ts';

/* Somebody has put a file in the place of a folder of `.runner/`, or takes such folders away. */

const scripts = { 'jobs/hourly/a.sh': shellScript(), 'jobs/hourly/b.mjs': nodeScript() };
const outcomes = (root: string) => queryLog(root, 'select script, outcome from runs order by script');
const succeeded = ['hourly/a', 'hourly/b'].map((script) => ({ script, outcome: 'succeeded' }));

test.each(['.runner', '.runner/spool', '.runner/locks'])(
  '%s is a file: scripts run, it is told of, and once it is gone all is in the log',
  async (name) => {
    const root = makeTemporaryRoot({ ...scripts, [name]: 'not a folder' });
    const place = join(root, name);
    onTestFinished(() => {
      for (const { path } of fallbackStateFoldersOf(root)) rmSync(path, { recursive: true, force: true });
    });
    const { status, stderr } = await runWithFault(root, ['hourly']);
    expect([status, stderr]).toEqual([
      0,
      `runner: ${root}/.runner/activity.db is not used: ${place} is a file, and a folder of that name is needed. Remove it.\n`,
    ]);
    expect((await runWithFault(root, ['status'])).status).toBe(0);
    rmSync(place);
    expect((await runWithFault(root, ['due'])).stderr).toBe('');
    expect(outcomes(root)).toEqual(succeeded);
    expect(fallbackStateFoldersOf(root).filter(({ path }) => existsSync(path))).toEqual([]);
    checkInvariants(root);
  },
);

test('a script takes the folders away that others need: they are made again', async () => {
  const removes = '#!/bin/sh\ncd "$RUNNER_ROOT/.runner" && rm -rf output tmp results locks spool\n';
  const root = makeTemporaryRoot({ ...scripts, 'jobs/hourly/0.sh': executable(removes) });
  expect(await runWithFault(root, ['hourly'])).toMatchObject({ status: 0, stderr: '' });
  expect(outcomes(root)).toEqual([{ script: 'hourly/0', outcome: 'succeeded' }, ...succeeded]);
  expect((await runWithFault(root, ['hourly'])).status).toBe(0);
  checkInvariants(root);
});

/* Whoever opens a named pipe waits for the other end, which nobody opens. */

test.each(['activity.db', 'activity.db-journal', 'activity.db-wal', 'reserve', 'activity.lock', 'activity.suspect'])(
  '%s is a named pipe: scripts run all the same, and nothing waits for it',
  async (name) => {
    const root = makeTemporaryRoot(scripts);
    const place = join(root, '.runner', name);
    if (name === 'activity.db') mkdirSync(join(root, '.runner'), { mode: 0o700 });
    else expect((await runWithFault(root, ['hourly'])).status).toBe(0);
    rmSync(place, { force: true });
    execFileSync('mkfifo', ['-m', '600', place]);
    const { status, stderr } = await runWithFault(root, ['hourly']);
    expect(status).toBe(0);
    const isOfLog = /^activity\.db(?:-journal|-wal)?$/.test(name);
    expect(stderr).toBe(
      isOfLog ? `runner: ${place} is a named pipe, a socket or a device; a file is needed there. Remove it.\n` : '',
    );
    for (const reads of ['status', 'report', 'doctor'])
      expect((await runWithFault(root, [reads])).status).not.toBeNull();
    rmSync(place, { force: true });
    expect(await runWithFault(root, ['hourly'])).toMatchObject({ status: 0, stderr: '' });
    checkInvariants(root);
  },
);

test('a script puts named pipes and links where its own files are looked for', async () => {
  const makes = `#!/bin/sh
cd "$RUNNER_ROOT/.runner" && mkfifo -m 600 results/$RUNNER_RUN.json output/$RUNNER_RUN.log.gz "$RUNNER_TMPDIR/pipe"
ln -s "$RUNNER_ROOT/theirs" output/\${RUNNER_RUN%.*}.2.log.gz
head -c 100000 /dev/zero | tr '\\0' x
`;
  const prints = executable("#!/bin/sh\nhead -c 100000 /dev/zero | tr '\\0' y\n");
  const files = { 'jobs/hourly/0.sh': executable(makes), 'jobs/hourly/1.sh': prints, theirs: 'untouched' };
  const root = makeTemporaryRoot({ ...scripts, ...files });
  expect(await runWithFault(root, ['hourly'])).toMatchObject({ status: 0, stderr: '' });
  const ofBoth = ['hourly/0', 'hourly/1'].map((script) => ({ script, outcome: 'succeeded' }));
  expect(outcomes(root)).toEqual([...ofBoth, ...succeeded]);
  expect(queryLog(root, 'select count(output_file) as kept from runs')).toEqual([{ kept: 2 }]);
  expect(readFileSync(join(root, 'theirs'), 'utf8')).toBe('untouched');
  for (const [at, kept] of readdirSync(stateFolderOf(root).output).entries()) {
    const path = join(stateFolderOf(root).output, kept);
    rmSync(path);
    if (at === 0) execFileSync('mkfifo', ['-m', '600', path]);
    else symlinkSync('/dev/zero', path);
    const { status, stdout } = await runWithFault(root, ['tail', `hourly/${at}`]);
    expect([status, stdout]).toEqual([0, expect.stringContaining(`${path} cannot be read`)]);
    rmSync(path);
  }
});

test('a result that cannot be written down changes nothing about how its script ends', async () => {
  const closes = "import { rmSync, writeFileSync } from 'node:fs';\n".concat(
    "rmSync('.runner/results', { recursive: true });\nwriteFileSync('.runner/results', '');\nprocess.exitCode = 3;\n",
  );
  const root = makeTemporaryRoot({ 'jobs/hourly/a.mjs': closes });
  expect((await runWithFault(root, ['hourly'])).status).toBe(1);
  expect(queryLog(root, 'select exit_code from runs')).toEqual([{ exit_code: 3 }]);
  expect((await runWithFault(root, ['tail', 'a'])).stdout).toBe('');
});

test("a holder's file without end, or that leads to one, is not read", async () => {
  const root = makeTemporaryRoot(scripts);
  const place = join(root, '.runner/locks/hourly.lock/1.json');
  for (const make of [() => symlinkSync('/dev/zero', place), () => writeSparse(place)]) {
    mkdirSync(dirname(place), { recursive: true });
    make();
    expect(await runWithFault(root, ['hourly'])).toMatchObject({ status: 0, stderr: '' });
  }
  checkInvariants(root);
});

/** Larger than Node can read at once. */
function writeSparse(path: string): void {
  writeFileSync(path, '');
  truncateSync(path, 2 ** 32);
}
