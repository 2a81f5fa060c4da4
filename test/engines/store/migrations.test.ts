import { expect, onTestFinished, test } from 'vitest';
import type { TableDefinition } from '../../../src/store/columns.ts';
import { openExistingStore, openStore } from '../../../src/store/open.ts';
import { FIRST_SCHEMA, SCHEMA_VERSION } from '../../../src/store/schema.ts';
import { tables } from '../../../src/store/tables.ts';
import { engine } from '../../support/engines/engines.ts';
import { changeLog, queryLog } from '../../support/log.ts';
import { makeTemporaryRoot } from '../../support/root.ts';
import { makeStateOf } from '../../support/store.ts';
import { writeLog } from '../../support/written-log.ts';

function setVersion(root: string, version: number): void {
  if (engine.name === 'sqlite') return void changeLog(root, `pragma user_version = ${version}`);
  changeLog(root, 'delete from schema_version');
  changeLog(root, `insert into schema_version (version) values (${version})`);
}

test('a log from before the first release is refused, and stays as it is', async () => {
  const root = makeTemporaryRoot();
  const log = await writeLog(root);
  await log.addRun('hourly/a', Date.UTC(2026, 10, 3, 14));
  await log.store.close();
  setVersion(root, FIRST_SCHEMA - 1);
  // A server's database is used again by other tests.
  onTestFinished(() => setVersion(root, SCHEMA_VERSION));
  for (const open of [openStore, openExistingStore]) {
    await expect(open(makeStateOf(root))).rejects.toMatchObject({
      kind: 'unreleased',
      message: expect.stringMatching(
        engine.name === 'sqlite'
          ? /activity\.db was made before the first release \(schema 3\)\. Move it away; then a new log is created\.$/
          : /were made before the first release \(schema 3\): name another database, or drop them\.$/,
      ),
    });
  }
  expect(queryLog(root, 'select id from runs')).toHaveLength(1);
});

// On a server each new log is made by the same steps, and its tables do not let go of columns that views read.
test.runIf(engine.name === 'sqlite')(
  'a log of the first schema gets the columns that were added since, and keeps its rows',
  async () => {
    const root = makeTemporaryRoot();
    const log = await writeLog(root);
    await log.addRun('hourly/a', Date.UTC(2026, 10, 3, 14));
    const [before] = await log.store.scriptJobs.ofTier('hourly');
    await log.store.close();
    for (const [name, { columns }] of Object.entries<TableDefinition>(tables)) {
      const added = Object.entries(columns).filter(([, { facts }]) => facts.since !== undefined);
      for (const [column] of added) changeLog(root, `alter table ${name} drop column ${column}`);
    }
    setVersion(root, FIRST_SCHEMA);
    const store = await openStore(makeStateOf(root));
    expect(await store.scriptJobs.ofTier('hourly')).toMatchObject([{ ...before, name: 'hourly/a' }]);
    await store.close();
    expect(await (await openExistingStore(makeStateOf(root)))?.scriptJobs.ofTier('hourly')).toHaveLength(1);
  },
);
