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
