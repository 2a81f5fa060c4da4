import { matchAny } from '../../system/base/glob.ts';
import { putRows } from '../shared/sql/rows.ts';
import type { Statements } from '../shared/sql/statements.ts';
import type { TokenPermission } from '../words.ts';

/** A machine as it was when it last called the runner. */
export interface Machine {
  readonly host: string;
  readonly seenAt: number;
  readonly clockOffsetMs: number;
  readonly runnerVersion: string;
}

/** Which workers a machine has started since it was booted. */
export interface HostBoot {
  readonly host: string;
  readonly bootId: string | null;
  readonly firstWorker: number;
  readonly lastWorker: number;
}

/** A script that a machine has. */
export interface ScriptCopy {
  readonly name: string;
  /** Null: it is not known, as the script is refused. */
  readonly contentHash: string | null;
  /** The machines that it is for, a glob; null: all. */
  readonly hostPattern: string | null;
}

export interface HostCopy extends ScriptCopy {
  readonly host: string;
  readonly tier: string;
}

/** Whether a copy of a script is for that machine. */
export function isCopyFor({ hostPattern }: Pick<ScriptCopy, 'hostPattern'>, host: string): boolean {
  return hostPattern === null || matchAny(hostPattern.split(' '), host);
}

/** A filter for copies. Default: all known copies. */
export interface CopiesOf {
  /** Only copies of these scripts. */
  readonly names?: readonly string[];
  /** Only copies on machines that were seen after this. */
  readonly seenAfter?: number;
}

/** A credential of the dashboard, without its hash. */
export interface Token {
  readonly id: number;
  readonly name: string;
  readonly permission: TokenPermission;
  readonly createdAt: number;
  /** Null: never. */
  readonly expiresAt: number | null;
  /** The beginning of the day, UTC, on which it was last used; null: it never was. */
  readonly lastUsedAt: number | null;
}

export interface HashedToken extends Token {
  /** SHA-256, hex. */
  readonly hash: string;
}

export function machinesOf(db: Statements) {
  return {
    note: async ({ host, seenAt, clockOffsetMs, runnerVersion }: Machine) => {
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
    /** The boots of workers started since then, in the order of the first worker of each boot. */
    boots: (sinceMs: number) =>
      db.all<HostBoot>(
        `select host, boot_id as "bootId", min(workers.id) as "firstWorker", max(workers.id) as "lastWorker"
         from workers join hosts on hosts.id = host_id where started_at >= ? group by host, boot_id order by min(workers.id)`,
        [sinceMs],
      ),
    /** Replaces the known copies of this tier on this host; writes only differences. */
    noteCopies: (host: string, tier: string, copies: readonly ScriptCopy[]) => noteCopies(db, { host, tier }, copies),
    /** By name, then host. */
    copies: ({ names, seenAfter = Number.MIN_SAFE_INTEGER }: CopiesOf = {}) =>
      db.all<HostCopy>(
        `select copies.host, tier, ${copyColumns} from machines join copies on copies.host = machines.host
         where seen_at > ?${names === undefined ? '' : ` and ${db.dialect.isIn('name')}`} order by name, copies.host`,
        [seenAfter, ...(names === undefined ? [] : [names])],
      ),
    /** Deletes machines that were not seen since, with all known copies; at most `limit`. Returns how many. */
    forget: (seenBefore: number, limit: number) => forget(db, seenBefore, limit),
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

export function apiTokensOf(db: Statements) {
  const read = async (column: 'id' | 'name' | 'hash', value: unknown): Promise<HashedToken | null> =>
    (await db.first<HashedToken>(`select ${tokenColumns}, hash from tokens where ${column} = ?`, [value])) ?? null;
  return {
    /** Null: there is one of that name. */
    add: async ({ name, hash, permission, createdAt, expiresAt }: Omit<HashedToken, 'id' | 'lastUsedAt'>) => {
      const insert = 'insert into tokens (name, hash, permission, created_at, expires_at) values (?, ?, ?, ?, ?)';
      await db.run(db.dialect.upsert(insert, ['name'], []), [name, hash, permission, createdAt, expiresAt]);
      const kept = await read('name', name);
      // MySQL does not say whether it has added it.
      if (kept?.hash !== hash) return null;
      const { hash: _, ...token } = kept;
      return token;
    },
    list: () => db.all<Token>(`select ${tokenColumns} from tokens order by name`),
    byHash: (hash: string) => read('hash', hash),
    byId: (id: number) => read('id', id),
    /** False: there is none of that name. */
    remove: async (name: string) => (await db.run('delete from tokens where name = ?', [name])) > 0,
    /** @param day its beginning, UTC */
    noteUse: async (id: number, day: number) => {
      await db.run('update tokens set last_used_at = ? where id = ?', [day, id]);
    },
  };
}
