import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { SCHEMA_VERSION } from '../../src/store/schema.ts';
import { stateFolderOf } from '../../src/system/place/state-folder.ts';
import { holdLog, runWithFault, startWithFault } from '../support/faults/faults.ts';
import { checkInvariants, forget, nodeScript, shellScript } from '../support/faults/invariants.ts';
import { queryLog } from '../support/log.ts';
import { executable, makeTemporaryRoot } from '../support/root.ts';
import { makeOldLog, makeStateOf } from '../support/store.ts';
import { until } from '../support/until.ts';

/*
 * Whole passes while something is wrong with the log: every script runs, and in the end the log knows each
 * run once. Of what is done with the file itself tells damage.test.ts.
 */

const scripts = {
  'jobs/hourly/a.sh': shellScript(),
  'jobs/hourly/b.mjs': nodeScript({ exit: '3' }),
  'jobs/hourly/c.sh': shellScript({ tags: ['@retries 1', '@retry-delay 1ms'] }),
};

const runs = (root: string) =>
  queryLog(root, 'select script, count(*) as runs, count(spool_id) as spooled from runs group by script');
const counted = (all: number, spooled: number) =>
  ['a', 'b', 'c'].map((name) => ({ script: `hourly/${name}`, runs: all, spooled }));

/** `b` fails, and nothing worse happens. */
async function pass(root: string): Promise<string> {
  const { status, stderr } = await runWithFault(root, ['hourly']);
  expect(status, stderr).toBe(1);
  return stderr;
}

describe('a log that another program keeps locked', () => {
  /** What waits 15 s waits 1.5 s. */
  const PACE = 10;
  const HELD_MS = 600_000;
  const locked = /activity\.db stays locked by another program/;

  test('is waited for, 15 s, then the runs go to the spool; who reads waits for nobody', async () => {
    const root = makeTemporaryRoot(scripts);
    await pass(root);
    const holder = await holdLog(root, HELD_MS);
    const startMs = performance.now();
    const { status, stderr } = await runWithFault(root, ['hourly'], { pace: PACE });
    expect(performance.now() - startMs).toBeGreaterThan(15_000 / PACE);
    expect([status, stderr]).toEqual([1, expect.stringMatching(locked)]);
    expect(readdirSync(stateFolderOf(root).spool)).toHaveLength(1);
    const report = await runWithFault(root, ['report', '--json'], { pace: PACE });
    expect([report.status, JSON.parse(report.stdout).totals.runs]).toEqual([0, 3]);
    holder.kill('SIGKILL');
    await holder.ended;
    await pass(root);
    expect(runs(root)).toEqual(counted(3, 1));
    checkInvariants(root);
  });

  test('and only for a while, is used as if nothing had been', async () => {
    const root = makeTemporaryRoot(scripts);
    await pass(root);
    const holder = await holdLog(root, HELD_MS);
    const running = startWithFault(root, ['hourly'], {});
    // Nothing of it is seen while it waits, but that it has come to where it waits.
    await until('it has the lock of its tier', () => existsSync(join(stateFolderOf(root).locks, 'hourly.lock')));
    holder.kill('SIGKILL');
    expect((await running.ended).stderr).not.toMatch(locked);
    expect(runs(root)).toEqual(counted(2, 0));
    checkInvariants(root);
  });

  test('in the midst of a pass: what it has begun, and the rest, are recorded once', async () => {
    const waits = '#!/bin/sh\ntouch started; while [ ! -e go ]; do sleep 0.02; done\n';
    const root = makeTemporaryRoot({ ...scripts, 'jobs/hourly/0.sh': executable(waits) });
    const running = startWithFault(root, ['hourly'], { pace: 3 * PACE });
    await until('a script runs', () => existsSync(join(root, 'started')));
    const holder = await holdLog(root, HELD_MS);
    writeFileSync(join(root, 'go'), '');
    const { status, stderr } = await running.ended;
    expect([status, stderr]).toEqual([1, expect.stringMatching(locked)]);
    holder.kill('SIGKILL');
    await holder.ended;
    await runWithFault(root, ['work']);
    expect(runs(root)).toEqual([{ script: 'hourly/0', runs: 1, spooled: 1 }, ...counted(1, 1)]);
    checkInvariants(root);
  });
});

describe('a journal that was left behind', () => {
  async function killMidway(): Promise<string> {
    const root = makeTemporaryRoot(scripts);
    const { status } = await runWithFault(root, ['hourly'], { at: 'after sql insert runs#1' });
    expect([status, existsSync(`${stateFolderOf(root).database}-wal`)]).toEqual([null, true]);
    return root;
  }

  test.each(['', '-shm'])('without its log, or without what stands beside it: %j', async (suffix) => {
    const root = await killMidway();
    rmSync(stateFolderOf(root).database + suffix);
    if (suffix === '') forget(root);
    await pass(root);
    await pass(root);
    checkInvariants(root);
  });
});

test.each(['before sql commit#1', 'before sql pragma user_version#1'])(
  'a change of the tables that was interrupted %s is made by the next pass',
  async (at) => {
    const root = makeTemporaryRoot(scripts);
    makeOldLog(makeStateOf(root));
    expect((await runWithFault(root, ['hourly'], { at })).status).toBeNull();
    expect(queryLog(root, 'pragma user_version')).toEqual([{ user_version: 0 }]);
    await pass(root);
    expect(queryLog(root, 'pragma user_version')).toEqual([{ user_version: SCHEMA_VERSION }]);
    expect(runs(root)).toEqual(counted(1, 0));
    checkInvariants(root);
  },
);

const PAGE_BYTES = 4096;

/** Rubbish instead of the page with which a table begins: the file opens without complaint. */
function spoil(root: string, table: string): void {
  const { database } = stateFolderOf(root);
  const sql = 'select rootpage from sqlite_schema where name = ?';
  const [{ rootpage }] = queryLog<{ rootpage: number }>(root, sql, table) as [{ rootpage: number }];
  const start = (rootpage - 1) * PAGE_BYTES;
  writeFileSync(database, readFileSync(database).fill(0xff, start, start + PAGE_BYTES));
}

test.each(['jobs', 'workers'])(
  'pages that were damaged among %s: the spool, then the log is quarantined, and no run is lost',
  async (table) => {
    const root = makeTemporaryRoot(scripts);
    await pass(root);
    spoil(root, table);
    forget(root);
    expect(await pass(root)).toMatch(/activity\.db seems to be damaged/);
    expect(await pass(root)).toContain('activity.db.broken-');
    expect(runs(root)).toEqual(counted(2, 1));
    checkInvariants(root);
  },
);
