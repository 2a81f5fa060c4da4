import { execFileSync } from 'node:child_process';
import { mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { fallbackStateFolderOf } from '../../src/system/place/fallback.ts';
import { runWithFault } from '../support/fault-points.ts';
import { checkInvariants } from '../support/invariants.ts';
import { nodeScript, shellScript } from '../support/invariants-evidence.ts';
import { queryLog } from '../support/open-log.ts';
import { executable, makeTemporaryRoot } from '../support/temporary-root.ts';

/* Somebody has put a file in the place of a folder of `.runner/`, or takes such folders away. */

const scripts = { 'jobs/hourly/a.sh': shellScript(), 'jobs/hourly/b.mjs': nodeScript() };
const outcomes = (root: string) => queryLog(root, 'select script, outcome from runs order by script');
const succeeded = ['hourly/a', 'hourly/b'].map((script) => ({ script, outcome: 'succeeded' }));

test.each(['.runner', '.runner/spool', '.runner/locks'])(
  '%s is a file: scripts run, it is told of, and once it is gone all is in the log',
  async (name) => {
    const root = makeTemporaryRoot({ ...scripts, [name]: 'not a folder' });
    const place = join(root, name);
    onTestFinished(() => rmSync(fallbackStateFolderOf(root).path, { recursive: true, force: true }));
    const { status, stderr } = await runWithFault(root, ['hourly']);
    expect([status, stderr]).toEqual([
      0,
      `runner: ${root}/.runner/activity.db is not used: ${place} is a file, and a folder of that name is needed. Remove it.\n`,
    ]);
    expect((await runWithFault(root, ['status'])).status).toBe(0);
    rmSync(place);
    expect((await runWithFault(root, ['due'])).stderr).toBe('');
    expect(outcomes(root)).toEqual(succeeded);
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

test('a script puts named pipes where its own files are looked for', async () => {
  const makes = '#!/bin/sh\nmkfifo -m 600 "$RUNNER_ROOT/.runner/results/$(basename "$TMPDIR").json" "$TMPDIR/pipe"\n';
  const root = makeTemporaryRoot({ ...scripts, 'jobs/hourly/0.sh': executable(makes) });
  expect(await runWithFault(root, ['hourly'])).toMatchObject({ status: 0, stderr: '' });
  expect(outcomes(root)).toEqual([{ script: 'hourly/0', outcome: 'succeeded' }, ...succeeded]);
  checkInvariants(root);
});
