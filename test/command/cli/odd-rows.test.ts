import Database from 'better-sqlite3';
import { expect, test } from 'vitest';
import { stateFolderOf } from '../../../src/system/place/state-folder.ts';
import { inRoot, jsonOf, makeQueueSite } from '../../support/command.ts';

/** A job for each of these columns that holds this in it, unless the log refuses that. */
async function makeOddJobs(value: unknown, wanted: (column: string) => boolean, areChecksOn = 1): Promise<string> {
  const root = makeQueueSite();
  await inRoot(root, 'add', 'export', '--at', '+1h');
  const database = new Database(stateFolderOf(root).database);
  database.pragma(`ignore_check_constraints = ${1 - areChecksOn}`);
  const columns = database.prepare<[], { name: string }>('pragma table_info(jobs)').all();
  for (const { name } of columns.filter((column) => wanted(column.name))) {
    const { lastInsertRowid: id } = database.prepare("insert into jobs (name) values ('odd')").run();
    try {
      database.prepare(`update jobs set ${name} = ? where id = ?`).run(value, id);
    } catch (error) {
      expect((error as Error).message).toContain('constraint failed');
    }
  }
  database.close();
  return root;
}

test.each([
  ['text', 'odd'],
  ['a time as text', '2026-12-24 18:00'],
  ['a time before all dates', -1e17],
  ['a time after all dates', 1e300],
  ['a fraction', 0.5],
])('%s in any column stops no reader', async (_, value) => {
  const root = await makeOddJobs(value, (column) => !['id', 'tier'].includes(column));
  for (const args of [
    ['jobs'],
    ['jobs', '--json'],
    ['jobs', '--count'],
    ['jobs', '--upcoming', '99'],
    ['jobs', '--upcoming', '99', '--json'],
    ['status'],
    ['report', '--json'],
  ]) {
    expect({ args, ...(await inRoot(root, ...args)) }).toMatchObject({ status: 0, stderr: '' });
  }
});

const times = ['created_at', 'run_at', 'scheduled_for', 'started_at', 'leased_until'];

test.each([
  ['text', 'odd'],
  ['a time after all dates', 1e300],
])('where the checks of the log were off, too, %s is no time and told as unknown', async (_, value) => {
  const root = await makeOddJobs(value, (column) => times.includes(column), 0);
  const { jobs } = jsonOf(await inRoot(root, 'jobs', '--json')) as { jobs: Record<string, unknown>[] };
  for (const key of ['createdAt', 'runAt']) {
    expect(jobs.map((job) => job[key]).filter((at) => at === null)).toHaveLength(1);
  }
  for (const { id } of jobs) {
    expect(await inRoot(root, 'job', String(id))).toMatchObject({ status: 0, stderr: '' });
    expect(await inRoot(root, 'job', String(id), '--json')).toMatchObject({ status: 0, stderr: '' });
  }
});
