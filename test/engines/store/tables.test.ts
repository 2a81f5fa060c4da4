import { expect, test } from 'vitest';
import { engine } from '../../support/engines/engines.ts';
import { makeTemporaryRoot } from '../../support/root.ts';
import { openStoreOf } from '../../support/store.ts';

/** What the engine reports of each table: columns, constraints, indexes. */
const reports: Readonly<Record<string, readonly string[]>> = {
  sqlite: [
    `select tbl_name as "table", sql as part from sqlite_master
     where type in ('table', 'index') and sql is not null order by rowid`,
  ],
  postgres: [
    `select table_name as "table", column_name || ' ' || data_type || coalesce(' ' || domain_name, '')
       || coalesce(' collate ' || collation_name, '')
       || case when is_nullable = 'NO' then ' not null' else '' end || coalesce(' default ' || column_default, '')
       || case when is_identity = 'YES' then ' identity' else '' end as part
     from information_schema.columns where table_schema = current_schema() order by table_name, ordinal_position`,
    `select cast(cast(conrelid as regclass) as text) as "table", pg_get_constraintdef(oid) as part from pg_constraint
     where connamespace = cast(current_schema() as regnamespace) and contype in ('c', 'f', 'u') and conrelid <> 0
     order by conname`,
    `select tablename as "table", replace(indexdef, schemaname || '.', '') as part from pg_indexes
     where schemaname = current_schema() order by indexname`,
  ],
  // MySQL and MariaDB write expressions in words of their own: these are left out.
  mysql: [
    `select table_name as "table", concat(column_name, ' ', data_type,
       case data_type when 'varchar' then concat('(', character_maximum_length, ')') else '' end,
       case is_nullable when 'NO' then ' not null' else '' end,
       case when lower(extra) like '%virtual%' then ' computed' when extra like '%auto_increment%' then ' identity'
         when coalesce(column_default, 'NULL') = 'NULL' then '' when column_default like '%unix%' then ' default now'
         else concat(' default ', regexp_replace(column_default, '^_utf8mb4|[^a-z0-9{}]', '')) end) as part
     from information_schema.columns where table_schema = database() order by table_name, ordinal_position`,
    `select table_name as "table", concat(count(*), ' checks') as part from information_schema.table_constraints
     where table_schema = database() and constraint_type = 'CHECK' group by table_name`,
    `select table_name as "table", concat(column_name, ' references ', referenced_table_name) as part
     from information_schema.key_column_usage
     where table_schema = database() and referenced_table_name is not null order by column_name`,
    `select table_name as "table", concat(case non_unique when 0 then 'unique ' else '' end, index_name, ' (',
       group_concat(column_name order by seq_in_index separator ', '), ')') as part
     from information_schema.statistics where table_schema = database()
     group by table_name, index_name, non_unique order by table_name, index_name`,
  ],
};

interface Part {
  readonly table: string;
  readonly part: string;
}

const withoutLines = (sql: string): string => sql.replace(/\s+/g, ' ').replace(/(?<=\() | (?=\))/g, '');
const isOfTable = ({ table }: Part): boolean => table !== 'activity' && table !== 'totals';

test('a new log has the tables, columns, constraints and indexes that are recorded here', async () => {
  const root = makeTemporaryRoot();
  await openStoreOf(root);
  const log = engine.connect(root, 'change');
  const parts = (reports[engine.name] ?? []).flatMap((report) => log.all<Part>(report)).filter(isOfTable);
  log.close();
  // Engines sort names by rules of their own.
  const names = [...new Set(parts.map(({ table }) => table))].sort();
  const tables = names.map((name) => {
    const own = parts.flatMap(({ table, part }) => (table === name ? [withoutLines(part)] : []));
    return `${name}: ${own.join('; ')}\n`;
  });
  await expect(tables.join('')).toMatchFileSnapshot(`./tables/${engine.name}.txt`);
});
