import Database from 'better-sqlite3';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type MoveReport, moveLog } from '../../src/store/move/move-log.ts';
import { type NamedPlace, openSource, openTarget, reopen } from '../../src/store/move/places.ts';
import { type DatabaseTarget, parseDatabaseUrl } from '../../src/store/server/connect/url.ts';
import { openServerStore } from '../../src/store/server/open.ts';
import { openSqliteStore } from '../../src/store/sqlite/open.ts';
import { nextNumber } from '../../src/store/statements/job-rows.ts';
import type { Store } from '../../src/store/store.ts';
import { stateFolderOf } from '../../src/system/place/state-folder.ts';
import { type OwnServer, ownServersFor } from '../support/engines/own-server.ts';
import { dumpLog, writeHostileLog } from '../support/foreign.ts';
import { makeTemporaryRoot } from '../support/root.ts';

// Each writes and compares some thousand rows: on a busy machine that takes minutes.
describe.each(ownServersFor('moving a log'))('$name', { timeout: 240_000 }, ({ engine, start }) => {
  let server: OwnServer;
  let places = 0;

  beforeAll(async () => {
    server = await start();
  }, 120_000);

  afterAll(() => server?.stop());

  /** A schema, or a database, whose tables are `<schema>.jobs` in either. */
  async function makePlace(): Promise<DatabaseTarget & { readonly own: string }> {
    places += 1;
    const own = `place_${places}`;
    if (engine === 'mysql') await server.ask(`create database ${own}`);
    const url = engine === 'mysql' ? server.url('', own) : server.url(`?schema=${own}`);
    return { ...parseDatabaseUrl(url, 'It', '/'), own };
  }

  async function move(root: string, from: NamedPlace, to: NamedPlace, options = {}): Promise<MoveReport> {
    const state = stateFolderOf(root);
    const source = await openSource(from, state);
    const target = await openTarget(to, state);
    try {
      const usual = { isDryRun: false, waitMs: 0, now: Date.now, onProgress: () => {} };
      return await moveLog({ source, target, ...usual, ...options });
    } finally {
      await Promise.all([source.close(), target.close()]);
    }
  }

  /** Before the end all is copied and compared, and the old log is closed; the new one is not used yet. */
  async function moveUntilKilled(
    root: string,
    from: NamedPlace,
    to: NamedPlace,
    at: 'end' | 'work was looked for' = 'end',
  ): Promise<void> {
    const state = stateFolderOf(root);
    const source = await openSource(from, state);
    const target = await openTarget(to, state);
    const killed = (): never => {
      throw new Error('killed');
    };
    const usual = { isDryRun: false, waitMs: 0, now: Date.now, onProgress: () => {} };
    const dies = at === 'end' ? {} : { shut: killed };
    const ends = { source: { ...source, ...dies, thaw: async () => {} }, target: { ...target, finish: killed } };
    await expect(moveLog({ ...ends, ...usual })).rejects.toThrow('killed');
    await Promise.all([source.close(), target.close()]);
  }

  function change(root: string, sql: string): void {
    const database = new Database(stateFolderOf(root).database, { timeout: 5_000 });
    try {
      database.exec(sql);
    } finally {
      database.close();
    }
  }

  /** As the server does with those that rest. */
  async function endConnections({ own }: { readonly own: string }): Promise<void> {
    if (engine === 'postgres') {
      const others = `pg_stat_activity where pid <> pg_backend_pid() and application_name = 'folder-runner'`;
      await server.ask(`select pg_terminate_backend(pid, 5000) from ${others}`);
      return;
    }
    const rows = (await server.ask('show processlist')) as readonly {
      readonly Id: number;
      readonly db: string | null;
    }[];
    for (const { Id } of rows.filter(({ db }) => db === own)) await server.ask(`kill ${Id}`);
  }

  async function makeHostileRoot(options = {}): Promise<{ readonly root: string; readonly database: string }> {
    const root = makeTemporaryRoot();
    await writeHostileLog(root, options);
    return { root, database: stateFolderOf(root).database };
  }

  test('there and back again, every table is as it was, byte for byte', async () => {
    const { root, database } = await makeHostileRoot();
    const before = dumpLog(database);
    const place = await makePlace();
    const there = await move(root, 'sqlite', place);
    const back = await move(root, place, 'sqlite');
    expect(dumpLog(database)).toEqual(before);
    expect(back.tables).toEqual(there.tables);
    expect(there.tables.every(({ rows }) => rows > 0)).toBe(true);
    expect(there.notes).toEqual([]);
  });

  test('the number of a job or worker that is gone is given to no other', async () => {
    const { root } = await makeHostileRoot();
    const place = await makePlace();
    await move(root, 'sqlite', place);
    const [, ...added] = await server
      .ask(
        `insert into ${place.own}.jobs (name, state, ready) values ('new', 'finished', null)`,
        `select max(id) as id from ${place.own}.jobs`,
      )
      .then((rows) => [null, ...rows.map((row) => Number((row as { id: unknown }).id))]);
    expect(added).toEqual([61]);
    await server.ask(`delete from ${place.own}.jobs where id = 61`);
    await move(root, place, 'sqlite');
    change(
      root,
      `insert into jobs (id, name) values (${nextNumber}, 'newer'); insert into workers (kind, state, host_id, pid, started_at)
      values ('tier', 'finished', 1, 1, 1)`,
    );
    expect(dumpLog(stateFolderOf(root).database)).toMatchObject({
      jobs: expect.arrayContaining([expect.stringMatching(/^bigint 62\|string newer/)]),
      workers: expect.arrayContaining([expect.stringMatching(/^bigint 61\|string tier\|/)]),
    });
  });

  test('what an engine cannot hold is told', async () => {
    const { root, database } = await makeHostileRoot({ isBroken: true });
    const place = await makePlace();
    const { notes } = await move(root, 'sqlite', place);
    const nul = /^2 texts contained the character NUL, which .* cannot store: replaced by U\+FFFD\.$/;
    expect(notes).toEqual([
      ...(engine === 'postgres' ? [expect.stringMatching(nul)] : []),
      '1 figure was not a whole number: rounded.',
      '1 text was stored as bytes: it is text now.',
    ]);
    expect((await move(root, place, 'sqlite')).notes).toEqual([]);
    const { runs } = dumpLog(database);
    expect(JSON.stringify(runs)).toContain(engine === 'postgres' ? 'string a\ufffdb' : 'string a\\u0000b');
  });

  test('once moved, the file is closed to runners and to plain SQL, and can be opened again', async () => {
    const { root } = await makeHostileRoot();
    const state = stateFolderOf(root);
    const openBefore = await openSqliteStore(state);
    await move(root, 'sqlite', await makePlace());
    const add = `insert into jobs (name) values ('late')`;
    expect(() => openBefore.connection.exec(add)).toThrow('this log was moved to the database ');
    await openBefore.close();
    expect(() => change(root, add)).toThrow(', and takes no more here');
    await expect(openSqliteStore(state)).rejects.toThrow(
      /activity\.db was moved to the database .* on localhost:\d+: set RUNNER_DATABASE_URL here/,
    );
    expect(await reopen('sqlite', state)).toBe(true);
    change(root, add);
    await (await openSqliteStore(state)).close();
    expect(await reopen('sqlite', state)).toBe(false);
  });

  test('once moved back, nobody uses the database, whoever had it open; it can be opened again', async () => {
    const { root } = await makeHostileRoot();
    const place = await makePlace();
    await move(root, 'sqlite', place);
    const [connected, idle] = [await openServerStore(place), await openServerStore(place)];
    const add = (store: Store) => store.transaction(({ events }) => events.record([{ at: 1, event: 'paused' }]));
    for (const store of [connected, idle]) await add(store);
    await move(root, place, 'sqlite');
    const isMoved = /^The log was moved away from the database/;
    await expect(openServerStore(place)).rejects.toThrow(isMoved);
    // The others have no triggers for who may do no more than a runner needs.
    if (engine === 'postgres') await expect(add(connected)).rejects.toThrow(isMoved);
    await endConnections(place);
    await expect(add(idle)).rejects.toThrow(isMoved);
    expect(await reopen(place, stateFolderOf(root))).toBe(true);
    for (const store of [connected, idle]) await add(store);
    for (const store of [connected, idle]) await store.close();
    await (await openServerStore(place)).close();
  });

  test('what changes while it is copied is there in the end', async () => {
    const { root, database } = await makeHostileRoot();
    const place = await makePlace();
    const changes = [
      `update jobs set name = 'changed' where id = 3`,
      `insert into jobs (id, name, state, ready, finished_at) values (${nextNumber}, 'added', 'finished', null, 5)`,
      `insert into runs (id, job_id, script_id, attempt, outcome, started_at) values (900, 61, 1, 1, 'succeeded', 1);
       insert into outputs values (900, 'of a run that came later')`,
      'delete from jobs where id = 7; delete from events; delete from tellings where rowid > 30',
      `delete from outputs where run_id between 50 and 60; update metrics set added = 77 where script_id = 9`,
      `update jobs set unique_key = 'x' where id = 9; update jobs set unique_key = null where id = 10`,
    ];
    const onProgress = ({ phase }: { phase: string }) => {
      const next = phase === 'copy' ? changes.shift() : undefined;
      if (next !== undefined) change(root, `pragma foreign_keys = on; ${next}`);
    };
    await move(root, 'sqlite', place, { onProgress });
    expect(changes).toEqual([]);
    const moved = dumpLog(database);
    await move(root, place, 'sqlite');
    expect(dumpLog(database)).toEqual(moved);
    expect(JSON.stringify(moved.outputs)).toContain('of a run that came later');
  });

  test('a call that broke off leaves a log that nobody uses, and the next one goes on', async () => {
    const { root, database } = await makeHostileRoot();
    const before = dumpLog(database);
    const place = await makePlace();
    for (const table of ['jobs', 'outputs', 'counters', 'deliveries']) {
      const breakOff = ({ table: at, phase }: { table: string; phase: string }) => {
        if (at === table && phase === 'copy') throw new Error('broken off');
      };
      await expect(move(root, 'sqlite', place, { onProgress: breakOff })).rejects.toThrow('broken off');
      await expect(openServerStore(place)).rejects.toThrow(
        /^A log is being moved to the database .* again to finish it/,
      );
      await (await openSqliteStore(stateFolderOf(root))).close();
    }
    await move(root, 'sqlite', place);
    await move(root, place, 'sqlite');
    expect(dumpLog(database)).toEqual(before);
  });

  test('killed while it hands over, the next call ends it, there and back', async () => {
    const { root, database } = await makeHostileRoot();
    const before = dumpLog(database);
    const place = await makePlace();
    await moveUntilKilled(root, 'sqlite', place);
    await expect(openSqliteStore(stateFolderOf(root))).rejects.toThrow('was moved to the database');
    await move(root, 'sqlite', place);
    await moveUntilKilled(root, place, 'sqlite');
    await expect(openServerStore(place)).rejects.toThrow(/^The log was moved away from the database/);
    await move(root, place, 'sqlite');
    expect(dumpLog(database)).toEqual(before);
  });

  test('killed before it knew that something is at work on a server, the next call waits for that', async () => {
    const { root } = await makeHostileRoot();
    const place = await makePlace();
    await move(root, 'sqlite', place);
    await moveUntilKilled(root, place, 'sqlite', 'work was looked for');
    await server.ask(`update ${place.own}.workers set state = 'running', tier = 'hourly' where id = 5`);
    await expect(move(root, place, 'sqlite')).rejects.toThrow(/^Something is still running, .*: hourly /);
    // Whoever is to settle it can.
    await (await openServerStore(place)).close();
    await server.ask(`update ${place.own}.workers set state = 'finished' where id = 5`);
    await move(root, place, 'sqlite');
  });

  test('nothing is copied over a log that is used, and no log is moved twice', async () => {
    const { root } = await makeHostileRoot();
    const place = await makePlace();
    await move(root, 'sqlite', place);
    await expect(move(root, 'sqlite', place)).rejects.toThrow(
      /^The log was moved away from .*activity\.db already; name its present place with --from\.$/,
    );
    const other = await makeHostileRoot();
    await expect(move(other.root, 'sqlite', place)).rejects.toThrow(/^There is a log in .* already that is in use/);
    await expect(move(other.root, place, 'sqlite')).rejects.toThrow(/^There is a log in .*activity\.db already/);
    await expect(move(makeTemporaryRoot(), 'sqlite', await makePlace())).rejects.toThrow(
      /^No log to move was found at /,
    );
  });

  test('while one call fills a database, a second one is refused', async () => {
    const { root } = await makeHostileRoot();
    const place = await makePlace();
    const first = await openTarget(place, stateFolderOf(root));
    await first.begin();
    await expect(move(root, 'sqlite', place)).rejects.toThrow(/^Another `npx folder-runner migrate` is copying into /);
    await first.close();
    await move(root, 'sqlite', place);
  });

  test('a table with other columns is not copied', async () => {
    const { root } = await makeHostileRoot();
    change(root, 'alter table runs add column later text');
    await expect(move(root, 'sqlite', await makePlace())).rejects.toThrow(
      /activity\.db has a column runs\.later, unlike this runner's logs: use the newest runner on all machines/,
    );
  });

  test('what is at work is named, and waited for', async () => {
    const { root } = await makeHostileRoot();
    const place = await makePlace();
    change(
      root,
      `update workers set state = 'running', tier = 'hourly', pid = 4711 where id = 5;
      update jobs set claim_token = 'abc', name = 'mail' where id = 6`,
    );
    await expect(move(root, 'sqlite', place)).rejects.toThrow(
      /^Something is still running, .*: hourly \(pid 4711 on .*\), job 6 \(mail\)\. Wait for its end with --wait 10m/s,
    );
    const onProgress = ({ phase }: { phase: string }) => {
      if (phase === 'wait') change(root, `update workers set state = 'finished'; update jobs set claim_token = null`);
    };
    await move(root, 'sqlite', place, { waitMs: 30_000, onProgress });
  });

  test('a dry run counts, and changes nothing', async () => {
    const { root, database } = await makeHostileRoot();
    const before = dumpLog(database);
    const place = await makePlace();
    const { tables } = await move(root, 'sqlite', place, { isDryRun: true });
    expect(tables.find(({ table }) => table === 'runs')).toEqual({ table: 'runs', rows: 59, checksum: null });
    expect(dumpLog(database)).toEqual(before);
    await move(root, 'sqlite', place);
  });

  test.runIf(engine === 'mysql')('a text that is too long for MySQL is found before anything is copied', async () => {
    const { root } = await makeHostileRoot();
    change(
      root,
      `update jobs set unique_key = replace(hex(zeroblob(300)), '00', 'é') || replace(hex(zeroblob(300)), '00', 'é') where id = 1`,
    );
    await expect(move(root, 'sqlite', await makePlace())).rejects.toThrow(
      /^jobs\.unique_key holds a text of 600 characters in .*, and .* has room for \d+\. Shorten or delete it/,
    );
  });
});
