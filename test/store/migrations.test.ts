import { expect, test } from 'vitest';
import { SCHEMA_VERSION } from '../../src/store/sqlite/file.ts';
import { engine } from '../support/engines.ts';
import { changeLog, lieInLog, queryLog } from '../support/open-log.ts';
import { makeStateOf } from '../support/state-of.ts';
import { makeTemporaryRoot } from '../support/temporary-root.ts';
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
});

test('a log of schema 3 loses the tables that nothing uses any more', async () => {
  const root = makeTemporaryRoot();
  const log = await writeLog(root);
  changeLog(root, 'create table told_runs (run_id integer primary key, started_at integer not null)');
  changeLog(root, `insert into deliveries (kind, channel, body, created_at) values ('telemetry', 'otlp', '{}', 1)`);
  changeLog(root, `insert into deliveries (kind, channel, body, created_at) values ('ping', 'hourly', '{}', 1)`);
  setVersion(root, 3);
  await log.store.close();

  await reopen(root);
  expect(queryLog(root, 'select kind from deliveries')).toEqual([{ kind: 'ping' }]);
  expect(() => queryLog(root, 'select * from told_runs')).toThrow(/told_runs/);
  expect(SCHEMA_VERSION).toBe(4);
});
