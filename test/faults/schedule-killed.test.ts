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
import { testOfSqlite } from '../support/log.ts';
import { makeTemporaryRoot } from '../support/root.ts';

const files = {
  'jobs/hourly/a.sh': `#!/bin/sh\n# @schedule daily at 02:30\n${notesTime('hourly/a')}`,
  'jobs/hourly/b.sh': `#!/bin/sh\n# @schedule daily at 03:00\n${notesTime('hourly/b')}`,
};

const ahead = (time: string) => ({ clockMs: Date.parse(`${time}Z`) - Date.now() });
const call = (root: string, time: string, at?: string) =>
  runWithFault(root, ['hourly'], { ...ahead(time), ...(at !== undefined && { at }) });

/** A root whose next pass finds the times of both. */
async function makeRoot(): Promise<string> {
  const root = makeTemporaryRoot(files);
  endOrphans(root);
  await call(root, '2026-11-23T02:13');
  return root;
}

// Points are those of SQLite's statements.
testOfSqlite(
  'wherever a pass is killed, each time begins once and none is lost',
  async () => {
    const points = await listFaultPoints(await makeRoot(), ['hourly'], ahead('2026-11-23T03:13'));
    const kinds = new Map(distinctPoints(points).map((point) => [kindOf(point), point]));
    const tried = [...kinds.values()];
    expect(tried.length).toBeGreaterThan(10);
    for (const at of sample(tried.flatMap((point) => [`before ${point}`, `after ${point}`]))) {
      const root = await makeRoot();
      await call(root, '2026-11-23T03:13', at);
      await call(root, '2026-11-23T04:13');
      await call(root, '2026-11-23T05:13');
      expect([at, readTold(root)]).toEqual([at, ['hourly/a', 'hourly/b']]);
    }
  },
  300_000,
);
