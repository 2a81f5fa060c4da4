import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { APPLICATION_ID } from '../../src/store/sqlite/file.ts';
import { SCHEMA_VERSION } from '../../src/store/sqlite/migrations.ts';

import { cronPlace } from '../support/cron-place.ts';
import { changeLog, queryLog } from '../support/open-log.ts';
import { runCommand } from '../support/run-command.ts';
import { openStoreOf } from '../support/state-of.ts';
import { executable, makeTemporaryRoot } from '../support/temporary-root.ts';

const page = readFileSync(new URL('../../docs/activity-log.md', import.meta.url), 'utf8');

/** The text from this heading to the next one of its kind. */
function sectionOf(heading: string): string {
  const [, section] = page.split(`\n## ${heading}\n`);
  if (section === undefined) throw new Error(`The page has no section ${heading}.`);
  return section.split('\n## ')[0] as string;
}

/** The names in the first column of a section's tables. */
function namesIn(section: string): string[] {
  return [...section.matchAll(/^\| `([^`]+)` \|/gm)].map(([, name]) => name as string);
}

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
  expect(queries.length).toBeGreaterThanOrEqual(8);
});

test('each question on the page has an answer', async () => {
  const root = await makeRootWithHistory();
  for (const query of queries) {
    expect([query, queryLog(root, query).length]).not.toEqual([query, 0]);
  }
});

test('each table’s columns are on the page, all of them and in their order', async () => {
  const root = makeTemporaryRoot();
  await openStoreOf(root);
  for (const table of ['workers', 'jobs', 'runs', 'activity', 'pauses']) {
    const columns = queryLog<{ name: string }>(root, `pragma table_info(${table})`);
    const section = sectionOf(`\`${table}\``).split('\n| event | told')[0] as string;
    expect([table, ...namesIn(section)]).toEqual([table, ...columns.map(({ name }) => name)]);
  }
});

test('each table, view and index is on the page', async () => {
  const root = makeTemporaryRoot();
  await openStoreOf(root);
  const all = `select name from sqlite_master where name not like 'sqlite_%'`;
  for (const { name } of queryLog<{ name: string }>(root, all)) {
    expect(page).toContain(`\`${name}\``);
  }
  for (const { name } of queryLog<{ name: string }>(root, 'pragma table_info(runs_readable)')) {
    expect(sectionOf('`runs_readable`')).toContain(`\`${name}\``);
  }
});

test('each event is on the page, and no other', () => {
  const schema = readFileSync(new URL('../../src/store/schema.ts', import.meta.url), 'utf8');
  const [union] = schema.split('export type ActivityEvent =')[1]?.split(';') ?? [];
  const events = [...(union ?? '').matchAll(/'([a-z-]+)'/g)].map(([, event]) => event);
  const section = sectionOf('`activity`').split('\n| event | told')[1] as string;
  expect(namesIn(section).toSorted()).toEqual(events.toSorted());
});

test('the page names version and mark of the file', () => {
  expect(page).toContain(`0x${APPLICATION_ID.toString(16)}`);
  expect(page).toContain(`\`user_version\` is the schema's version, now ${SCHEMA_VERSION}.`);
});
