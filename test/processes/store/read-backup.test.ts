import { copyFileSync, existsSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { describe, expect, onTestFinished, test } from 'vitest';
import { backUp } from '../../../src/store/sqlite/create.ts';
import type { Driver } from '../../../src/store/sqlite/driver.ts';
import { openSqliteStore } from '../../../src/store/sqlite/open.ts';
import { type Restored, restoreLog } from '../../../src/store/sqlite/restore.ts';
import type { SqliteStore } from '../../../src/store/sqlite/store.ts';
import type { StateFolder } from '../../../src/system/place/state-folder.ts';
import { makeTemporaryRoot } from '../../support/root.ts';
import { drivers, makeStateOf } from '../../support/store.ts';

interface Place {
  readonly root: string;
  readonly state: StateFolder;
  readonly store: SqliteStore;
  readonly driver: Driver;
  readonly backup: string;
}

const FILL = `
  insert into hosts values (1, 'web3', null, '1', '1');
  insert into workers (kind, state, host_id, pid, started_at) values ('tier', 'finished', 1, 1, 1);
  insert into scripts values (1, 'hourly/a');
  insert into jobs (name) values ('mail');
  insert into runs (job_id, worker_id, script_id, attempt, outcome, started_at, finished_at, max_rss_bytes, output_file)
    values (1, 1, 1, 1, 'succeeded', 1, 2, 9007199254740993, '1.1.log.gz');
  insert into outputs values (1, 'out')`;

const token = (name: string, hash: string) =>
  `insert into tokens (name, hash, permission, created_at) values ('${name}', '${hash}', 'manage', 1);`;
const OF_THEN = `${token('revoked', 'h1')} insert into pauses (name, kind, until, created_at) values ('then', 'pause', null, 1);
  insert into mutes values ('then', null, 1);
  insert into deliveries (kind, channel, body, created_at) values ('alert', 'then', '{}', 1)`;
const OF_NOW = `delete from tokens; delete from pauses; delete from mutes; delete from deliveries;
  ${token('made', 'h2')} insert into pauses (name, kind, until, created_at) values ('now', 'pause', null, 1);
  insert into mutes values ('now', null, 1);
  insert into deliveries (kind, channel, body, created_at) values ('alert', 'now', '{}', 1)`;

/** A log that is in use, and a backup of it of another time. */
async function makePlace(driver: Driver): Promise<Place> {
  const root = makeTemporaryRoot();
  const state = makeStateOf(root);
  const store = await openSqliteStore(state, { driver });
  onTestFinished(() => store.close());
  store.connection.exec(`pragma synchronous = off; ${FILL}; ${OF_THEN}`);
  const backup = join(root, 'copy.db');
  await backUp(store, backup);
  store.connection.exec(OF_NOW);
  return { root, state, store, driver, backup };
}

const restore = ({ store, state, driver, backup }: Place): Promise<Restored> =>
  restoreLog(store, state, { backup, driver, nowMs: Date.now(), assertIdle: async () => {} });

const all = ({ store }: Place, sql: string) => store.connection.prepare(sql).all([]);
const namesOf = (place: Place, table: string) =>
  all(place, `select * from ${table}`).map((row) => Object.values(row as object));

/** As somebody does who knows SQLite well. */
function tamper({ backup }: Place, sql: string): void {
  const database = new Database(backup);
  database.unsafeMode();
  database.pragma('writable_schema = on');
  database.exec(sql);
  database.close();
}

const rewrite = (table: string, sql: string): string =>
  `update sqlite_schema set sql = '${sql}' where name = '${table}' and type = 'table'`;
const endless = 'with recursive n(i) as (select 1 union all select i + 1 from n) select i from n';

describe.each(drivers)('with %s', (_, driver) => {
  test('tokens, pauses, mutes and unsent messages stay as they are now', async () => {
    const place = await makePlace(driver);
    const { kept, leftOut } = await restore(place);
    expect(kept).toEqual(['1 token', '1 unsent message', '1 pause', '1 mute']);
    expect(leftOut).toEqual(['1 unsent message', '1 token', '1 pause', '1 mute']);
    expect(all(place, 'select name from tokens')).toEqual([{ name: 'made' }]);
    for (const table of ['pauses', 'mutes']) expect(all(place, `select name from ${table}`)).toEqual([{ name: 'now' }]);
    expect(all(place, 'select channel from deliveries')).toEqual([{ channel: 'now' }]);
    expect(all(place, 'select cast(max_rss_bytes as text) as bytes, output_file as file from runs')).toEqual([
      { bytes: '9007199254740993', file: '1.1.log.gz' },
    ]);
    expect(namesOf(place, 'outputs')).toEqual([[1, 'out']]);
  });

  test('a log that was never used takes the pauses and mutes, and no token', async () => {
    const { backup } = await makePlace(driver);
    const state = makeStateOf(makeTemporaryRoot());
    const store = await openSqliteStore(state, { driver });
    onTestFinished(() => store.close());
    const place = { root: '', state, store, driver, backup };
    expect(await restore(place)).toEqual({ replaced: null, kept: [], leftOut: ['1 unsent message', '1 token'] });
    for (const table of ['pauses', 'mutes'])
      expect(all(place, `select name from ${table}`)).toEqual([{ name: 'then' }]);
    for (const table of ['tokens', 'deliveries']) expect(namesOf(place, table)).toEqual([]);
  });

  test.each<[string, string, readonly string[]]>([
    ['a trigger', `create trigger evil after insert on jobs begin ${token('back', 'h3')} end`, ['the trigger evil']],
    ['a view that never ends', `create view endless as ${endless}`, ['the view endless']],
    ['a table', 'create table stuff (x); insert into stuff values (1)', ['the table stuff']],
    [
      'a column with an index of an expression',
      'alter table runs add column evil text; create index evil on runs (length(hex(zeroblob(4000))))',
      ['the column runs.evil', 'the index evil'],
    ],
    [
      'a condition that takes long',
      rewrite(
        'outputs',
        'CREATE TABLE outputs (run_id integer primary key, output text check (hex(zeroblob(900000000)) > 1))',
      ),
      [],
    ],
    [
      'a name that leads elsewhere',
      `update runs set output_file = '../../../.ssh/authorized_keys'`,
      ['1 name of output files that lead elsewhere'],
    ],
    [
      'text in place of a number',
      `update runs set worker_id = '../../x', claim_number = '1/..'`,
      ['2 values of another kind in runs'],
    ],
  ])('of what somebody else has put into a backup nothing is run or taken: %s', async (_what, sql, leftOut) => {
    const place = await makePlace(driver);
    tamper(place, sql);
    expect((await restore(place)).leftOut).toEqual(expect.arrayContaining([...leftOut]));
    expect(all(place, `select name from sqlite_schema where name in ('evil', 'endless', 'stuff')`)).toEqual([]);
    expect(all(place, 'select name from jobs')).toEqual([{ name: 'mail' }]);
    expect(all(place, 'select name from tokens')).toEqual([{ name: 'made' }]);
    place.store.connection.exec(`insert into jobs (name) values ('more'); delete from tokens`);
    expect(namesOf(place, 'tokens')).toEqual([]);
    expect(all(place, 'pragma integrity_check')).toEqual([{ integrity_check: 'ok' }]);
  });

  test.each<[string, string, RegExp]>([
    [
      'a view in place of a table',
      `alter table runs rename to other; create view runs as ${endless}`,
      /runs is not a tab/,
    ],
    ['a table that calls itself one and is a view', rewrite('outputs', `CREATE VIEW outputs as ${endless}`), /./],
    [
      'a virtual table',
      'drop table outputs; create virtual table outputs using fts5(run_id, output)',
      /outputs is not a table in it/,
    ],
    [
      'a computed column',
      'drop table outputs; create table outputs (run_id integer primary key, output text as (hex(zeroblob(900000000))))',
      /the column outputs\.output is missing or computed/,
    ],
    ['further statements', rewrite('outputs', `CREATE TABLE outputs (x); attach ''evil.db'' as evil`), /./],
    ['a table that is missing', 'drop table outputs', /is incomplete: the table outputs is missing/],
    ['a job that no log takes', `pragma ignore_check_constraints = on; update jobs set data = 'no json'`, /./],
  ])('a backup is refused that holds %s', async (_what, sql, reason) => {
    const place = await makePlace(driver);
    const before = namesOf(place, 'pauses');
    tamper(place, sql);
    await expect(restore(place)).rejects.toThrow(reason);
    await expect(restore(place)).rejects.toThrow(/The log was not changed; name another backup\.$/);
    expect(namesOf(place, 'pauses')).toEqual(before);
    expect(existsSync('evil.db')).toBe(false);
    expect(readdirSync(place.state.path).filter((name) => name.startsWith('activity.restore'))).toEqual([]);
  });

  test('a journal beside it, by which SQLite could delete a file, is not used', async () => {
    const place = await makePlace(driver);
    copyFileSync(place.backup, `${place.backup}-journal`);
    await expect(restore(place)).rejects.toThrow(/was copied in the middle of a write/);
    writeFileSync(`${place.backup}-journal`, '');
    await restore(place);
  });
});
