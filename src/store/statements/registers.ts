import type {
  HashedToken,
  HostBoot,
  HostCopy,
  Machine,
  MachineStore,
  ScriptCopy,
  Token,
  TokenStore,
} from '../contract/registers.ts';
import { putRows } from '../shared/sql/rows.ts';
import type { Statements } from '../shared/sql/statements.ts';

export function machinesOf(db: Statements): MachineStore {
  return {
    note: async ({ host, seenAt, clockOffsetMs, runnerVersion }) => {
      const columns = ['seen_at', 'clock_offset_ms', 'runner_version'];
      const insert = `insert into machines (host, ${columns.join(', ')}) values (?, ?, ?, ?)`;
      const assigned = columns.map((column) => [column, `new.${column}`] as const);
      await db.run(db.dialect.upsert(insert, ['host'], assigned), [host, seenAt, clockOffsetMs, runnerVersion]);
    },
    list: () =>
      db.all<Machine>(
        `select host, seen_at as "seenAt", clock_offset_ms as "clockOffsetMs", runner_version as "runnerVersion"
         from machines order by host`,
      ),
    boots: (sinceMs) =>
      db.all<HostBoot>(
        `select host, boot_id as "bootId", min(workers.id) as "firstWorker", max(workers.id) as "lastWorker"
         from workers join hosts on hosts.id = host_id where started_at >= ? group by host, boot_id order by min(workers.id)`,
        [sinceMs],
      ),
    noteCopies: (host, tier, copies) => noteCopies(db, { host, tier }, copies),
    copies: ({ names, seenAfter = Number.MIN_SAFE_INTEGER } = {}) =>
      db.all<HostCopy>(
        `select copies.host, tier, ${copyColumns} from machines join copies on copies.host = machines.host
         where seen_at > ?${names === undefined ? '' : ` and ${db.dialect.isIn('name')}`} order by name, copies.host`,
        [seenAfter, ...(names === undefined ? [] : [names])],
      ),
    forget: (seenBefore, limit) => forget(db, seenBefore, limit),
  };
}

const copyColumns = 'name, content_hash as "contentHash", host_pattern as "hostPattern"';

async function noteCopies(
  db: Statements,
  { host, tier }: Pick<HostCopy, 'host' | 'tier'>,
  copies: readonly ScriptCopy[],
): Promise<void> {
  const known = await db.all<ScriptCopy>(`select ${copyColumns} from copies where host = ? and tier = ?`, [host, tier]);
  const isIn = (all: readonly ScriptCopy[], { name, contentHash, hostPattern }: ScriptCopy): boolean =>
    all.some((each) => each.name === name && each.contentHash === contentHash && each.hostPattern === hostPattern);
  const gone = known.filter(({ name }) => !copies.some((copy) => copy.name === name)).map(({ name }) => name);
  if (gone.length > 0) await db.run(`delete from copies where host = ? and ${db.dialect.isIn('name')}`, [host, gone]);
  const changed = copies
    .filter((each) => !isIn(known, each))
    .map(({ name, contentHash, hostPattern }) => [host, name, tier, contentHash, hostPattern]);
  const set = ['tier', 'content_hash', 'host_pattern'];
  await putRows(db, 'copies', ['host', 'name', ...set], changed, { key: ['host', 'name'], set });
}

/** Forgets machines not seen since `seenBefore`, but skips those that another machine is forgetting at this moment. */
async function forget(db: Statements, seenBefore: number, limit: number): Promise<number> {
  const gone = await db.all<{ host: string }>(
    `select host from machines where seen_at < ? order by seen_at limit ? ${db.dialect.skipLocked}`,
    [seenBefore, limit],
  );
  if (gone.length === 0) return 0;
  const hosts = gone.map(({ host }) => host);
  const ofHosts = db.dialect.isIn('host');
  await db.run(`delete from copies where ${ofHosts}`, [hosts]);
  for (const host of hosts) {
    const boot = `boot ${host} `;
    await db.run('delete from chores where name = ? or substr(name, 1, ?) = ?', [
      ...[`checks ${host}`, boot.length, boot],
    ]);
  }
  return await db.run(`delete from machines where ${ofHosts}`, [hosts]);
}

const tokenColumns = `id, name, permission, created_at as "createdAt", expires_at as "expiresAt",
  last_used_at as "lastUsedAt"`;

export function apiTokensOf(db: Statements): TokenStore {
  const read = async (column: 'id' | 'name' | 'hash', value: unknown): Promise<HashedToken | null> =>
    (await db.first<HashedToken>(`select ${tokenColumns}, hash from tokens where ${column} = ?`, [value])) ?? null;
  return {
    add: async ({ name, hash, permission, createdAt, expiresAt }) => {
      const insert = 'insert into tokens (name, hash, permission, created_at, expires_at) values (?, ?, ?, ?, ?)';
      await db.run(db.dialect.upsert(insert, ['name'], []), [name, hash, permission, createdAt, expiresAt]);
      const kept = await read('name', name);
      // MySQL does not say whether it has added it.
      if (kept?.hash !== hash) return null;
      const { hash: _, ...token } = kept;
      return token;
    },
    list: () => db.all<Token>(`select ${tokenColumns} from tokens order by name`),
    byHash: (hash) => read('hash', hash),
    byId: (id) => read('id', id),
    remove: async (name) => (await db.run('delete from tokens where name = ?', [name])) > 0,
    noteUse: async (id, day) => {
      await db.run('update tokens set last_used_at = ? where id = ?', [day, id]);
    },
  };
}
