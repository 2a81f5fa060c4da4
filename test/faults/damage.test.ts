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
import { markSuspect } from '../../src/store/sqlite/file.ts';
import { stateFolderOf } from '../../src/system/place/state-folder.ts';
import { runner } from '../support/command.ts';
import { runWithFault } from '../support/faults/faults.ts';
import { checkInvariants, forget, nodeScript, readEvidence, shellScript } from '../support/faults/invariants.ts';
import { sampleCases } from '../support/faults/rounds.ts';
import { queryLog } from '../support/log.ts';
import { makeTemplate } from '../support/root.ts';

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

/** In which one pass has run. */
const makeRoot = makeTemplate(scripts, (root) => expect(runner(root, 'hourly')).toMatchObject({ status: 1 }));

function makeDamagedRoot(damage: Damage) {
  const root = makeRoot();
  const cure = damage(stateFolderOf(root).database);
  forget(root);
  return { root, cure };
}

test.each(sampleCases(Object.entries(isQuarantined)))('of the log is left: %s', async (_, damage) => {
  const { root } = makeDamagedRoot(damage);
  const said = await pass(root);
  expect(databases(root)).toEqual([expect.stringMatching(/^activity\.db\.broken-/)]);
  expect(said).toContain(databases(root)[0]);
  expect(await pass(root)).not.toContain('broken');
  expect(count(root)).toEqual(twice);
  checkInvariants(root);
});

test('of the log is left: nothing, which is no damage', async () => {
  const { root } = makeDamagedRoot((path) => {
    rmSync(path);
    return undefined;
  });
  for (const said of [await pass(root), await pass(root)]) expect(said).not.toContain('activity.db');
  expect(count(root)).toEqual(twice);
  checkInvariants(root);
});

test.each(sampleCases(Object.entries(isLeftAlone)))('instead of the log there is: %s', async (_, damage) => {
  const { root, cure } = makeDamagedRoot(damage);
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

/* A sound file that another program has changed. */

function makeChangedRoot(sql: string): string {
  const { root } = makeDamagedRoot((path) => {
    write(path, sql);
    return undefined;
  });
  return root;
}

/** Each script has run once in each of the passes; how it is recorded may depend on which log there was. */
const expectRuns = (root: string, passes: number): void =>
  expect(readEvidence(root).filter(({ exitCode }) => exitCode !== null)).toHaveLength(3 * passes);

const doctor = async (root: string): Promise<string> => (await runWithFault(root, ['doctor'])).stdout;

test.each([
  ['drop table runs', 'the table runs is missing'],
  ['drop table events', 'the table events is missing'],
  ['alter table workers rename column reason to why', 'the column workers.reason is missing'],
  ['drop table jobs; create view jobs as select 1 as id', 'jobs is a view, not the table it was'],
  ['drop table scripts; create table scripts (id integer, name text, x not null)', 'the column scripts.x is not'],
  ['pragma user_version = 0', 'the table runs is too early'],
])('rows are lost: %s', async (sql, reason) => {
  const root = makeChangedRoot(sql);
  if (!sql.startsWith('pragma')) expect(await doctor(root)).toContain(`another program has changed it: ${reason}`);
  expect(await pass(root)).toContain('perhaps another program has changed it');
  expectRuns(root, 1);
  expect(await pass(root)).toContain(reason);
  expectRuns(root, 2);
  expect(databases(root)).toHaveLength(1);
  forget(root);
  expect(await pass(root)).not.toContain('activity.db');
  checkInvariants(root, { isPruned: true });
});

test.each(['drop table pauses', 'drop table workers'])('what is due runs without asking: %s', async (sql) => {
  const root = makeChangedRoot(sql);
  expect((await runWithFault(root, ['due'])).stderr).toContain('perhaps another program has changed it');
  expectRuns(root, 1);
  expect((await runWithFault(root, ['status'])).stderr).toContain(`the ${sql.slice(5)} is missing`);
});

test.each(['drop index jobs_of_scripts', 'drop index runs_by_script; create index runs_by_script on runs (id)'])(
  'what holds no rows is made again: %s',
  async (sql) => {
    const root = makeChangedRoot(sql);
    expect(await doctor(root)).toContain('another program has changed it: the index');
    await pass(root);
    markSuspect(stateFolderOf(root));
    expect(await pass(root)).not.toContain('activity.db');
    expect(await doctor(root)).not.toContain('another program');
    expect(quarantined(root)).toEqual([]);
    expectRuns(root, 2);
    expect(count(root)).toEqual(twice.map((each) => ({ ...each, runs: 3 })));
    checkInvariants(root, { isPruned: true });
  },
);

/** At each place where a pass writes. */
const refusals = [
  ...['insert on workers', 'insert on jobs', 'update on jobs', 'insert on runs', 'update on workers'],
  ...['insert on hosts', 'insert on outputs', 'delete on runs'],
];

test.each(refusals)('a trigger of another program refuses each %s: scripts run, and it is named', async (refused) => {
  const root = makeChangedRoot(
    `delete from hosts; create trigger "it's mine" before ${refused} begin select raise(abort, 'no'); end`,
  );
  for (let passes = 0; passes < 2; passes += 1) await pass(root);
  expect(await doctor(root)).toContain(`sqlite3 .runner/activity.db 'drop trigger "it'\\''s mine"'`);
  write(stateFolderOf(root).database, 'drop trigger "it\'s mine"');
  await pass(root);
  expectRuns(root, 3);
  expect(quarantined(root)).toEqual([]);
  expect(count(root)).toEqual(twice.map((each) => ({ ...each, runs: 4 })));
});
