import { existsSync } from 'node:fs';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { checkDatabase } from '../../../src/checks/host/machines.ts';
import { parseDatabaseUrl } from '../../../src/store/server/connect/url.ts';
import { openServerStore } from '../../../src/store/server/open.ts';
import { incidentsOf } from '../../../src/store/statements/monitor/incidents.ts';
import { type OwnServer, pgbouncer, startOwnPostgres, startPgbouncer } from '../../support/engines/own-server.ts';

if (!existsSync(pgbouncer)) console.warn(`NOT TESTED HERE: poolers, as there is no ${pgbouncer}.`);

describe.runIf(existsSync(pgbouncer))('through pgbouncer', () => {
  let server: OwnServer;

  beforeAll(async () => {
    server = await startOwnPostgres();
  }, 120_000);

  afterAll(() => server.stop());

  async function pool(...settings: readonly string[]): Promise<string> {
    const pooler = await startPgbouncer(server, settings);
    onTestFinished(() => pooler.stop());
    return pooler.url;
  }

  const open = (url: string) => openServerStore(parseDatabaseUrl(url, 'it', '/'));
  const refusal = expect.stringMatching(/^The server of the database postgres on .* is a connection pooler in trans/);

  test.each([
    ['transaction mode', ['pool_mode = transaction']],
    [
      'transaction mode, the connection that rests longest first',
      ['pool_mode = transaction', 'server_round_robin = 1'],
    ],
    ['transaction mode, with one connection', ['pool_mode = transaction', 'default_pool_size = 1']],
    ['statement mode', ['pool_mode = statement']],
  ])('%s is refused, also by doctor, and the connections of others are as they were', async (_, settings) => {
    const url = await pool(...settings);
    const site = new pg.Client({ connectionString: url });
    await site.connect();
    onTestFinished(() => site.end());
    const look = async () =>
      (
        await site.query(
          `select current_setting('search_path') as path, current_setting('lock_timeout') as patience,
             current_setting('idle_in_transaction_session_timeout') as idle,
             (select count(*) from pg_prepared_statements) as prepared`,
        )
      ).rows;
    const before = await look();
    for (let times = 0; times < 3; times += 1) {
      await expect(open(url)).rejects.toMatchObject({ kind: 'refused', message: refusal });
    }
    expect(await checkDatabase('/', { RUNNER_DATABASE_URL: url })).toMatchObject([
      { status: 'critical', message: refusal },
    ]);
    for (let times = 0; times < 5; times += 1) expect(await look()).toEqual(before);
  });

  test.each([
    ['with room', []],
    ['with one connection for each user', ['default_pool_size = 1']],
  ])('session mode, %s, is a server like any other', async (_, settings) => {
    const url = await pool('pool_mode = session', ...settings);
    for (const name of ['once', 'again']) {
      const store = await open(url);
      await store.transaction((session) => incidentsOf(session.statements).mute({ name, until: null, createdAt: 1 }));
      expect((await incidentsOf(store.statements).mutes(2)).map((mute) => mute.name)).toContain(name);
      await store.close();
    }
    expect((await checkDatabase('/', { RUNNER_DATABASE_URL: url }))[0]?.status).toBe('ok');
  });
});
