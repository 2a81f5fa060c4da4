import { expect, test } from 'vitest';
import { startLog } from '../../src/store/sqlite/create.ts';
import { findDriver } from '../../src/store/sqlite/driver.ts';
import { SCHEMA_VERSION } from '../../src/store/sqlite/file.ts';
import { makeTables } from '../../src/store/sqlite/migrations.ts';
import { engine } from '../support/engines.ts';
import { changeLog, lieInLog, queryLog } from '../support/open-log.ts';
import { makeStateOf } from '../support/state-of.ts';
import { makeTemporaryRoot } from '../support/temporary-root.ts';
import { testOfSqlite } from '../support/test-of.ts';
import { writeLog } from '../support/written-log.ts';

const AT = Date.UTC(2026, 10, 3, 14);

function setVersion(root: string, version: number): void {
  if (engine.name === 'sqlite') return void changeLog(root, `pragma user_version = ${version}`);
  changeLog(root, 'delete from schema_version');
  changeLog(root, `insert into schema_version (version) values (${version})`);
}

function dropColumn(root: string, table: string, column: string): void {
  lieInLog(root, `alter table ${table} drop column ${column}${engine.name === 'postgres' ? ' cascade' : ''}`);
}

async function reopen(root: string): Promise<void> {
  await (await engine.openStore(makeStateOf(root))).close();
}

test('a log of schema 1 learns which of its runs are suspect, from the words of that time', async () => {
  const root = makeTemporaryRoot();
  const log = await writeLog(root);
  const words = 'exit code 0, but its output tells of a failure: sh: 1: no-such-dump: not found';
  const suspect = await log.addRun('hourly/a', AT, { warning: words });
  const failed = await log.addRun('hourly/a', AT + 1_000, { outcome: 'failed', warning: words });
  const other = await log.addRun('hourly/a', AT + 2_000, { warning: `used 2 GB; ${words}` });
  // Connections of earlier tests, which had the same tables, still have views upon them. None is given them after this.
  dropColumn(root, 'runs', 'suspect');
  dropColumn(root, 'incidents', 'ending');
  setVersion(root, 1);
  await log.store.close();

  await reopen(root);
  const marks = () => queryLog(root, 'select id, suspect from runs order by id');
  const expected = [
    { id: suspect, suspect: 1 },
    { id: failed, suspect: 0 },
    { id: other, suspect: 0 },
  ];
  expect(marks()).toEqual(expected);
  // What broke off before it had written down the version is done again.
  if (engine.name === 'mysql') setVersion(root, 1);
  await reopen(root);
  expect(marks()).toEqual(expected);
});

test('a log of schema 2 learns how its incidents ended, from the words of that time', async () => {
  const root = makeTemporaryRoot();
  const log = await writeLog(root);
  dropColumn(root, 'incidents', 'ending');
  const hints = ['closed by hand', 'gone: it is disabled', 'gone: fishing', 'Run it by hand.'];
  for (const [index, hint] of hints.entries()) {
    changeLog(
      root,
      `insert into incidents (subject, code, severity, opened_at, last_at, recovered_at, hint)
       values ('hourly/${index}', '${index === 1 ? 'script-warning' : 'script-failing'}', 'warning', 1, 1, ${index === 2 ? 'null' : 2}, '${hint}')`,
    );
  }
  setVersion(root, 2);
  await log.store.close();

  await reopen(root);
  expect(queryLog(root, 'select code, ending, hint from incidents order by id')).toEqual([
    { code: 'script-failing', ending: 'closed', hint: null },
    { code: 'script-suspect', ending: 'gone', hint: 'it is disabled' },
    { code: 'script-failing', ending: null, hint: 'gone: fishing' },
    { code: 'script-failing', ending: null, hint: 'Run it by hand.' },
  ]);
  expect(SCHEMA_VERSION).toBe(4);
});

// The table of jobs is made anew in SQLite alone.
testOfSqlite(
  'a log of schema 3 keeps its jobs with their runs, and gives no number of a deleted job again',
  async () => {
    const root = makeTemporaryRoot();
    const { database } = makeStateOf(root);
    const { driver } = await findDriver();
    startLog(database, driver);
    const old = driver.open(database, { timeoutMs: 0 });
    makeTables(old, 3);
    old.exec(`insert into scripts (name) values ('queue/a');
    insert into jobs (name, data, unique_key) values ('a', '{"to":1}', 'x'), ('b', '{}', null), ('newest', '{}', null);
    insert into runs (job_id, script_id, attempt, outcome, started_at) values (1, 1, 1, 'failed', ${AT});
    delete from jobs where id = 3;
    create view of_another_program as select id from jobs`);
    const kept = 'select id, name, data, priority, run_at, created_at, ready, unique_key from jobs order by id';
    const before = old.prepare(kept).all([]);
    old.close();

    await reopen(root);
    expect(queryLog(root, kept)).toEqual(before);
    expect(queryLog(root, 'select job_id, outcome from runs')).toEqual([{ job_id: 1, outcome: 'failed' }]);
    expect(queryLog(root, 'select id from of_another_program where id < 3')).toEqual([{ id: 1 }, { id: 2 }]);
    changeLog(root, `insert into jobs (name) values ('next')`);
    expect(queryLog(root, `select id from jobs where name = 'next'`)).toEqual([{ id: 4 }]);
    changeLog(root, 'delete from jobs where id = 1');
    expect(queryLog(root, 'select job_id from runs')).toEqual([]);
  },
);
