import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { identifyProcess } from '../../../src/system/process/identity.ts';
import { cronEnv, inRoot, readRuns, runCommand } from '../../support/command.ts';
import { changeLog, queryLog, testOfSqlite } from '../../support/log.ts';
import { makeTemporaryRoot } from '../../support/root.ts';

test('one script is run, with cron’s environment, and recorded as started by hand', () => {
  const root = makeTemporaryRoot({
    'jobs/hourly/a.sh': 'echo "$SECRET[$RUNNER_SCRIPT]"\n',
    'jobs/hourly/b.sh': 'echo other\n',
  });
  const env = { ...cronEnv(root), SECRET: 'secret' };
  const ended = runCommand(['run', 'hourly/a'], { cwd: root, env });
  expect(ended).toEqual({ status: 0, stdout: '', stderr: '' });
  expect(readRuns(root).runs.map(({ output }) => output)).toEqual(['[hourly/a]\n']);
  expect(queryLog(root, 'select kind, tier from workers')).toEqual([{ kind: 'script', tier: 'hourly' }]);
});

test('a handler is run for jobs, not by itself', () => {
  const root = makeTemporaryRoot({ 'jobs/queue/mail/welcome.sh': 'true\n' });
  const place = { cwd: root, env: cronEnv(root) };
  const { status, stderr } = runCommand(['run', 'queue/mail/welcome'], place);
  expect(status).toBe(2);
  expect(stderr).toContain('`npx folder-runner add mail/welcome` adds a job, `npx folder-runner work mail/welcome`');
});

test('a script that fails exits 1 and is told of', () => {
  const root = makeTemporaryRoot({ 'jobs/hourly/a.sh': 'echo why\nexit 3\n' });
  const { status, stderr } = runCommand(['run', 'hourly/a'], { cwd: root, env: cronEnv(root) });
  expect(status).toBe(1);
  expect(stderr).toMatch(/^runner: 1 of 1 scripts of hourly did not succeed/);
  expect(stderr).toContain('  | why');
});

test.each(['hourly/clean-tmp.sh', 'jobs/hourly/clean-tmp.sh', './jobs/hourly/clean-tmp.sh'])(
  'the file of a script, %s, is as good as its name',
  async (word) => {
    const root = makeTemporaryRoot({ 'jobs/hourly/clean-tmp.sh': 'true\n' });
    expect(await inRoot(root, 'run', word)).toMatchObject({ status: 0, stderr: '' });
    expect(queryLog(root, 'select name from jobs')).toEqual([{ name: 'hourly/clean-tmp' }]);
  },
);

test('the tier may be left out where only one has such a script', async () => {
  const root = makeTemporaryRoot({ 'jobs/hourly/a.sh': 'true\n', 'jobs/daily/b.sh': 'true\n' });
  expect(await inRoot(root, 'run', 'b')).toMatchObject({ status: 0, stderr: '' });
  expect(queryLog(root, 'select name from jobs')).toEqual([{ name: 'daily/b' }]);
  writeFileSync(join(root, 'jobs/daily/a.sh'), 'true\n');
  const { status, stderr } = await inRoot(root, 'run', 'a');
  expect(status).toBe(2);
  expect(stderr).toBe('runner: "a" is ambiguous (2 matches): hourly/a, daily/a. Write one of them in full.\n');
});

test('arguments after -- reach a program and a Node script, and are written down nowhere', async () => {
  const root = makeTemporaryRoot({
    'jobs/hourly/sh.sh': '# @retries 3\n[ "$#" = 2 ] && [ "$2" = "--x y" ] && exit 3\n',
    'jobs/hourly/node.mjs': `export default ({ args }) => {
      if (JSON.stringify([args, process.argv.slice(2)]) !== '[["kept-by-nobody","--help"],["kept-by-nobody","--help"]]') throw 1;
    };\n`,
    'jobs/hourly/none.mjs': 'export default ({ args }) => { if (args.length > 0) throw 1; };\n',
  });
  const inRootWith = (...args: readonly string[]) => inRoot(root, 'run', ...args);
  expect(await inRootWith('node', '--', 'kept-by-nobody', '--help')).toMatchObject({ status: 0 });
  expect(await inRootWith('none')).toMatchObject({ status: 0 });
  expect(await inRootWith('sh', '--', 'kept-by-nobody', '--x y')).toMatchObject({ status: 1 });
  // Its retry would not have them.
  expect(queryLog(root, "select state from jobs where name = 'hourly/sh'")).toEqual([{ state: 'failed' }]);
  expect((await inRoot(root, 'show', '3', '--json')).stdout).not.toContain('kept-by-nobody');
  expect((await inRoot(root, 'activity', '--json')).stdout).not.toContain('kept-by-nobody');
});

test('two names are not taken for a script and its argument', async () => {
  const root = makeTemporaryRoot({ 'jobs/hourly/a.sh': 'true\n', 'jobs/hourly/b.sh': 'true\n' });
  const { status, stderr } = await inRoot(root, 'run', 'a', 'b');
  expect(status).toBe(2);
  expect(stderr).toBe('runner: `run` runs one script, found also "b". Put arguments for the script after `--`.\n');
});

// The trigger stands for a machine that is quicker by a moment.
testOfSqlite(
  'a script that somebody else has begun at the same moment is said not to be run, and how it stands',
  async () => {
    const root = makeTemporaryRoot({ 'jobs/hourly/a.sh': 'true\n' });
    await inRoot(root, 'hourly');
    const { startTicks } = identifyProcess(process.pid);
    changeLog(
      root,
      `update workers set kind = 'queue', tier = null, state = 'running', finished_at = null,
       pid = ${process.pid}, pid_start_ticks = ${startTicks}`,
    );
    changeLog(
      root,
      `create trigger quicker before update on jobs when new.state = 'claimed' begin
       update jobs set state = 'running', claim_token = (select min(id) from workers) || '.1' where id = new.id;
       select raise(ignore);
     end`,
    );
    const { status, stderr } = await inRoot(root, 'run', 'hourly/a');
    expect(status).toBe(1);
    expect(stderr).toMatch(
      /^runner: hourly\/a was not run: another call or machine .* `npx folder-runner why hourly\/a` /,
    );
    expect(queryLog(root, 'select script from runs')).toHaveLength(1);
  },
);
