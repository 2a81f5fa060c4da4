import type {
  HashedToken,
  HostBoot,
  HostCopy,
  Machine,
  MachineStore,
  ScriptCopy,
  Token,
  TokenStore,
} from '../../contract/registers.ts';
import type { Sync } from '../../shared/areas.ts';
import type { SqliteStatements } from '../session.ts';

export function sqliteMachines(db: SqliteStatements): Sync<MachineStore> {
  return {
    note: ({ host, seenAt, clockOffsetMs, runnerVersion }) => {
      db.run('insert or replace into machines (host, seen_at, clock_offset_ms, runner_version) values (?, ?, ?, ?)', [
        ...[host, seenAt, clockOffsetMs, runnerVersion],
      ]);
    },
    list: () =>
      db.all<Machine>(
        `select host, seen_at as seenAt, clock_offset_ms as clockOffsetMs, runner_version as runnerVersion
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
         where seen_at > ? and (? is null or name in (select value from json_each(?))) order by name, copies.host`,
        [seenAfter, ...Array(2).fill(names === undefined ? null : JSON.stringify(names))],
      ),
    forget: (seenBefore, limit) => forget(db, seenBefore, limit),
  };
}

const copyColumns = 'name, content_hash as contentHash, host_pattern as hostPattern';

function noteCopies(
  db: SqliteStatements,
  { host, tier }: Pick<HostCopy, 'host' | 'tier'>,
  copies: readonly ScriptCopy[],
): void {
  const known = db.all<ScriptCopy>(`select ${copyColumns} from copies where host = ? and tier = ?`, [host, tier]);
  const isIn = (all: readonly ScriptCopy[], { name, contentHash, hostPattern }: ScriptCopy): boolean =>
    all.some((each) => each.name === name && each.contentHash === contentHash && each.hostPattern === hostPattern);
  for (const copy of known.filter((each) => !isIn(copies, each))) {
    db.run('delete from copies where host = ? and name = ?', [host, copy.name]);
  }
  for (const { name, contentHash, hostPattern } of copies.filter((each) => !isIn(known, each))) {
    db.run('insert or replace into copies (host, name, tier, content_hash, host_pattern) values (?, ?, ?, ?, ?)', [
      ...[host, name, tier, contentHash, hostPattern],
    ]);
  }
}

function forget(db: SqliteStatements, seenBefore: number, limit: number): number {
  const gone = db.all<{ host: string }>('select host from machines where seen_at < ? order by seen_at limit ?', [
    seenBefore,
    limit,
  ]);
  for (const { host } of gone) {
    const boot = `boot ${host} `;
    db.run('delete from copies where host = ?', [host]);
    db.run('delete from chores where name = ? or substr(name, 1, ?) = ?', [`checks ${host}`, boot.length, boot]);
    db.run('delete from machines where host = ?', [host]);
  }
  return gone.length;
}

const tokenColumns = `id, name, permission, created_at as createdAt, expires_at as expiresAt, last_used_at as lastUsedAt`;

export function sqliteTokens(db: SqliteStatements): Sync<TokenStore> {
  return {
    add: ({ name, hash, permission, createdAt, expiresAt }) =>
      db.first<Token>(
        `insert into tokens (name, hash, permission, created_at, expires_at) values (?, ?, ?, ?, ?)
         on conflict (name) do nothing returning ${tokenColumns}`,
        [name, hash, permission, createdAt, expiresAt],
      ) ?? null,
    list: () => db.all<Token>(`select ${tokenColumns} from tokens order by name`),
    byHash: (hash) => db.first<HashedToken>(`select ${tokenColumns}, hash from tokens where hash = ?`, [hash]) ?? null,
    byId: (id) => db.first<HashedToken>(`select ${tokenColumns}, hash from tokens where id = ?`, [id]) ?? null,
    remove: (name) => db.run('delete from tokens where name = ?', [name]) > 0,
    noteUse: (id, day) => {
      db.run('update tokens set last_used_at = ? where id = ?', [day, id]);
    },
  };
}
