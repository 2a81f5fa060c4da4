import { describeServerFailure } from './connect/describe-failure.ts';
import { type DatabaseTarget, nameOfDatabase, readDatabaseUrl } from './connect/url.ts';
import { demandUsable } from './migrate.ts';
import { measureClock, openSession } from './open.ts';
import type { ServerSession } from './session.ts';

/** Facts about a database, and the rights of this user in it. */
export interface DatabaseFacts {
  /** Without user and password. */
  readonly name: string;
  /** `PostgreSQL 16.2` */
  readonly version: string;
  /** `TLSv1.3`; null: the connection is not encrypted. */
  readonly tls: string | null;
  /** Whether it leaves this machine. */
  readonly isRemote: boolean;
  readonly tripMs: number;
  /** The database's clock minus this machine's own. */
  readonly clockOffsetMs: number;
  /** 0: there are no tables yet. */
  readonly schemaVersion: number;
  readonly connections: { readonly used: number; readonly limit: number };
  /** Rights that a pass needs and this user lacks: `update`, `create`. */
  readonly missingRights: readonly string[];
  /** A setting of the server with which nothing can be written; null: none. */
  readonly pitfall: string | null;
}

/**
 * Asks the database that the environment names.
 *
 * @throws {StoreUnavailable} when it cannot be reached, or the log in it is not to be used
 * @throws {UsageError} when its address is none
 */
export async function examineDatabase(root: string, env: NodeJS.ProcessEnv): Promise<DatabaseFacts> {
  const target = readDatabaseUrl(root, env) as DatabaseTarget;
  const session = await openSession(target);
  session.patienceMs = target.connectTimeoutMs;
  try {
    const asked = target.engine === 'postgres' ? await askPostgres(session, target) : await askMysql(session);
    demandUsable(asked.schemaVersion, target);
    await demandWritable(session, target, asked);
    const { offsetMs, tripMs } = await measureClock(session);
    return {
      ...asked,
      tripMs,
      clockOffsetMs: Math.round(offsetMs),
      name: nameOfDatabase(target),
      isRemote: target.socket === null && !/^(localhost|127\.|::1$)/.test(target.host),
    };
  } finally {
    await session.close();
  }
}

/**
 * Tries a change of no row, if there are tables: the server itself then gives the reason for a refusal.
 *
 * @throws {StoreUnavailable} if every write is refused
 */
async function demandWritable(session: ServerSession, target: DatabaseTarget, asked: Asked): Promise<void> {
  if (asked.missingRights.length > 0) return;
  if (asked.schemaVersion > 0) {
    await session.ask(() => session.run('delete from schema_version where version < 0', [], 'none'));
    return;
  }
  const [setting, code] =
    target.engine === 'postgres'
      ? ["current_setting('transaction_read_only') = 'on'", '25006']
      : ['@@read_only = 1', 'ER_OPTION_PREVENTS_STATEMENT'];
  const refused = await session.ask(() => session.first(`select 1 as one where ${setting}`));
  if (refused !== undefined)
    throw describeServerFailure(Object.assign(new Error('nothing can be written'), { code }), target);
}

type Asked = Omit<DatabaseFacts, 'name' | 'isRemote' | 'tripMs' | 'clockOffsetMs'>;

async function askPostgres(session: ServerSession, { schema }: DatabaseTarget): Promise<Asked> {
  return await session.ask(async () => {
    const facts = await session.first<Record<string, string | number | null>>(
      `select current_setting('server_version') as version,
         (select version from pg_stat_ssl where pid = pg_backend_pid()) as tls,
         current_setting('max_connections')::int as most,
         (select count(*) from pg_stat_activity where backend_type = 'client backend') as used,
         (select rolconnlimit from pg_roles where rolname = current_user) as own_most,
         (select count(*) from pg_stat_activity where usename = current_user) as own,
         (select count(*) from pg_namespace where nspname = ?) as schemas,
         has_database_privilege(current_database(), 'create') as may_create_schema`,
      [schema],
    );
    const { version, tls, most, used, own_most: ownMost, own, schemas } = facts ?? {};
    const isOwn = Number(ownMost) >= 0;
    return {
      version: `PostgreSQL ${version}`,
      tls: tls === null || tls === undefined ? null : String(tls),
      connections: isOwn ? { used: Number(own), limit: Number(ownMost) } : { used: Number(used), limit: Number(most) },
      pitfall: null,
      ...(Number(schemas) > 0
        ? await rightsInSchema(session, schema)
        : { schemaVersion: 0, missingRights: facts?.may_create_schema ? [] : [`create schema ${schema}`] }),
    };
  });
}

type Rights = Pick<DatabaseFacts, 'schemaVersion' | 'missingRights'>;

async function rightsInSchema(session: ServerSession, schema: string): Promise<Rights> {
  const row = await session.first<{ usage: number; make: number; version: string | null }>(
    `select has_schema_privilege(?, 'usage') as usage, has_schema_privilege(?, 'create') as make,
       to_regclass('schema_version')::text as version`,
    [schema, schema],
  );
  if (!row?.usage) return { schemaVersion: 0, missingRights: ['usage'] };
  if (row.version === null) return { schemaVersion: 0, missingRights: row.make ? [] : ['create'] };
  const missing = await session.all<{ privilege: string }>(
    `select privilege from unnest(array['select', 'insert', 'update', 'delete']) as privilege
     where not has_table_privilege('jobs', privilege)`,
  );
  return { schemaVersion: await readVersion(session), missingRights: missing.map(({ privilege }) => privilege) };
}

async function readVersion(session: ServerSession): Promise<number> {
  const row = await session.first<{ version: number | null }>('select max(version) as version from schema_version');
  return row?.version ?? 0;
}

/** Without `create` and its like tables can be used, but not be made, nor brought to a newer schema. */
const needed = ['select', 'insert', 'update', 'delete'];
const neededToMake = ['create', 'alter', 'index', 'references', 'create view', 'drop'];

async function askMysql(session: ServerSession): Promise<Asked> {
  return await session.ask(async () => {
    const facts = await session.first<Record<string, string | number>>(
      `select version() as version, @@max_connections as most, @@max_user_connections as own_most,
         substring_index(current_user(), '@', 1) as user,
         @@log_bin as log_bin, @@binlog_format as format, database() as name`,
    );
    // As a table, MySQL fails by what others are just asking, if that has signs beyond its old character set.
    const processes = await session.all<{ readonly User: string }>('show processlist');
    const status = await session.all<Record<string, string>>(
      `show status where variable_name in ('Ssl_version', 'Threads_connected')`,
    );
    const statusOf = (name: string): string => status.find((row) => row.Variable_name === name)?.Value ?? '';
    const tables = await session.all(
      `select 1 as one from information_schema.tables where table_schema = database() and table_name = 'schema_version'`,
    );
    const isMade = tables.length > 0;
    const grants = await session.all<Record<string, string>>('show grants');
    const version = String(facts?.version);
    const ownMost = Number(facts?.own_most);
    const isStatement = Number(facts?.log_bin) === 1 && facts?.format === 'STATEMENT';
    return {
      // Behind it stands who has built it, such as `-MariaDB` or `-0ubuntu0.24.04.1`.
      version: `${/mariadb/i.test(version) ? 'MariaDB' : 'MySQL'} ${version.split('-')[0]}`,
      tls: statusOf('Ssl_version') || null,
      connections:
        ownMost > 0
          ? { used: processes.filter(({ User }) => User === facts?.user).length, limit: ownMost }
          : { used: Number(statusOf('Threads_connected')), limit: Number(facts?.most) },
      pitfall: isStatement ? 'binlog_format is STATEMENT' : null,
      schemaVersion: isMade ? await readVersion(session) : 0,
      missingRights: missingIn(
        grants.flatMap((row) => Object.values(row)),
        String(facts?.name),
        isMade ? needed : [...needed, ...neededToMake],
      ),
    };
  });
}

/** Names of databases in grants are patterns, as `like` has them. */
function patternOf(name: string): RegExp {
  const parts = [...name.matchAll(/\\(.)|(.)/gs)].map(([, exact, any]) => {
    if (any === '%') return '.*';
    return any === '_' ? '.' : (exact ?? any ?? '').replace(/[^\w]/g, '\\$&');
  });
  return new RegExp(`^${parts.join('')}$`, 's');
}

/** Rights from roles are unknown; in that case none counts as missing. */
function missingIn(grants: readonly string[], database: string, wanted: readonly string[]): string[] {
  const given = grants.flatMap((grant) => {
    const [, list = '', called = ''] = /^grant (.+?) on (\*|[`"][^`"]+[`"])\.\*/i.exec(grant) ?? [];
    const isHere = called === '*' || patternOf(called.slice(1, -1)).test(database);
    return isHere ? [list.toLowerCase()] : [];
  });
  const hasAll = given.some((list) => list.startsWith('all privileges'));
  const isByRole = grants.some((grant) => /^grant (?!.* on )/i.test(grant));
  if (hasAll || isByRole) return [];
  const words = new Set(given.flatMap((list) => list.split(',').map((word) => word.trim())));
  return wanted.filter((right) => !words.has(right));
}
