import { spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { commandPath, cronEnv, inRoot, jsonOf, runPass } from '../../support/command.ts';
import { changeLog } from '../../support/log.ts';
import { executable, makeTemporaryRoot, writeFiles } from '../../support/root.ts';

test('a pass with failures prints one summary on stderr, with the last 20 lines of each', () => {
  const { status, stdout, stderr, root, run } = runPass({
    'a.sh': 'seq 1 30\nexit 3\n',
    'b.sh': 'echo not shown\n',
    'c.mjs': `throw new TypeError('of a script');\n`,
    'd.sh': 'exit 4\n',
  });
  expect({ status, stdout }).toEqual({ status: 1, stdout: '' });
  const [head, a, c, d, ...more] = stderr.split('\n\n');
  expect(head).toBe(`runner: 3 of 4 scripts of hourly did not succeed (${root} on ${hostname()})`);
  const numbers = Array.from({ length: 20 }, (_, index) => `  | ${11 + index}`);
  expect(a?.split('\n')).toEqual([
    expect.stringMatching(/^hourly\/a failed after \d+ms: exit code 3$/),
    ...numbers,
    `  full output: cd ${root} && npx folder-runner show ${run('a').id}`,
  ]);
  expect(`${c}\n\n${d}\n\n${more.join('\n\n')}`).toContain('exit code 1: TypeError: of a script');
  expect(stderr).toContain('hourly/d failed');
  expect(stderr).toContain('  | (no output)');
  expect(stderr).not.toContain('not shown');
});

test('a script that is tried again in the same call is not counted as two scripts', async () => {
  const root = makeTemporaryRoot({
    'jobs/hourly/a.sh': '# @retries 1\n# @retry-delay 1ms\nexit 3\n',
    'jobs/hourly/b.sh': 'sleep 0.1\n',
  });
  const { stderr } = await inRoot(root, 'hourly');
  expect(stderr).toContain('runner: 2 of 3 runs of hourly did not succeed (');
});

test('a syntax error is shown once, with the lines of the file and none of Node or the runner', async () => {
  const endings = ['ts', 'mts', 'cts', 'js', 'mjs', 'cjs'];
  const source = 'const one = 1;\nfunction broken() {\n  return one +;\n}\nbroken();\n';
  const root = makeTemporaryRoot({
    ...Object.fromEntries(endings.map((ending) => [`jobs/hourly/of-${ending}.${ending}`, source])),
    'jobs/hourly/_library/broken.ts': source,
    'jobs/hourly/_library/broken.mjs': source,
    'jobs/hourly/imports-ts.ts': "import './_library/broken.ts';\n",
    'jobs/hourly/imports-mjs.mjs': "import './_library/broken.mjs';\n",
  });
  const { stderr } = await inRoot(root, 'hourly');
  const names = [...endings.map((ending) => `of-${ending}`), 'imports-ts', 'imports-mjs'];
  const shown = await Promise.all(names.map(async (name) => (await inRoot(root, 'show', `hourly/${name}`)).stdout));
  for (const text of [...stderr.split('\n\nhourly/').slice(1), ...shown]) {
    expect(text.match(/ {2}return one \+;\n/g)).toHaveLength(1);
    expect(text).toMatch(/ {4}at \/\S+\.[cm]?[jt]s:3\n/);
    expect(text).not.toMatch(/node:internal|probe-|\[SyntaxError/);
  }
});

test('control characters of a script do not reach the mail', () => {
  const { stderr } = runPass({ 'a.sh': `printf 'a\\033[2Jb\\a\\0c\\r\\n\\302\\233'\nexit 1\n` });
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what must not be there
  expect(stderr).not.toMatch(/[\0-\x08\x0b-\x1f\x7f-\x9f]/);
  expect(stderr).toContain('exit code 1');
});

test.each([
  ['work', 'runs of the queue'],
  ['hourly', 'scripts of hourly and the queue'],
])('of the queue `runner %s` names the job, and how to look at it', async (command, what) => {
  const root = makeTemporaryRoot({
    'jobs/hourly/a.sh': 'true\n',
    'jobs/queue/export.sh': executable('#!/bin/sh\necho no orders\nexit 3\n'),
  });
  await inRoot(root, 'add', 'export', '--at', '+1h');
  await inRoot(root, 'add', 'export');
  const { status, stdout, stderr } = await inRoot(root, command);
  expect({ status, stdout }).toEqual({ status: 1, stdout: '' });
  const [head, failure] = stderr.split('\n\n');
  expect(head).toContain(`${what} did not succeed`);
  const { runs } = jsonOf(await inRoot(root, 'job', '2', '--json'));
  expect(failure?.trimEnd().split('\n')).toEqual([
    expect.stringMatching(/^queue\/export \(job 2\) failed after \d+ms: exit code 3$/),
    '  | no orders',
    `  full output: cd ${root} && npx folder-runner show ${runs[0].id}`,
    `  its job: cd ${root} && npx folder-runner job 2`,
  ]);
  expect((await inRoot(root, 'show', String(runs[0].id))).stdout).toMatch(
    /\njob {11}2 · `npx folder-runner job 2` shows it\nstarted /,
  );
  expect(jsonOf(await inRoot(root, 'show', String(runs[0].id), '--json'))).toMatchObject({ job: 2 });
});

test('a mail names the failures that it counts and does not describe', async () => {
  const root = makeTemporaryRoot({
    'jobs/hourly/old.sh': 'exit 1\n',
    'jobs/queue/export.sh': executable('#!/bin/sh\nexit 3\n'),
  });
  await inRoot(root, 'hourly');
  writeFiles(root, { 'jobs/hourly/new.sh': 'exit 2\n' });
  await inRoot(root, 'add', 'export', '--retries', '1');
  const { stderr } = await inRoot(root, 'hourly');
  expect(stderr).toContain('3 of 3 scripts of hourly and the queue did not succeed');
  expect(stderr).toContain('\n\nhourly/new failed after');
  expect(stderr.trimEnd().split('\n').at(-1)).toBe(
    'Also failed: hourly/old (as before), queue/export (will be retried).',
  );
});

test('where nothing is kept of what failed, it leads nowhere', async () => {
  const root = makeTemporaryRoot({
    'runner.config.json': '{ "queue": { "archive": { "gone": "remove", "kept": "keep-failed" } } }',
    'jobs/queue/gone.sh': executable('#!/bin/sh\nexit 3\n'),
    'jobs/queue/kept.sh': executable('#!/bin/sh\nexit 4\n'),
  });
  await inRoot(root, 'add', 'gone');
  await inRoot(root, 'add', 'kept');
  await inRoot(root, 'add', 'gone', '--retries', '1');
  const [, ...failures] = (await inRoot(root, 'work')).stderr.trimEnd().split('\n\n');
  const ends = failures.map((failure) => failure.split('\n').slice(-2));
  expect(ends).toEqual([
    ['queue/gone failed: exit code 3', '  no more is kept of it: queue.archive'],
    // The number of a run that went with its job is used again.
    [`  full output: cd ${root} && npx folder-runner show 1`, `  its job: cd ${root} && npx folder-runner job 2`],
    ['Also failed: queue/gone (will be retried).'],
  ]);
});

test('cron is told of what always fails once, and once that it is over; the exit code stays', async () => {
  const root = makeTemporaryRoot({ 'jobs/hourly/a.sh': 'test -e fixed || exit 3\n' });
  const first = await inRoot(root, 'hourly');
  expect(first.stderr).toContain('1 of 1 scripts of hourly did not succeed');
  expect(await inRoot(root, 'hourly')).toMatchObject({ status: 1, stderr: '' });
  const awaited = await inRoot(root, 'run', 'hourly/a');
  expect(awaited.stderr).toContain('hourly/a failed');
  writeFileSync(join(root, 'fixed'), '');
  const over = await inRoot(root, 'hourly');
  expect(over).toMatchObject({ status: 0 });
  expect(over.stderr).toMatch(
    /^runner: failures and recoveries \(.*\)\n\nhourly\/a succeeds again, after 3 failures since /,
  );
  expect(await inRoot(root, 'hourly')).toMatchObject({ status: 0, stderr: '' });
});

test('cron is told of what a check finds, with its cure, and that it is over; the exit code is not changed', async () => {
  const settings = (diskFull: string) => `{ "checks": { "diskFull": "${diskFull}" } }`;
  const root = makeTemporaryRoot({
    'runner.config.json': settings('1000000gb'),
    'jobs/hourly/a.sh': 'true\n',
  });
  const checked = async () => {
    // Checks are run every few minutes.
    changeLog(root, `delete from chores where name = 'checks'`);
    return await inRoot(root, 'hourly');
  };
  const first = await inRoot(root, 'hourly');
  expect(first).toMatchObject({ status: 0, stdout: '' });
  expect(first.stderr).toMatch(
    /^runner: findings of checks \(.*\)\n\ndisk-full: only \d+ [MG]B free on the disk of .*\n {2}Delete files .*\n$/,
  );
  expect(await checked()).toMatchObject({ status: 0, stderr: '' });
  changeLog(root, 'update incidents set printed_at = printed_at - 86400000, due_at = 1');
  const reminder = await inRoot(root, 'hourly');
  expect(reminder.stderr).toMatch(
    /\n\ndisk-full since \d+ \S+ \S+: only .*\n {2}Delete .*\n {2}to stop these reminders: cd \/.* && npx folder-runner acknowledge 1\n$/,
  );
  writeFileSync(join(root, 'runner.config.json'), settings('1kb'));
  expect((await checked()).stderr).toMatch(
    /^runner: findings of checks \(.*\)\n\ndisk-full: over, after \S+ \(disk\)\n$/,
  );
  expect(await checked()).toMatchObject({ status: 0, stderr: '' });
});

test('what a check found ends without a duration when the clock has gone back meanwhile', async () => {
  const root = makeTemporaryRoot({
    'runner.config.json': '{ "checks": { "diskFull": "1000000gb" } }',
    'jobs/hourly/a.sh': 'true\n',
  });
  await inRoot(root, 'hourly');
  changeLog(root, `update incidents set opened_at = opened_at + 4 * 365 * 86400000`);
  changeLog(root, `delete from chores where name = 'checks'`);
  writeFileSync(join(root, 'runner.config.json'), '{ "checks": { "diskFull": "1kb" } }');
  expect((await inRoot(root, 'hourly')).stderr).toMatch(/\n\ndisk-full: over \(disk\)\n$/);
});

test('cron is not told of a failure that is tried again', async () => {
  const root = makeTemporaryRoot({ 'jobs/hourly/a.sh': '# @retries 1\n# @retry-delay 1h\nexit 3\n' });
  expect(await inRoot(root, 'hourly')).toMatchObject({ status: 1, stderr: '' });
});

test('a run of a script has no job to look at', async () => {
  const { root, run } = runPass({ 'a.sh': 'true\n' });
  expect((await inRoot(root, 'show', String(run('a').id))).stdout).not.toContain('job ');
});

const hasScript = spawnSync('script', ['--version']).status === 0;

test.runIf(hasScript)(
  'a terminal is told of each try; whom its errors go to besides, of tries that were made again, and of the others when they are',
  async () => {
    const root = makeTemporaryRoot({ 'jobs/queue/fails.sh': executable('#!/bin/sh\nexit 3\n') });
    await inRoot(root, 'add', 'fails', '--retries', '2', '--retry-delay', '1s');
    await inRoot(root, 'add', 'fails', '--retries', '1', '--retry-delay', '1h');
    const work = `'${process.execPath}' '${commandPath}' work --max-jobs 3 --wait 1m 2>errors`;
    const { stdout } = spawnSync('script', ['-qec', work, '/dev/null'], {
      cwd: root,
      env: cronEnv(root),
      encoding: 'utf8',
    });
    expect(stdout).not.toContain('did not succeed');
    expect(
      stdout.match(/`npx folder-runner show \d+` · `npx folder-runner job \d+`\s+(?:· )?retried in/g),
    ).toHaveLength(3);
    const errors = readFileSync(join(root, 'errors'), 'utf8');
    const [, ...failures] = errors.split('did not succeed').at(-1)?.split('\n\n') ?? [];
    const told = failures.map((failure) => failure.split('\n').slice(1, 3).join());
    const later = (when: string) =>
      expect.stringMatching(`no output\\),  will be retried by the next worker, ${when} from now or later$`);
    expect(told).toEqual(['  | (no output),  tried again meanwhile', later('59m \\d+s'), later('\\d+m?s')]);
  },
);
