import {
  copyFileSync,
  mkdirSync,
  readdirSync,
  renameSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import Database from 'better-sqlite3';
import { expect, test } from 'vitest';
import { stateFolderOf } from '../../src/system/place/state-folder.ts';
import { runWithFault } from '../support/fault-points.ts';
import { checkInvariants } from '../support/invariants.ts';
import { forget, nodeScript, shellScript } from '../support/invariants-evidence.ts';
import { queryLog } from '../support/open-log.ts';
import { makeTemporaryRoot } from '../support/temporary-root.ts';

/*
 * Whole passes on a log that something has happened to: scripts run all the same, one sentence tells
 * of it, and what they did is in the log in the end, once.
 */

const scripts = {
  'jobs/hourly/a.sh': shellScript(),
  'jobs/hourly/b.mjs': nodeScript({ exit: '3' }),
  'jobs/hourly/c.sh': shellScript({ tags: ['@on-crash retry', '@retry-delay 1ms'] }),
};

/** @param path the log's; what it answers ends the damage, as its owner would */
type Damage = (path: string) => (() => void) | undefined;

function write(path: string, sql: string): void {
  const database = new Database(path);
  database.exec(sql);
  database.close();
}

const isQuarantined: Readonly<Record<string, Damage>> = {
  'text in its place': (path) => {
    writeFileSync(path, 'Dear diary, today nothing happened. '.repeat(1000));
    return undefined;
  },
  'only its first half': (path) => {
    truncateSync(path, Math.floor(statSync(path).size / 2));
    return undefined;
  },
  'only its first bytes': (path) => {
    truncateSync(path, 50);
    return undefined;
  },
  'a file without a byte': (path) => {
    truncateSync(path, 0);
    return undefined;
  },
};

const isLeftAlone: Readonly<Record<string, Damage>> = {
  'one of a newer runner': (path) => {
    const before = `${path}.before`;
    copyFileSync(path, before);
    write(path, 'pragma user_version = 99');
    return () => renameSync(before, path);
  },
  'one of another program': (path) => {
    rmSync(path);
    write(path, 'create table theirs (id integer)');
    return () => rmSync(path);
  },
  'a folder in its place': (path) => {
    rmSync(path);
    mkdirSync(path);
    return () => rmSync(path, { recursive: true });
  },
};

const quarantined = (root: string): string[] =>
  readdirSync(stateFolderOf(root).path).filter((name) => name.includes('.broken-'));

/** Without what stood beside it, and goes with it. */
const databases = (root: string): string[] => quarantined(root).filter((name) => !/-(wal|shm|journal)$/.test(name));

/** What the first pass has left in a log that came back. */
const keptRuns = 'select count(*) - 6 as kept from runs';

const count = (root: string): unknown =>
  queryLog(root, 'select script, count(*) as runs from runs group by script order by script');
const twice = ['a', 'b', 'c'].map((name) => ({ script: `hourly/${name}`, runs: 2 }));

async function pass(root: string): Promise<string> {
  const { status, stderr } = await runWithFault(root, ['hourly']);
  expect(status, stderr).toBe(1);
  return stderr;
}

async function makeDamagedRoot(damage: Damage) {
  const root = makeTemporaryRoot(scripts);
  await pass(root);
  const cure = damage(stateFolderOf(root).database);
  forget(root);
  return { root, cure };
}

test.each(Object.entries(isQuarantined))('of the log is left: %s', async (_, damage) => {
  const { root } = await makeDamagedRoot(damage);
  const said = await pass(root);
  expect(databases(root)).toEqual([expect.stringMatching(/^activity\.db\.broken-/)]);
  expect(said).toContain(databases(root)[0]);
  expect(await pass(root)).not.toContain('broken');
  expect(count(root)).toEqual(twice);
  checkInvariants(root);
});

test('of the log is left: nothing, which is no damage', async () => {
  const { root } = await makeDamagedRoot((path) => {
    rmSync(path);
    return undefined;
  });
  for (const said of [await pass(root), await pass(root)]) expect(said).not.toContain('activity.db');
  expect(count(root)).toEqual(twice);
  checkInvariants(root);
});

test.each(Object.entries(isLeftAlone))('instead of the log there is: %s', async (_, damage) => {
  const { root, cure } = await makeDamagedRoot(damage);
  const said = await pass(root);
  expect(said.split('\n')[0]).toMatch(/^runner: .*activity\.db/);
  expect(readdirSync(stateFolderOf(root).spool)).toEqual([expect.stringMatching(/\.jsonl$/)]);
  cure?.();
  await pass(root);
  const since = 'select count(*) as runs, count(distinct spool_id) as spooled from runs where id > ?';
  const [{ kept }] = queryLog<{ kept: number }>(root, keptRuns) as [{ kept: number }];
  expect(queryLog(root, since, kept)).toEqual([{ runs: 6, spooled: 3 }]);
  expect(quarantined(root)).toEqual([]);
  checkInvariants(root, { isPruned: kept > 0 });
});
