import { rmSync } from 'node:fs';
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
