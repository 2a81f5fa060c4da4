import { cpSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { stateFolderOf } from '../../src/system/place/state-folder.ts';
import { runWithFault, startWithFault } from '../support/faults/faults.ts';
import { seed } from '../support/faults/rounds.ts';
import { executable, makeTemporaryRoot } from '../support/root.ts';
import { until } from '../support/until.ts';
import { playRounds } from './mangled.ts';

/*
 * Whatever another program makes of the log, between passes and during one: every script runs, once in each pass,
 * and what is wrong is told in sentences.
 */

const say = (name: string, more = '') => executable(`#!/bin/sh\necho ${name} >> ran\n${more}`);
const files = {
  // Whoever changes the log during a pass does so while the first script runs.
  'jobs/hourly/a.sh': say('a', 'while [ -e hold ]; do sleep 0.01; done\n'),
  'jobs/hourly/b.sh': say('b', 'echo said; exit 3\n'),
  'jobs/hourly/c.mjs': `import { appendFileSync, existsSync } from 'node:fs';
    appendFileSync('ran', 'c\\n');
    if (existsSync('slow')) setTimeout(() => {}, 200);\n`,
};

/** What is done to the file. Numbers choose among what is there, in the order of their names or places. */
interface Change {
  readonly kind: (typeof kinds)[number];
  readonly object: number | string;
  readonly column: number | string;
  readonly value: (typeof values)[number];
  readonly isUnchecked: boolean;
}

/** Before a pass, and while its first script runs. */
interface Story {
  readonly before: readonly Change[];
  readonly during: readonly Change[];
  /** Whether its last script lasts long enough to be recorded while it runs. */
  readonly isSlow?: boolean;
}

const kinds = [
  ...['drop', 'rename', 'rename column', 'drop column', 'add column', 'trigger', 'unique index', 'view'],
  ...['set', 'set', 'set', 'set', 'empty', 'version', 'garble'],
] as const;

const values = [
  ...['null', "''", '0', '-1', '1', '1.5', "'text'", "x'00ff'", '9007199254740993', '9223372036854775807'],
  ...["'running'", "'claimed'", "'queued'", "'retrying'", "'1.1'", '1795369932841', "'hourly'", "'hourly/a'"],
];

const refusals = ["raise(abort, 'no')", "raise(rollback, 'no')", "raise(fail, 'no')", 'raise(ignore)'];
const verbs = ['insert', 'update', 'delete'];

const change: fc.Arbitrary<Change> = fc.record({
  kind: fc.constantFrom(...kinds),
  object: fc.nat(),
  column: fc.nat(),
  value: fc.constantFrom(...values),
  isUnchecked: fc.boolean(),
});

const pick = <T>(items: readonly T[], which: number | string): T =>
  typeof which === 'number' ? (items[which % items.length] as T) : (which as T);

function toSql(database: Database.Database, { kind, object, column, value }: Change): string {
  const named = (types: string) =>
    database
      .prepare(`select name from sqlite_master where type in (${types}) and name not like 'sqlite_%' order by name`)
      .pluck()
      .all() as string[];
  const table = pick(named("'table'"), object);
  const columns = database.prepare('select name from pragma_table_info(?)').pluck().all(table) as string[];
  const name = pick(columns, column);
  switch (kind) {
    case 'drop': {
      const dropped = pick(named("'table', 'index', 'view'"), object);
      const type = database.prepare('select type from sqlite_master where name = ?').pluck().get(dropped);
      return `drop ${type} "${dropped}"`;
    }
    case 'rename':
      return `alter table "${table}" rename to theirs`;
    case 'rename column':
      return `alter table "${table}" rename column "${name}" to theirs`;
    case 'drop column':
      return `alter table "${table}" drop column "${name}"`;
    case 'add column':
      return `alter table "${table}" add column theirs`;
    case 'trigger':
      return `create trigger theirs before ${pick(verbs, column)} on "${table}"
        begin select ${typeof object === 'number' ? pick(refusals, object + Number(column)) : value}; end`;
    case 'unique index':
      return `create unique index theirs on "${table}" ("${name}")`;
    case 'view':
      return `drop table "${table}"; create view "${table}" as select 1 as id`;
    case 'set':
      return `update "${table}" set "${name}" = ${value}`;
    case 'empty':
      return `delete from "${table}"`;
    case 'version':
      return `pragma user_version = ${(Number(object) % 3) - 1}`;
    default:
      return `pragma writable_schema = on; update sqlite_master set sql = ${value} where name = '${table}'`;
  }
}

const setJobs = { kind: 'set', object: 'jobs', isUnchecked: false } as const;

/** Hardly to be found by chance. */
const wellTried: readonly Story[] = [
  // The rows of the scripts that a pass has yet to start are deleted.
  { before: [], during: [{ ...setJobs, kind: 'empty', column: 'id', value: 'null' }] },
  // Nobody has what is told to be running: without a token, or with one of no worker.
  {
    before: [
      { ...setJobs, column: 'state', value: "'running'" },
      { ...setJobs, column: 'finished_at', value: 'null' },
    ],
    during: [],
  },
  {
    before: [
      { ...setJobs, column: 'state', value: "'claimed'" },
      { ...setJobs, column: 'finished_at', value: 'null' },
      { ...setJobs, column: 'claim_token', value: "'text'" },
    ],
    during: [],
  },
  // The same of scripts that a pass has yet to start.
  { before: [], during: [{ ...setJobs, column: 'state', value: "'running'" }] },
  { before: [], during: [{ ...setJobs, column: 'claim_token', value: "'text'" }] },
  { before: [{ ...setJobs, column: 'claim_token', value: "'text'" }], during: [] },
  // Nothing that is told of jobs is kept: what a worker had that has ended looks taken.
  { before: [], during: [{ ...setJobs, kind: 'trigger', column: 'update', value: 'raise(ignore)' }] },
  // The log refuses how a script has ended, and takes it for running: two write as much as one another.
  {
    before: [],
    during: [
      { kind: 'empty', object: 'runs', column: 'id', value: 'null', isUnchecked: false },
      { kind: 'unique index', object: 'runs', column: 'output_bytes', value: 'null', isUnchecked: false },
    ],
    isSlow: true,
  },
];

/** What SQLite refuses, nobody can have done. */
function mangle(root: string, changes: readonly Change[]): void {
  for (const each of changes) {
    const path = stateFolderOf(root).database;
    if (!existsSync(path)) return;
    const database = new Database(path, { timeout: 1_000 });
    try {
      database.unsafeMode();
      database.pragma('foreign_keys = off');
      if (each.isUnchecked) database.pragma('ignore_check_constraints = on');
      database.exec(toSql(database, each));
    } catch {
    } finally {
      database.close();
    }
  }
}

async function makeRoot(): Promise<string> {
  const root = makeTemporaryRoot(files);
  await pass(root, []);
  return root;
}

async function pass(root: string, during: readonly Change[]): Promise<void> {
  const [ran, hold] = [join(root, 'ran'), join(root, 'hold')];
  rmSync(ran, { force: true });
  let ended = runWithFault;
  if (during.length > 0) {
    writeFileSync(hold, '');
    const running = startWithFault(root, ['hourly'], {});
    await until('the first script runs', () => existsSync(ran));
    mangle(root, during);
    rmSync(hold);
    ended = () => running.ended;
  }
  const { status, stderr } = await ended(root, ['hourly']);
  expect([status, stderr]).toEqual([1, expect.not.stringMatching(/^\s+at /m)]);
  const names = existsSync(ran) ? readFileSync(ran, 'utf8').trimEnd().split('\n') : [];
  expect(names.sort(), stderr).toEqual(['a', 'b', 'c']);
}

test(`whatever is done to the log, every script runs once in each pass (FAULT_SEED=${seed})`, async () => {
  const first = await makeRoot();
  const some = fc.array(change, { minLength: 1, maxLength: 3 });
  const stories = fc.record({ before: some, during: fc.option(some, { nil: [] }) });
  const play = async ({ before, during, isSlow = false }: Story): Promise<void> => {
    const root = mkdtempSync(join(tmpdir(), 'runner-'));
    try {
      cpSync(first, root, { recursive: true });
      if (isSlow) writeFileSync(join(root, 'slow'), '');
      mangle(root, before);
      await pass(root, during);
      await pass(root, []);
    } finally {
      rmSync(root, { recursive: true, force: true, maxRetries: 3 });
    }
  };
  await playRounds(120, stories, play, wellTried);
}, 1_800_000);
