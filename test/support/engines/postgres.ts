import { asUser, createServerEngine } from './server.ts';

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
