import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest';
import { checkDatabase } from '../../../src/checks/host/machines.ts';
import { parseDatabaseUrl } from '../../../src/store/server/connect/url.ts';
import { openServerStore, openSession } from '../../../src/store/server/open.ts';
import { incidentsOf } from '../../../src/store/statements/monitor/incidents.ts';
import type { Store, StoreSession } from '../../../src/store/store.ts';
import { startTcpProxy } from '../../support/engines/links.ts';
import { makeSelfSignedCertificate, type OwnServer, ownServersFor } from '../../support/engines/own-server.ts';
import { makeTemporaryRoot } from '../../support/root.ts';
import { until } from '../../support/until.ts';

describe.each(ownServersFor('connection limits'))('$name', ({ name, engine, start }) => {
  let server: OwnServer;

  beforeAll(async () => {
    server = await start();
    await (await open(server.url())).close();
    await server.ask(
      ...(server.engine === 'postgres'
        ? [
            "create role few login password 'of-the-few'",
            'grant usage on schema folder_runner to few',
            'grant select, insert, update, delete on all tables in schema folder_runner to few',
            'alter role few connection limit 3',
          ]
        : [
            "create user few@localhost identified by 'of-the-few'",
            'grant all on runner.* to few@localhost',
            'alter user few@localhost with max_user_connections 3',
          ]),
    );
  }, 120_000);

  afterAll(() => server.stop());

  const open = (url: string): Promise<Store> => openServerStore(parseDatabaseUrl(url, 'it', '/'));
  const addressOfFew = (): string => {
    const url = new URL(server.url());
    url.username = 'few';
    url.password = 'of-the-few';
    return url.href;
  };

  const mute = (store: Store, name: string) =>
    store.transaction((session) => incidentsOf(session.statements).mute({ name, until: null, createdAt: 1 }));
  const names = async (store: Store) => (await incidentsOf(store.statements).mutes(2)).map(({ name }) => name).sort();

  /** All connections but those of the administrator. */
  async function endConnections(): Promise<void> {
    if (server.engine === 'postgres') {
      await server.ask(
        'select pg_terminate_backend(pid) from pg_stat_activity where pid <> pg_backend_pid() and usename is not null',
      );
      return;
    }
    const rows = (await server.ask('show processlist')) as readonly { readonly Id: number; readonly User: string }[];
    for (const { Id } of rows.filter(({ User }) => ['runner', 'few'].includes(User))) await server.ask(`kill ${Id}`);
  }

  test('machines that come to a new place at the same moment make its tables once', async () => {
    for (const place of ['new_1', 'new_2', 'new_3', 'new_4', 'new_5']) {
      if (server.engine === 'mysql') await server.ask(`create database ${place}`);
      const url = server.engine === 'postgres' ? server.url(`?schema=${place}`) : server.url('', place);
      const stores = await Promise.all(Array.from({ length: 8 }, () => open(url)));
      expect(await names(stores[0] as Store)).toEqual([]);
      for (const store of stores) await store.close();
    }
  });

  test('a schema that somebody else makes at the same moment is taken as it is', async ({ skip }) => {
    skip(server.engine !== 'postgres', 'MySQL has no schemas within a database');
    const other = server.ask('begin', 'create schema raced', 'select pg_sleep(1)', 'commit');
    const sleeping = `select 1 from pg_stat_activity where query = 'select pg_sleep(1)'`;
    await until('it is made, and not committed yet', async () => (await server.ask(sleeping)).length === 1);
    const store = await open(server.url('?schema=raced'));
    expect(await names(store)).toEqual([]);
    await store.close();
    await other;
  });

  test('more workers than connections: each gets its turn', async () => {
    const all = Array.from({ length: 12 }, (_, index) => `few-${String(index).padStart(2, '0')}`);
    await Promise.all(
      all.map(async (name) => {
        const store = await open(addressOfFew());
        await mute(store, name);
        await store.close();
      }),
    );
    const store = await open(server.url());
    expect((await names(store)).filter((name) => name.startsWith('few-'))).toEqual(all);
    await store.close();
  }, 60_000);

  test.each(['', ':wrong'])('a password "%s" is refused in a sentence', async (password) => {
    const address = server.url().replace(/:[^:@/]+@/, `${password}@`);
    await expect(open(address)).rejects.toThrow(
      new RegExp(`^The database \\w+ on localhost:${server.port} refuses this user or password \\(`),
    );
  });

  test.runIf(engine === 'postgres')('a database that cannot hold every character is refused, with a cure', async () => {
    await server.ask("create database western encoding 'LATIN1' locale 'C' template template0");
    await server.ask("create database bytes encoding 'SQL_ASCII' locale 'C' template template0");
    const refusal = open(server.url('', 'western'));
    await expect(refusal).rejects.toMatchObject({ kind: 'refused' });
    await expect(refusal).rejects.toThrow(/^The server of the database western on .* has the encoding LATIN1, which /);
    const error = await refusal.catch(({ message }: Error) => message);
    const [, cure = ''] = /`(create database [^`]+)`/.exec(String(error)) ?? [];
    await server.ask(cure);
    for (const database of ['another_name', 'bytes']) {
      const store = await open(server.url('', database));
      await mute(store, 'größe 🦁');
      expect(await names(store)).toEqual(['größe 🦁']);
      await store.close();
    }
  });

  test('an address that names another kind of server is told as that', async () => {
    const [own, other] = server.engine === 'postgres' ? ['postgres:', 'mysql:'] : ['mysql:', 'postgres:'];
    const address = server.url('?connect_timeout=1').replace(own, other);
    // A server of PostgreSQL waits for a first word, and so does the driver for MySQL. That for PostgreSQL may take the
    // first bytes of MySQL, which are the length of its greeting, for a message.
    const sentence = {
      PostgreSQL: / cannot be reached \(/,
      MariaDB: /^The server of .* is none of PostgreSQL \(/,
      MySQL: /^The server of .* is none of PostgreSQL \(| cannot be reached \(Connection terminated unexpectedly\)/,
    }[name];
    await expect(open(address)).rejects.toThrow(sentence);
  });

  test('a connection that the server ends while it rests is made again', async () => {
    const store = await open(server.url());
    await mute(store, 'before');
    await endConnections();
    await mute(store, 'after');
    expect(await names(store)).toEqual(expect.arrayContaining(['before', 'after']));
    await store.close();
  });

  test('one that stands still within a transaction keeps the others from work no longer than they wait', async () => {
    const [still, other] = [await open(server.url()), await open(server.url())];
    const mark = (session: StoreSession, until: number) =>
      incidentsOf(session.statements).mute({ name: 'held', until, createdAt: 1 });
    await mark(still, 10);
    const [holds, goesOn] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    let tries = 0;
    const late = still.transaction(async (session) => {
      tries += 1;
      await mark(session, 20 + tries);
      holds.resolve();
      if (tries === 1) await goesOn.promise;
      await incidentsOf(session.statements).addTelling('chat', tries);
    });
    await holds.promise;
    await other.transaction((session) => mark(session, 30));
    expect(tries).toBe(1);
    goesOn.resolve();
    await late;
    expect(await incidentsOf(other.statements).mutes(2)).toContainEqual({ name: 'held', until: 22, createdAt: 1 });
    expect(await incidentsOf(other.statements).tellings('chat', 0)).toEqual([2]);
    await Promise.all([still.close(), other.close()]);
  }, 60_000);

  test('one that is ended within a transaction has it done again, once', async () => {
    const store = await open(server.url());
    let tries = 0;
    await store.transaction(async (session) => {
      tries += 1;
      await incidentsOf(session.statements).addTelling('mail', tries);
      if (tries === 1) await endConnections();
      await incidentsOf(session.statements).addTelling('mail', 10 + tries);
    });
    expect(tries).toBe(2);
    expect((await incidentsOf(store.statements).tellings('mail', 0)).sort((one, other) => one - other)).toEqual([
      2, 12,
    ]);
    await store.close();
  });

  test('one that is lost after something was written is made again, though the server is away for a moment', async () => {
    const proxy = await startTcpProxy(server.port);
    onTestFinished(() => proxy.close());
    const store = await open(server.url().replace(`:${server.port}/`, `:${proxy.port}/`));
    await incidentsOf(store.statements).mute({ name: 'written', until: null, createdAt: 1 });
    await proxy.cut();
    // It has heard of that, and its first try meets nobody.
    await sleep(100);
    const asked = names(store);
    asked.catch(() => {});
    await sleep(100);
    await proxy.mend();
    expect(await asked).toContain('written');
    await store.close();
  });

  /** What is asked falls on deaf ears from this word on, until minutes have passed. */
  async function askUntilDeaf<T>(word: string, ask: (store: Store) => Promise<T>): Promise<T> {
    const proxy = await startTcpProxy(server.port);
    onTestFinished(() => proxy.close());
    const store = await open(server.url().replace(`:${server.port}/`, `:${proxy.port}/`));
    proxy.silence(word);
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    onTestFinished(() => void vi.useRealTimers());
    const asked = ask(store);
    asked.catch(() => {});
    while (!proxy.isSilent) await nextTurn();
    await vi.advanceTimersByTimeAsync(61_000);
    vi.useRealTimers();
    return await asked;
  }

  test('who takes a transaction back does not wait for ever to hear so', async () => {
    const fail = (store: Store) =>
      store.transaction(async (session) => {
        await incidentsOf(session.statements).addTelling('deaf', 1);
        throw new Error('as it likes');
      });
    await expect(askUntilDeaf('rollback', fail)).rejects.toThrow('as it likes');
  });

  test('who tells others of news does not wait for ever to hear that they were told', async ({ skip }) => {
    skip(server.engine !== 'postgres', 'MySQL is told of no news');
    await askUntilDeaf('notify', (store) => mute(store, 'told'));
    const store = await open(server.url());
    expect(await names(store)).toContain('told');
    await store.close();
  });
});

/** What hosts set for all who connect. */
const LIMITS = {
  PostgreSQL: [
    "alter system set statement_timeout = '1s'",
    "alter system set idle_in_transaction_session_timeout = '1s'",
    "alter system set transaction_timeout = '1s'",
    'select pg_reload_conf()',
  ],
  MariaDB: ['set global max_statement_time = 1'],
  MySQL: ['set global max_execution_time = 1000'],
};
const OF_BOTH = ['innodb_default_row_format = compact', 'sql_safe_updates = 1', 'sql_select_limit = 1'];

describe.each(ownServersFor('limits of hosts'))('$name', ({ name, engine, start }) => {
  let server: OwnServer;

  beforeAll(async () => {
    server = await start();
    const both = engine === 'mysql' ? OF_BOTH.map((each) => `set global ${each}`) : [];
    await server.ask(...both, ...LIMITS[name]);
  }, 120_000);

  afterAll(() => server.stop());

  const target = () => parseDatabaseUrl(server.url(), 'it', '/');

  test('limits that a host sets for short statements do not hold for the log', async () => {
    const store = await openServerStore(target());
    const names = ['a', 'b', 'c'];
    for (const each of names)
      await store.transaction((session) =>
        incidentsOf(session.statements).mute({ name: each, until: null, createdAt: 1 }),
      );
    expect((await incidentsOf(store.statements).mutes(2)).map((mute) => mute.name)).toEqual(names);
    await store.close();
    const findings = await checkDatabase('/', { RUNNER_DATABASE_URL: server.url() });
    expect(findings.map(({ status }) => status)).toEqual(['ok', 'ok']);
  });

  test('a statement lasts longer than the limit of the host, and changes what no key leads to', async () => {
    const session = await openSession(target());
    const nap = engine === 'postgres' ? 'pg_sleep(1.5)' : 'sleep(1.5)';
    const ask = () => session.ask(() => session.first<{ one: number }>(`select 1 as one, ${nap} as nap`));
    expect((await ask())?.one).toBe(1);
    await session.ask(() => session.run(`update jobs set reason = 'none' where reason = 'such'`));
    await session.close();
  });
});

describe.each(ownServersFor('TLS'))('$name', ({ name, engine, start }) => {
  let withTls: OwnServer;
  let plain: OwnServer;

  beforeAll(async () => {
    [withTls, plain] = await Promise.all([start({ isTls: true }), start()]);
  }, 120_000);

  // Where one has not started, the other one has.
  afterAll(() => Promise.all([withTls, plain].map((server) => server?.stop())));

  async function connect(url: string): Promise<string> {
    try {
      const store = await openServerStore(parseDatabaseUrl(url, 'It', '/'));
      await store.close();
      return 'connected';
    } catch (error) {
      return (error as Error).message;
    }
  }

  test('the authority that is named is believed, for the name of the host alone', async () => {
    const named = `sslrootcert=${withTls.certificate}`;
    expect(await connect(withTls.url(`?sslmode=verify-full&${named}`))).toBe('connected');
    expect(await connect(withTls.url(`?sslmode=verify-ca&${named}`))).toBe('connected');
    const byNumber = (mode: string) => withTls.url(`?sslmode=${mode}&${named}&host=127.0.0.1`);
    expect(await connect(byNumber('verify-ca'))).toBe('connected');
    expect(await connect(byNumber('verify-full'))).toMatch(
      /shows a certificate for another name \(.*\): use the name|has a host given by number, for which no certificate can be checked/,
    );
  });

  test('nobody else is believed', async () => {
    const { cert } = makeSelfSignedCertificate(new Date(Date.now() + 86_400_000));
    const other = join(makeTemporaryRoot(), 'other.pem');
    writeFileSync(other, cert);
    const refusal =
      /^The TLS certificate of the database \w+ on localhost:\d+ cannot be trusted \(.+\): name the authority/;
    expect(await connect(withTls.url(`?sslmode=verify-full&sslrootcert=${other}`))).toMatch(refusal);
    expect(await connect(withTls.url('?sslmode=verify-full'))).toMatch(refusal);
    expect(await connect(withTls.url('?sslmode=verify-ca'))).toMatch(refusal);
    expect(await connect(withTls.url(`?sslmode=require&sslrootcert=${other}`))).toMatch(refusal);
    // Asked for explicitly: encrypted, whoever it is.
    expect(await connect(withTls.url('?sslmode=require'))).toBe('connected');
    expect(await connect(withTls.url('?sslmode=require&sslrootcert=/not/there.pem'))).toMatch(
      /^sslrootcert of the database's address cannot be read \(ENOENT/,
    );
  });

  test('a server without TLS is told no password', async () => {
    const refusal =
      /offers no TLS, so the password was not sent\. Have TLS enabled there; only within a private network/;
    expect(await connect(plain.url('?sslmode=require'))).toMatch(refusal);
    expect(await connect(plain.url('?sslmode=verify-full'))).toMatch(refusal);
    expect(await connect(plain.url())).toBe('connected');
  });

  // PostgreSQL says so by itself: test/unit/store/server.test.ts.
  test.runIf(engine === 'mysql')('a server that demands TLS may say no more than "access denied"', async () => {
    await withTls.ask('set global require_secure_transport = on');
    expect(await connect(withTls.url('?sslmode=disable'))).toMatch(
      name === 'MySQL'
        ? / demands TLS \(Connections using insecure transport are prohibited .*\): remove `sslmode=disable`/
        : /refuses this user or password \(Access denied .*\)\. .* A server that demands TLS says the same: remove `sslmode=disable`\./,
    );
    expect(await connect(withTls.url('?sslmode=require'))).toBe('connected');
  });
});
