import { cpSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { expect, test } from 'vitest';
import { diagnose, usual } from '../../processes/doctor/doctor-place.ts';
import { commandPath, runCommand } from '../../support/command.ts';
import { makeFakeCrontab, makeTemporaryRoot } from '../../support/root.ts';

/** A root that has run once, and a Node that was built without SQLite. */
function makeUsedRoot() {
  const root = makeTemporaryRoot(usual);
  const { env } = makeFakeCrontab();
  runCommand(['hourly'], { cwd: root, env });
  return { root, env: { ...env, NODE_OPTIONS: '--no-experimental-sqlite' } };
}

test('where Node has no SQLite, locks and log are tried with better-sqlite3', () => {
  const { root, env } = makeUsedRoot();
  const found = diagnose(root, env);
  expect(found.of('sqlite')).toEqual([{ status: 'ok', found: 'better-sqlite3', cure: null }]);
  expect(found.of('locks')).toMatchObject([{ status: 'ok' }]);
  expect(found.of('log')).toMatchObject([{ status: 'ok', found: expect.stringMatching(/^sound/) }]);
});

test('where there is no SQLite at all, that is the one problem, and its cure the only one', () => {
  const { root, env } = makeUsedRoot();
  const copy = makeTemporaryRoot();
  cpSync(dirname(commandPath), join(copy, 'dist'), { recursive: true });
  const found = diagnose(root, env, join(copy, 'dist/bin.cjs'));
  expect(found.of('sqlite')).toEqual([
    {
      status: 'problem',
      found: expect.stringMatching(
        /^neither better-sqlite3 nor node:sqlite can be loaded, so passes run without a log: better-sqlite3: Cannot find module \S+; Node \S+ has no node:sqlite$/,
      ),
      cure: expect.stringMatching(/^Install the package again for this Node .*, or use a Node/),
    },
  ]);
  expect(found.of('locks')).toEqual([
    {
      status: 'warning',
      found: 'could not be tried: SQLite cannot be loaded',
      cure: expect.stringMatching(/^See what sqlite/),
    },
  ]);
  expect(found.of('log')).toEqual([
    { status: 'warning', found: 'could not be read: SQLite cannot be loaded', cure: 'See what sqlite says.' },
  ]);
  for (const name of ['calls', 'clock', 'leftovers', 'pauses']) {
    expect(found.of(name, 'warning'), name).toEqual([]);
  }
});
