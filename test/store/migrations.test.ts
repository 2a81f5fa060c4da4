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
  lieInLog(root, `alter table runs drop column suspect${engine.name === 'postgres' ? ' cascade' : ''}`);
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
  expect(SCHEMA_VERSION).toBe(2);
});
