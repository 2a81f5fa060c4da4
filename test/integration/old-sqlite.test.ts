import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { globSync } from 'glob';
import { expect, test } from 'vitest';
import { makeTemporaryRoot } from '../support/root.ts';
import { makeStateOf, openSqliteOf } from '../support/store.ts';

/** PHP brings the SQLite of its system: 3.26 on Enterprise Linux 8. Their sources lie in old packages. */
const oldVersions = [
  ['3.19.3', 'better-sqlite3@4.0.3'],
  ['3.26.0', 'better-sqlite3@5.4.0'],
] as const;

/** They are fetched and compiled. */
const LONG_MS = 240_000;

const INSERT = `insert into jobs (name, data) values ('mail/welcome', '{"to":"a@example.org"}')`;

test.each(oldVersions)('SQLite %s reads the log and adds jobs to it', { timeout: LONG_MS }, async (version, source) => {
  const root = makeTemporaryRoot();
  const { connection } = await openSqliteOf(root);
  const program = buildOldSqlite(source);
  const { database } = makeStateOf(root);
  const ask = (...statements: readonly string[]): string[] =>
    execFileSync(program, [database, ...statements], { encoding: 'utf8' })
      .trim()
      .split('\n');

  const CHECK = 'CHECK constraint failed: ';
  expect(ask('select sqlite_version()', 'pragma journal_mode')).toEqual([version, 'wal']);
  expect(ask(INSERT, 'select id, name, state, priority, run_at > 1.7e12 from jobs')).toEqual([
    '1|mail/welcome|queued|500|1',
  ]);
  expect(ask('select job_id, event from activity')).toEqual(['1|job-queued']);
  expect(ask("insert into jobs (name, data) values ('x', '{')")).toEqual([
    `${CHECK}a job's data is JSON of at most 1 MiB`,
  ]);
  const keyed = "insert into jobs (name, unique_key) values ('x', 'k')";
  expect(ask(keyed, keyed)).toEqual(['UNIQUE constraint failed: jobs.unique_key']);
  expect(ask('select count(*) from runs_readable', 'pragma integrity_check')).toEqual(['0', 'ok']);

  expect(connection.prepare('select id, data from jobs').all([])).toMatchObject([
    { id: 1, data: '{"to":"a@example.org"}' },
    { data: '{}' },
  ]);
});

function buildOldSqlite(source: string): string {
  const folder = makeTemporaryRoot();
  const run = (program: string, ...args: readonly string[]): string =>
    execFileSync(program, args, { cwd: folder, encoding: 'utf8', stdio: 'pipe' });
  run('tar', '-xzf', run('npm', 'pack', '--silent', source).trim());
  const [archive = ''] = globSync('package/deps/sqlite*.tar.gz', { cwd: folder });
  run('tar', '-xzf', archive);
  const [amalgamation = ''] = globSync('**/sqlite3.c', { cwd: folder });
  const main = join(import.meta.dirname, 'old-sqlite.c');
  const headers = `-I${join(folder, amalgamation, '..')}`;
  const libraries = ['-lpthread', '-ldl', '-lm'];
  run('gcc', '-DSQLITE_ENABLE_JSON1', headers, main, amalgamation, ...libraries, '-o', 'old');
  return join(folder, 'old');
}
