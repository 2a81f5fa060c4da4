import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { describe, expect, test } from 'vitest';
import { cronEnv, inRoot, startCommand } from '../../support/command.ts';
import type { LoggedJob } from '../../support/engines/engine.ts';
import { makeBedrock, makeLaterJob } from '../../support/foreign.ts';
import { queryLog } from '../../support/log.ts';
import { makeTemporaryRoot } from '../../support/root.ts';

const handler = `import { appendFileSync } from 'node:fs';
export default ({ name, data, parentData, children }) => {
  const told = { name, data, parentData, finished: children.finished.map((child) => child.data) };
  appendFileSync('evidence.jsonl', JSON.stringify(told) + '\\n');
};
`;

const readEvidence = (root: string): unknown[] =>
  readFileSync(join(root, 'evidence.jsonl'), 'utf8')
    .split('\n')
    .slice(0, -1)
    .map((line) => JSON.parse(line));

const selectJobs = (root: string): LoggedJob[] => queryLog(root, 'select * from jobs order by id');

describe('an imported queue of Bedrock', () => {
  const jobs = [
    { jobID: 10, name: 'Export', state: 'PAUSED', data: '{"file":"a.csv"}' },
    { jobID: 11, name: 'Part', parentJobID: 10, state: 'FINISHED', data: '{"rows":1}' },
    { jobID: 12, name: 'Part', parentJobID: 10, data: '{"rows":2}' },
    { jobID: 13, name: 'Urgent', priority: 1000 },
    { jobID: 14, name: 'Old', state: 'FAILED' },
  ];
  const files = Object.fromEntries(
    ['Export', 'Part', 'Urgent', 'Old'].map((name) => [`jobs/queue/${name}.mjs`, handler]),
  );

  test('is worked off in its order, families included, and not a second time', async () => {
    const root = makeTemporaryRoot(files);
    const path = makeBedrock({ folder: root }, jobs);

    const imported = await inRoot(root, 'import', 'bedrock', 'bedrock.db');
    expect(imported).toEqual({
      status: 0,
      stderr: '',
      stdout:
        `Imported 4 jobs from ${path} (Bedrock, table jobs): 2 queued, 1 paused, 1 finished.\n` +
        '1 job that has ended was left out; --with-ended imports these too.\n',
    });
    expect((await inRoot(root, 'work')).status).toBe(0);
    expect(readEvidence(root)).toEqual([
      { name: 'Urgent', data: {}, parentData: null, finished: [] },
      { name: 'Part', data: { rows: 2 }, parentData: { file: 'a.csv' }, finished: [] },
      { name: 'Export', data: { file: 'a.csv' }, parentData: null, finished: [{ rows: 1 }, { rows: 2 }] },
    ]);

    const again = await inRoot(root, 'import', 'bedrock', path, '--with-ended');
    expect(again.stdout).toBe(
      `Imported 1 job from ${path} (Bedrock, table jobs): 1 failed.\n4 jobs were imported before.\n`,
    );
    expect((await inRoot(root, 'work')).status).toBe(0);
    expect(readEvidence(root)).toHaveLength(3);
  });

  test('gives up a job that had failed only once it is kicked', async () => {
    const root = makeTemporaryRoot(files);
    makeBedrock({ folder: root }, jobs.slice(-1));
    await inRoot(root, 'import', 'bedrock', 'bedrock.db', '--with-ended');
    expect((await inRoot(root, 'work')).status).toBe(0);
    expect(existsSync(join(root, 'evidence.jsonl'))).toBe(false);
    expect((await inRoot(root, 'kick', 'Old')).stdout).toBe('Kicked 1 job.\n');
    expect((await inRoot(root, 'work')).status).toBe(0);
    expect(readEvidence(root)).toHaveLength(1);
  });
});

test('an imported job of LaterJob has the tries that were left to it', async () => {
  const fails = "export default () => { throw new Error('still down'); };\n";
  const tags = '// @retry-delay 1s\n';
  const root = makeTemporaryRoot({ 'jobs/queue/mail/send.mjs': `${tags}${fails}` });
  makeLaterJob(
    { folder: root },
    {
      jobs: [{ job_id: 'a', state_id: 4, retry_count: 1, job_data: '{"to":"a@example.org"}' }],
      transitions: [{ job_id: 'a', state_id: 2, dte_occured: '2026-03-01 08:00:00' }],
    },
  );
  expect((await inRoot(root, 'import', 'laterjob', 'later.db', '--name', 'mail/send')).status).toBe(0);
  expect((await inRoot(root, 'work', '--wait', '2s')).status).toBe(1);
  expect(selectJobs(root)).toMatchObject([{ state: 'failed', attempts: 3 }]);
});

test('two imports of one file at the same moment add each job once', async () => {
  const root = makeTemporaryRoot();
  const jobs = Array.from({ length: 300 }, (_, index) => ({ jobID: index + 1 }));
  makeBedrock({ folder: root }, jobs);
  const args = ['import', 'bedrock', 'bedrock.db', '--json'];
  const started = [1, 2].map(() => startCommand(args, { cwd: root, env: cronEnv(root) }));
  const ended = await Promise.all(started.map((each) => each.ended));
  expect(ended.map(({ status }) => status)).toEqual([0, 0]);
  const told = ended.map(({ stdout }) => JSON.parse(stdout));
  expect(told.map(({ known }) => known).sort((one, other) => one - other)).toEqual([0, 300]);
  expect(selectJobs(root)).toHaveLength(300);
});

test('a dry run makes no log, and says what would be done', async () => {
  const root = makeTemporaryRoot();
  const path = makeBedrock({ folder: root, journal: 'wal' }, [
    { jobID: 1, repeat: 'HOURLY' },
    { jobID: 2, state: 'RUNNING' },
  ]);
  const { status, stdout } = await inRoot(root, 'import', 'bedrock', path, '--dry-run');
  expect(status).toBe(0);
  expect(stdout).toBe(
    `Would import 2 jobs from ${path} (Bedrock, table jobs): 2 queued. Nothing was written.\n` +
      'Note: 1 job (1): HOURLY means FINISHED, +1 HOUR here; Bedrock itself runs it at the full hour.\n' +
      'Note: 1 job (2): RUNNING, so a worker of Bedrock may be running it: queued, and run here as well.\n',
  );
  expect(readdirSync(root).filter((name) => name !== '.cache')).toEqual(['bedrock.db', 'jobs']);
});

test('jobs without a handler are named', async () => {
  const root = makeTemporaryRoot();
  makeBedrock({ folder: root }, [{ jobID: 1, name: 'Send' }]);
  expect((await inRoot(root, 'import', 'bedrock', 'bedrock.db')).stderr).toContain('no handler for Send');
});

describe('bad jobs', () => {
  const jobs = Array.from({ length: 25 }, (_, index) => ({
    jobID: index + 1,
    nextRun: index === 0 ? '2026-03-01 08:00:00' : 'soon',
  }));

  test('keep all others back, and are told one in a line', async () => {
    const root = makeTemporaryRoot();
    makeBedrock({ folder: root }, jobs);
    const { status, stdout, stderr } = await inRoot(root, 'import', 'bedrock', 'bedrock.db');
    const lines = stderr.trimEnd().split('\n');
    expect({ status, stdout }).toEqual({ status: 2, stdout: '' });
    expect(lines[0]).toBe('runner: 24 jobs of Bedrock cannot be imported, so none was:');
    expect(lines[1]).toBe('  job 2: its nextRun is "soon", expected such as 2026-12-24 18:00:00');
    expect(lines.slice(-2)).toEqual([
      '  and 4 more, which --json lists',
      'Fix them there, or leave them out with --skip-bad.',
    ]);
    expect(selectJobs(root)).toEqual([]);
  });

  test('are left out and listed if that is wanted', async () => {
    const root = makeTemporaryRoot();
    makeBedrock({ folder: root }, jobs);
    const args = ['import', 'bedrock', 'bedrock.db', '--skip-bad'];
    const { status, stdout } = await inRoot(root, ...args);
    expect(status).toBe(0);
    expect(stdout.match(/^Left out: job \d+: its nextRun is "soon"/gm)).toHaveLength(24);
    expect(selectJobs(root)).toHaveLength(1);
  });

  test.each([[[]], [['--dry-run']]])('are all listed as JSON with %j', async (more) => {
    const root = makeTemporaryRoot();
    makeBedrock({ folder: root }, jobs);
    const args = ['import', 'bedrock', 'bedrock.db', '--json', ...more];
    const { status, stdout } = await inRoot(root, ...args);
    expect(status).toBe(2);
    expect(JSON.parse(stdout)).toMatchObject({ refused: true, imported: {} });
    expect(JSON.parse(stdout).bad).toHaveLength(24);
  });
});

test('as JSON it says all that it did', async () => {
  const root = makeTemporaryRoot({ 'jobs/queue/Mail.mjs': handler });
  const path = makeBedrock({ folder: root }, [
    { jobID: 1 },
    { jobID: 2, data: '{"mockRequest":true}' },
    { jobID: 3, state: 'FAILED' },
    { jobID: 4, name: '' },
  ]);
  const args = ['import', 'bedrock', path, '--skip-bad', '--json'];
  const { status, stdout, stderr } = await inRoot(root, ...args);
  expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
  expect(JSON.parse(stdout)).toEqual({
    file: path,
    system: 'Bedrock',
    table: 'jobs',
    dryRun: false,
    refused: false,
    imported: { queued: 1 },
    names: ['Mail'],
    known: 0,
    leftOut: { ended: 1, mocked: 1 },
    bad: [{ id: '4', problem: expect.stringContaining("A job's name must be") }],
    notes: [],
  });
});

describe('told in one sentence, with exit code 2:', () => {
  const addColumn = (path: string) => {
    const database = new Database(path);
    database.exec('alter table jobs add column sequentialKey text');
    database.close();
  };

  test.each([
    ['a file that is not there', ['bedrock', 'none.db'], /none\.db does not exist; check its name \(ENOENT/],
    ['another system’s file', ['bedrock', 'later.db'], /not a queue of Bedrock: there is no table jobs/],
    ['a table that is another', ['laterjob', 'bedrock.db', '--table', 'jobs'], /table jobs has no job_id/],
    ['a text file', ['bedrock', 'jobs/hourly/a.sh'], /a\.sh is not an SQLite database; name the file of the queue\.$/],
    ['an unknown system', ['celery', 'bedrock.db'], /import needs laterjob or bedrock, found "celery"\./],
    ['a crontab', ['crontab'], /did you mean `npx folder-runner cron --import`\?/],
    ['a name for Bedrock’s', ['bedrock', 'bedrock.db', '--name', 'x'], /--name is for laterjob only/],
    ['a zone for Bedrock’s', ['bedrock', 'bedrock.db', '--time-zone', 'UTC'], /--time-zone is for/],
    ['a zone that is none', ['laterjob', 'later.db', '--time-zone', 'Berlin'], /did you mean Europe\/Berlin\?/],
    ['a name that is none', ['laterjob', 'later.db', '--name', 'a//b'], /A job's name must be .* found "a\/\/b"/],
    ['a newer table', ['bedrock', 'newer.db'], /it cannot tell what sequentialKey means .* --table\.$/],
  ])('%s', async (_what, args, message) => {
    const root = makeTemporaryRoot({ 'jobs/hourly/a.sh': 'true\n'.repeat(40) });
    makeBedrock({ folder: root }, [{ jobID: 1 }]);
    makeLaterJob({ folder: root }, { jobs: [{ job_id: 'a' }] });
    addColumn(makeBedrock({ folder: root, file: 'newer.db' }, [{ jobID: 1 }]));
    const { status, stdout, stderr } = await inRoot(root, 'import', ...args);
    expect({ status, stdout }).toEqual({ status: 2, stdout: '' });
    expect(stderr.trimEnd()).toMatch(message);
    expect(stderr.trimEnd().split('\n')).toHaveLength(1);
    expect(existsSync(join(root, '.runner'))).toBe(false);
  });
});

test('of a newer table one without its new column is taken, and no view, virtual table or computed column is run', async () => {
  const root = makeTemporaryRoot();
  const path = makeBedrock({ folder: root }, [{ jobID: 1 }]);
  const database = new Database(path);
  database.exec(`alter table jobs add column sequentialKey text;
    create table known as select created, jobID, state, name, nextRun, lastRun, repeat, data from jobs;
    create view endless as with recursive other as (select * from known union all select * from other)
      select * from other;
    create table computed as select * from known;
    alter table computed add column priority as (length(hex(zeroblob(400000000))));
    create virtual table indexed using fts5(created, jobID, state, name, nextRun, lastRun, repeat, data)`);
  database.close();
  for (const table of ['endless', 'computed', 'indexed']) {
    const { status, stderr } = await inRoot(root, 'import', 'bedrock', path, '--table', table);
    expect([status, stderr]).toEqual([2, expect.stringMatching(/is a view, a virtual table or one with computed/)]);
  }
  expect((await inRoot(root, 'import', 'bedrock', path, '--table', 'known')).status).toBe(0);
  expect(selectJobs(root)).toHaveLength(1);
});
