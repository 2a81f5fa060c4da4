import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { parseDatabaseUrl } from '../../../src/store/server/connect/url.ts';
import { openServerStore } from '../../../src/store/server/open.ts';
import { incidentsOf } from '../../../src/store/statements/monitor/incidents.ts';
import { type OwnServer, ownServersFor } from '../../support/engines/own-server.ts';

const page = readFileSync(new URL('../../../docs/database.md', import.meta.url), 'utf8');
const [, grants = ''] = page.split('\n## Grants\n');
const blocks = [...grants.matchAll(/```sql\n(.+?)```/gs)].map(([, sql = '']) =>
  sql.split(';').map((each) => each.trim()),
);

describe.each(ownServersFor('the grants'))('$name', ({ name, engine, start }) => {
  const [statements = [], database] = engine === 'postgres' ? [blocks[0], 'postgres'] : [blocks[1], 'runner_log'];
  let server: OwnServer;

  beforeAll(async () => {
    server = await start();
    // There are users without a name that would be meant on this machine.
    if (name === 'MariaDB') await server.ask("delete from mysql.global_priv where User = ''", 'flush privileges');
    await server.ask(...statements.filter((statement) => statement !== ''));
  }, 120_000);

  afterAll(() => server.stop());

  const addressOf = (user: string, password: string): string => {
    const url = new URL(server.url('', database));
    url.username = user;
    url.password = password;
    url.hostname = '127.0.0.1';
    return url.href;
  };
  const open = (url: string) => openServerStore(parseDatabaseUrl(url, 'it', '/'));

  test('the owner makes the tables, the worker uses them and can make none', async () => {
    const worker = addressOf('runner_worker', 'choose-another');
    await expect(open(worker)).rejects.toThrow('docs/database.md has');
    await (await open(addressOf('runner_owner', 'choose-one'))).close();
    const store = await open(worker);
    const mute = { name: 'hourly', until: null, createdAt: 1 };
    await store.transaction((session) => incidentsOf(session.statements).mute(mute));
    expect(await incidentsOf(store.statements).mutes(2)).toEqual([mute]);
    expect(await store.transaction((session) => incidentsOf(session.statements).unmute(['hourly']))).toEqual([mute]);
    await store.close();
  });
});
