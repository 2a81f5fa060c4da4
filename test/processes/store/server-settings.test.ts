import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { checkDatabase } from '../../../src/checks/host/machines.ts';
import { parseDatabaseUrl } from '../../../src/store/server/connect/url.ts';
import { openServerStore, openSession } from '../../../src/store/server/open.ts';
import { incidentsOf } from '../../../src/store/statements/monitor/incidents.ts';
import { type OwnServer, ownServersFor } from '../../support/engines/own-server.ts';

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
