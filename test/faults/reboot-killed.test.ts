import { writeFileSync } from 'node:fs';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { expect } from 'vitest';
import {
  distinctPoints,
  endOrphans,
  kindOf,
  listFaultPoints,
  notesTime,
  readTold,
  runWithFault,
} from '../support/faults/faults.ts';
import { sample } from '../support/faults/rounds.ts';
import { changeLog, testOfSqlite } from '../support/log.ts';
import { makeTemporaryRoot } from '../support/root.ts';

/** A root whose machine was booted since its last pass. */
async function makeRoot(): Promise<string> {
  const root = makeTemporaryRoot({ 'jobs/hourly/other.sh': 'exit 0\n', 'jobs/daily/other.sh': 'exit 0\n' });
  endOrphans(root);
  await runWithFault(root, ['hourly']);
  for (const tier of ['hourly', 'daily']) {
    writeFileSync(join(root, 'jobs', tier, 'boot.sh'), `#!/bin/sh\n# @reboot\n${notesTime(`${tier}/boot`)}`);
  }
  changeLog(root, `update chores set name = 'boot ${hostname()} earlier' where name like 'boot %'`);
  return root;
}

// Points are those of SQLite's statements.
testOfSqlite(
  'wherever the first pass after a boot is killed, each begins once',
  async () => {
    const points = await listFaultPoints(await makeRoot(), ['hourly'], { uptimeS: 0 });
    const kinds = new Map(distinctPoints(points).map((point) => [kindOf(point), point]));
    expect(kinds.size).toBeGreaterThan(10);
    for (const at of sample([...kinds.values()].flatMap((point) => [`before ${point}`, `after ${point}`]))) {
      const root = await makeRoot();
      for (const fault of [{ at }, {}, {}]) await runWithFault(root, ['hourly'], { ...fault, uptimeS: 0 });
      expect([at, readTold(root)]).toEqual([at, ['daily/boot', 'hourly/boot']]);
    }
  },
  300_000,
);
