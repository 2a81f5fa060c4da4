import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { checkDatabase } from '../../../src/checks/host/machines.ts';
import { parseDatabaseUrl } from '../../../src/store/server/connect/url.ts';
import { openServerStore } from '../../../src/store/server/open.ts';
import { type OwnServer, ownServersFor } from '../../support/engines/own-server.ts';
import { until } from '../../support/until.ts';

describe.each(ownServersFor('what doctor says'))('$name', ({ name, engine, start }) => {
  let server: OwnServer;

  beforeAll(async () => {
    server = await start();
  }, 120_000);

  afterAll(() => server.stop());

  const check = (url: string) => checkDatabase('/', { RUNNER_DATABASE_URL: url });

  async function makeTables(url: string): Promise<void> {
    await (await openServerStore(parseDatabaseUrl(url, 'it', '/'))).close();
  }

  test('a database is described without its password', async () => {
    const url = server.url();
    expect((await check(url))[0]?.message).toMatch(
      new RegExp(
        `^the database \\w+ on localhost:${server.port}: ${name} [\\d.]+, no TLS, no tables yet, \\d+ of \\d+ c`,
      ),
    );
    await makeTables(url);
    const findings = await check(url);
    expect(findings[0]?.message).toMatch(/no TLS, schema \d+, \d+ of \d+ connections, [\d.]+ ms away$/);
    expect(findings.map(({ status }) => status)).toEqual(['ok', 'ok']);
    expect(JSON.stringify(findings)).not.toContain('test-pass-word');
  });

  test('a user that lacks rights is told which', async () => {
    await makeTables(server.url());
    const password = 'of-a-poor-user';
    const isPostgres = server.engine === 'postgres';
    await server.ask(
      ...(isPostgres
        ? [
            `create role poor login password '${password}'`,
            'grant usage on schema folder_runner to poor',
            'grant select, insert on all tables in schema folder_runner to poor',
          ]
        : [
            `create user poor@localhost identified by '${password}'`,
            'grant select, insert on runner.* to poor@localhost',
          ]),
    );
    const address = new URL(server.url());
    address.username = 'poor';
    address.password = password;
    expect(await check(address.href)).toContainEqual({
      status: 'critical',
      message: 'this user lacks rights: update, delete',
      hint: 'docs/database.md has the statements that grant them.',
    });
  });

  test('a user whose name or database has a limit or a pattern of its own is told no wrong', async () => {
    await makeTables(server.url());
    await server.ask(
      ...(server.engine === 'postgres'
        ? [
            "create role few login password 'of-the-few' connection limit 2",
            'grant usage on schema folder_runner to few',
            'grant select, insert, update, delete on all tables in schema folder_runner to few',
          ]
        : [
            "create user few@localhost identified by 'of-the-few' with max_user_connections 2",
            'grant select, insert, update, delete on `ru__e\\r%`.* to few@localhost',
          ]),
    );
    const others = await Promise.all([1, 2, 3].map(() => openServerStore(parseDatabaseUrl(server.url(), 'it', '/'))));
    const address = Object.assign(new URL(server.url()), { username: 'few', password: 'of-the-few' });
    const findings = await check(address.href);
    await Promise.all(others.map((store) => store.close()));
    expect(findings[0]?.message).toContain(', 1 of 2 connections, ');
    expect(findings.map(({ status }) => status)).toEqual(['ok', 'ok']);
  });

  test.runIf(engine === 'mysql')('what others are just asking keeps nobody from being examined', async () => {
    const asks = server.ask("select sleep(60), '🙂'").catch(() => {});
    const find = async () =>
      ((await server.ask('show processlist')) as { Id: number; Info: string | null }[]).find(
        ({ Info }) => Info?.startsWith('select sleep') === true,
      );
    await until('it is asked', async () => (await find()) !== undefined);
    const findings = await check(server.url());
    await server.ask(`kill ${(await find())?.Id}`);
    await asks;
    expect(findings.map(({ status }) => status)).toEqual(['ok', 'ok']);
  });

  test('a log that was moved away, or is of a newer runner, is a problem', async () => {
    await makeTables(server.url());
    const table = server.engine === 'postgres' ? 'folder_runner.schema_version' : 'runner.schema_version';
    const problems = [
      [2_000_000_000, /^The log was moved away from the database /],
      [1_000_000_000, /^A log is being moved to the database /],
      [900, /^The tables in the database .* were made by a newer runner \(schema 900, this one knows \d+\)\./],
    ] as const;
    for (const [version, sentence] of problems) {
      await server.ask(`insert into ${table} (version) values (${version})`);
      const findings = await check(server.url());
      await server.ask(`delete from ${table} where version = ${version}`);
      expect(findings).toMatchObject([{ status: 'critical', message: expect.stringMatching(sentence) }]);
    }
  });

  test.runIf(engine === 'postgres')('a database that cannot hold every character is a problem', async () => {
    await server.ask("create database western encoding 'LATIN1' locale 'C' template template0");
    const found = expect.stringMatching(/^The server of the database western .* has the encoding LATIN1, which cannot/);
    expect(await check(server.url('', 'western'))).toMatchObject([{ status: 'critical', message: found }]);
  });

  test('one in which nothing can be written is a problem, with tables and without', async () => {
    const isPostgres = server.engine === 'postgres';
    const [on, off] = isPostgres
      ? ['alter role reader set default_transaction_read_only = on', 'alter role reader reset all']
      : ['set global read_only = 1', 'set global read_only = 0'];
    const rights = 'select, insert, update, delete, create';
    await server.ask(
      ...(isPostgres
        ? ["create role reader superuser login password 'of-the-reader'"]
        : [
            "create user reader@localhost identified by 'of-the-reader'",
            'create database bare',
            ...['runner', 'bare'].map(
              (each) => `grant ${rights}, alter, index, references, create view, drop on ${each}.* to reader@localhost`,
            ),
          ]),
    );
    await makeTables(server.url());
    const address = Object.assign(new URL(server.url()), { username: 'reader', password: 'of-the-reader' });
    const empty = Object.assign(new URL(address), isPostgres ? { search: '?schema=bare' } : { pathname: '/bare' });
    await server.ask(on);
    onTestFinished(async () => void (await server.ask(off)));
    const found = expect.stringMatching(/^The database .* is read-only \(.*read_only switched off\.$/);
    for (const { href } of [address, empty])
      expect(await check(href)).toMatchObject([{ status: 'critical', message: found }]);
  });

  test('one that cannot be reached is a problem, in one sentence', async () => {
    const [finding, ...more] = await check(server.url('?connect_timeout=1').replace(`:${server.port}/`, ':1/'));
    expect(more).toEqual([]);
    expect(finding?.status).toBe('critical');
    expect(finding?.message).toMatch(/^The database \w+ on localhost:1 cannot be reached \(.*ECONNREFUSED.*\)\./);
  });
});
