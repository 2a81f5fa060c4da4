import { asUser, createServerEngine } from './server.ts';

interface Process {
  readonly Id: number;
  readonly User: string;
}

/** MySQL and MariaDB: a database for each root, and one more of views for who reads. */
export const mysql = createServerEngine({
  name: 'mysql',
  variable: 'TEST_MYSQL_URL',
  urlOf: (server, name) => asUser(urlIn(server, name), name),
  nameIn: (url) => new URL(url).pathname.slice(1),
  ownerUrl: urlIn,
  administratorUrl: (server) => urlIn(server, 'information_schema'),
  make: (name) => [
    `create database ${name} character set utf8mb4`,
    `create user ${name} identified by 'password'`,
    `grant all on ${name}.* to ${name}`,
  ],
  drop: (name) => [`drop database if exists ${name}`, `drop database if exists ${shown(name)}`, `drop user ${name}`],
  others: (administrator, name) => {
    // As a table, MySQL fails by what others are just asking, if that has signs beyond its old character set.
    const processes = administrator.ask('show processlist').rows as readonly Process[];
    return processes.filter(({ User }) => User === name).map(({ Id }) => Id);
  },
  endOther: (administrator, id) => {
    try {
      administrator.ask(`kill ${id}`);
    } catch (error) {
      // It has ended meanwhile.
      if ((error as NodeJS.ErrnoException).code !== 'ER_NO_SUCH_THREAD') throw error;
    }
  },
  empty: (owner, tables) => {
    const others = tables.filter((table) => table !== 'schema_version');
    if (others.length === 0) return;
    const anyIn = others.map((table) => `select '${table}' as name from dual where exists (select 1 from ${table})`);
    const full = owner.ask(anyIn.join(' union all ')).rows as { readonly name: string }[];
    owner.ask('set foreign_key_checks = 0');
    for (const { name } of full) owner.ask(`delete from ${name}`);
    owner.ask('set foreign_key_checks = 1');
    // It takes as long as to make a table.
    const numbered = owner.ask(
      `select table_name as name from information_schema.tables
        where table_schema = database() and auto_increment > 1`,
    ).rows as { readonly name: string }[];
    for (const { name } of numbered) owner.ask(`alter table ${name} auto_increment = 1`);
  },
  tables: (name) => `select table_name as name from information_schema.tables
    where table_schema = '${name}' and table_type = 'BASE TABLE' order by 1`,
  showToAll: (name, tables, views) => {
    const asTheyAre = tables().map((table) => [table, `select * from ${name}.${table}`]);
    const all = { ...Object.fromEntries(asTheyAre), ...views };
    return [
      `create database if not exists ${shown(name)} character set utf8mb4`,
      ...Object.entries(all).map(([view, query]) => `create or replace view ${shown(name)}.${view} as ${query}`),
    ];
  },
  showToOne: () => [],
  readerUrl: (server, name) => urlIn(server, shown(name)),
  beginReading: [
    'set transaction isolation level repeatable read',
    'start transaction with consistent snapshot, read only',
  ],
  sql: {
    integer: (text) => `cast(${text} as signed)`,
    before: (text, mark) => `substring_index(${text}, '${mark}', 1)`,
  },
  // In this isolation, whoever has looked at all rows keeps others from adding one.
  hold: (tables, patienceMs) => [
    `set innodb_lock_wait_timeout = ${Math.max(1, Math.round(patienceMs / 1_000))}`,
    'set transaction isolation level serializable',
    'begin',
    ...tables.map((table) => `select 1 from ${table} for update`),
  ],
  isHeld: ({ code }) => code === 'ER_LOCK_WAIT_TIMEOUT',
  refuse: (what) => ({
    begin: [
      `create trigger "${what}" before ${what} for each row signal sqlstate '45000' set message_text = 'no room'`,
    ],
    end: [`drop trigger "${what}"`],
  }),
  lie: () => ['set foreign_key_checks = 0 /*M!, check_constraint_checks = 0 */'],
});

function shown(name: string): string {
  return `${name}_shown`;
}

function urlIn(server: string, database: string): string {
  const url = new URL(server);
  url.pathname = `/${database}`;
  return url.href;
}

/** PostgreSQL: a schema for each root. Who reads has views of its own connection, which hide the tables. */
export const postgres = createServerEngine({
  name: 'postgres',
  variable: 'TEST_POSTGRES_URL',
  urlOf: (server, name) => inSchema(asUser(server, name), name),
  nameIn: (url) => new URL(url).searchParams.get('schema') ?? '',
  ownerUrl: inSchema,
  readerUrl: inSchema,
  administratorUrl: (server) => server,
  make: (name) => [`create role ${name} login password 'password'`, `create schema ${name} authorization ${name}`],
  drop: (name) => [`drop owned by ${name} cascade`, `drop role ${name}`],
  others: (administrator, name) => {
    const { rows } = administrator.ask('select pid from pg_stat_activity where usename = ?', [name]);
    return (rows as readonly { readonly pid: number }[]).map(({ pid }) => pid);
  },
  endOther: (administrator, pid) => {
    administrator.ask('select pg_terminate_backend(?, 5000)', [pid]);
  },
  empty: (owner, tables) => {
    if (tables.length === 0) return;
    const anyIn = tables
      .filter((table) => table !== 'schema_version')
      .map((table) => `select '${table}' as name where exists (select 1 from "${table}")`);
    const full = owner.ask(anyIn.join(' union all ')).rows.map((row) => (row as { readonly name: string }).name);
    // Of few rows, faster than `truncate`.
    const deletes = full.map((table) => `"${table} gone" as (delete from "${table}")`);
    if (full.length > 0) owner.ask(`with ${deletes.join(', ')} select 1`);
    // Of tables that are empty, too.
    const used = `select sequencename as name from pg_sequences
      where schemaname = current_schema() and last_value is not null`;
    for (const { name } of owner.ask(used).rows as { readonly name: string }[]) {
      owner.ask(`alter sequence ${name} restart`);
    }
  },
  tables: (name) => `select tablename as name from pg_tables where schemaname = '${name}' order by 1`,
  showToAll: () => [],
  showToOne: (views) => Object.entries(views).map(([view, query]) => `create temp view ${view} as ${query}`),
  beginReading: ['begin isolation level repeatable read, read only'],
  sql: {
    integer: (text) => `cast(${text} as bigint)`,
    before: (text, mark) => `split_part(${text}, '${mark}', 1)`,
  },
  hold: (tables, patienceMs) => [
    'begin',
    'set local idle_in_transaction_session_timeout = 0',
    `set local lock_timeout = ${patienceMs}`,
    `lock table ${tables.join(', ')} in exclusive mode`,
  ],
  isHeld: ({ code }) => code === '55P03',
  refuse: (what) => ({
    begin: [
      `create or replace function refuse() returns trigger language plpgsql as
        $$ begin raise exception 'no room'; end $$`,
      `create trigger "${what}" before ${what} for each row execute function refuse()`,
    ],
    end: [`drop trigger "${what}" on ${tableIn(what)}`],
  }),
  lie: (tables) => [
    "set session_replication_role = 'replica'",
    'alter domain json_text drop constraint if exists json_text_check',
    `do $$ declare it record; begin
      for it in select conrelid::regclass as owner, conname from pg_constraint
        where contype = 'c' and conrelid in (${tables.map((table) => `'${table}'::regclass`).join(', ')})
      loop execute format('alter table %s drop constraint %I', it.owner, it.conname); end loop;
    end $$`,
  ],
});

function inSchema(server: string, name: string): string {
  return `${server}?schema=${name}`;
}

/** Of `update on runs`. */
function tableIn(what: string): string {
  return what.split(' ').at(-1) ?? '';
}
