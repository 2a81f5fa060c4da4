import { readFileSync } from 'node:fs';
import Database from 'better-sqlite3';
import { expect, test } from 'vitest';
import { SCHEMA_VERSION } from '../../../src/store/schema.ts';
import { APPLICATION_ID } from '../../../src/store/sqlite/file.ts';
import { stateFolderOf } from '../../../src/system/place/state-folder.ts';
import { cronPlace, runCommand } from '../../support/command.ts';
import { changeLog } from '../../support/log.ts';
import { executable, makeTemporaryRoot } from '../../support/root.ts';
import { openSqliteOf } from '../../support/store.ts';

const page = readFileSync(new URL('../../../docs/json.md', import.meta.url), 'utf8');

/** The text from this heading to the next one. */
function sectionOf(heading: string): string {
  const [, section] = page.split(`\n### ${heading}\n`);
  if (section === undefined) throw new Error(`The page has no section ${heading}.`);
  return section.split('\n### ')[0] as string;
}

/** The row of a table of the database in the section of those with few words. */
const rowOf = (table: string): string =>
  sectionOf('Other tables')
    .split('\n')
    .find((line) => line.startsWith(`| \`${table}\``)) ?? '';

/** The names in the first column of a section's table. */
function namesIn(section: string): string[] {
  const cells = [...section.matchAll(/^\| (`[^|]+`) \|/gm)].map(([, cell = '']) => cell);
  return cells.flatMap((cell) => [...cell.matchAll(/`([^`]+)`/g)].map(([, name = '']) => name));
}

/** Asked of the file itself, as whoever has read the page would. */
function queryLog<Row>(root: string, sql: string): Row[] {
  const database = new Database(stateFolderOf(root).database, { readonly: true });
  try {
    return database.prepare<unknown[], Row>(sql).all();
  } finally {
    database.close();
  }
}

const columnsOf = (root: string, table: string): string[] =>
  queryLog<{ name: string }>(root, `pragma table_info(${table})`).map(({ name }) => name);

const queries = [...page.matchAll(/^```sql\n(.*?)^```$/gms)].map(([, query]) => query as string);

/** A log in which each of the page's questions has an answer. */
async function makeRootWithHistory(): Promise<string> {
  const root = makeTemporaryRoot({
    'jobs/hourly/good.sh': executable('#!/bin/sh\necho hello\n'),
    'jobs/hourly/bad.sh': executable('#!/bin/sh\nexit 3\n'),
  });
  runCommand(['hourly', '--root', root], cronPlace(root));
  changeLog(root, `update workers set state = 'crashed', reason = 'its process is gone'`);
  return root;
}

test('the page has questions to ask', () => {
  expect(queries.length).toBeGreaterThanOrEqual(3);
});

test('each question on the page has an answer', async () => {
  const root = await makeRootWithHistory();
  for (const query of queries) {
    expect([query, queryLog(root, query).length]).not.toEqual([query, 0]);
  }
});

test('each table’s columns are on the page', async () => {
  const root = makeTemporaryRoot();
  await openSqliteOf(root);
  for (const table of ['workers', 'jobs', 'runs']) {
    const named = namesIn(sectionOf(`\`${table}\``));
    expect([table, ...named.toSorted()]).toEqual([table, ...columnsOf(root, table).toSorted()]);
  }
  for (const [table, text] of [
    ['hosts', sectionOf('`workers`')],
    ['scripts', sectionOf('`runs`')],
    ['script_versions', sectionOf('`runs`')],
    ['outputs', sectionOf('`runs`')],
    ['counts', sectionOf('`runs`')],
    ['activity', sectionOf('Events')],
    ['events', sectionOf('Events')],
    ['totals', rowOf('totals')],
    ['pauses', rowOf('pauses')],
    ['incidents', rowOf('incidents')],
    ['mutes', rowOf('mutes')],
    ['runs_readable', page],
  ] as const) {
    expect(columnsOf(root, table).filter((column) => !text.includes(`\`${column}\``))).toEqual([]);
  }
});

test('each table and view is on the page', async () => {
  const root = makeTemporaryRoot();
  await openSqliteOf(root);
  const all = `select name from sqlite_master where type in ('table', 'view') and name not like 'sqlite_%'`;
  for (const { name } of queryLog<{ name: string }>(root, all)) {
    expect(page).toContain(`\`${name}\``);
  }
});

test('each event is on the page, and no other', () => {
  const words = readFileSync(new URL('../../../src/store/words.ts', import.meta.url), 'utf8');
  const [union] = words.split('export type ActivityEvent =')[1]?.split(';') ?? [];
  const [stored] = words.split('export type StoredEvent =')[1]?.split(';') ?? [];
  const events = [...`${union}${stored}`.matchAll(/'([a-z-]+)'/g)].map(([, event]) => event);
  expect(namesIn(sectionOf('Events')).toSorted()).toEqual(events.toSorted());
});

test('the page names version and mark of the file', () => {
  expect(page).toContain(`0x${APPLICATION_ID.toString(16)}`);
  expect(page).toContain(`\`user_version\` is the schema's version, now ${SCHEMA_VERSION}.`);
});
