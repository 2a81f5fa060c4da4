import { spawnSync } from 'node:child_process';
import { chmodSync, mkdirSync, realpathSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { commandPath } from '../../support/command.ts';
import { executable, makeTemporaryRoot } from '../../support/root.ts';
import { check, diagnose, makeCalledRoot, usual } from './doctor-place.ts';

/** A root where a program of this name comes first in the PATH. */
async function makeRootWithProgram(name: string, content: string) {
  const { root, env } = await makeCalledRoot({ ...usual, [`bin/${name}`]: executable(content) });
  return { root, env: { ...env, PATH: `${join(root, 'bin')}:${env.PATH}` } };
}

const quota = (figures: string): string => `#!/bin/sh
echo 'Disk quotas for user me (uid 1000): '
echo '     Filesystem  blocks   quota   limit   grace   files   quota   limit   grace'
echo '      /dev/sda1  ${figures}'
exit 1
`;

test.each([
  ['50000 90000 100000 0 10 0 0 0', 'ok', '48.8MB of 87.9MB used'],
  ['85000 90000 100000 0 10 0 0 0', 'warning', '83MB of 87.9MB used'],
  ['95000* 90000 100000 1700000000 10 0 0 0', 'problem', '92.8MB of 87.9MB used'],
  ['100 0 0 0 950 0 1000 0', 'warning', '950 files of 1000 files used'],
])('a quota of %s is %s', async (figures, status, found) => {
  const { root, env } = await makeRootWithProgram('quota', quota(figures));
  const findings = (await check(root, env, 'disk')).filter((each) => each.found.startsWith('quota'));
  const cure = status === 'ok' ? null : expect.stringMatching(/^Delete files that are not needed/);
  expect(findings).toEqual([{ status, found: `quota of /dev/sda1: ${found}`, cure }]);
});

test.each([
  ['says that there is none', "#!/bin/sh\necho 'Disk quotas for user me (uid 0): none'\n", 'no quota'],
  ['says something else', '#!/bin/sh\necho what\n', 'quota unknown: no `quota` command that reports it'],
  ['never answers', '#!/bin/sh\nsleep 600\n', 'quota unknown: no `quota` command that reports it'],
])('a quota command that %s is not waited for', async (_, content, found) => {
  const { root, env } = await makeRootWithProgram('quota', content);
  expect(await check(root, env, 'disk', 'ok')).toContainEqual({ status: 'ok', found, cure: null });
});

test('sendmail is looked for in the PATH too', async () => {
  const { root, env } = await makeRootWithProgram('sendmail', '#!/bin/sh\n');
  expect(await check(root, env, 'sendmail')).toMatchObject([{ status: 'ok' }]);
});

test('what anybody can write is a problem, with the command that closes it', async () => {
  const { root, env } = await makeCalledRoot();
  chmodSync(join(root, 'jobs'), 0o777);
  expect(await check(root, env, 'permissions')).toEqual([
    {
      status: 'problem',
      found: 'jobs can be written by anybody (mode 0777), so no script is run',
      cure: 'Close it with: chmod go-w jobs',
    },
  ]);
  const allowed = { ...env, RUNNER_ALLOW_UNSAFE: '1' };
  expect(await check(root, allowed, 'permissions')).toMatchObject([
    { status: 'warning', cure: 'Close it with: chmod go-w jobs' },
  ]);
});

test('a root that a web server hands out is a problem', async () => {
  const site = makeTemporaryRoot({ 'public_html/jobs/hourly/a.mjs': '' });
  const { env } = await makeCalledRoot();
  const webRoot = join(site, 'public_html');
  expect(await check(webRoot, env, 'permissions', 'problem')).toEqual([
    {
      status: 'problem',
      found: `the root is inside ${webRoot}, which a web server probably serves, with scripts, output and passwords`,
      cure: `Move the root beside ${webRoot}, not into it, then run \`npx folder-runner cron --install\` there.`,
    },
  ]);
});

test('a state folder that a web server hands out, by a link, is a problem', async () => {
  const { root, env } = await makeCalledRoot();
  const served = join(makeTemporaryRoot({ 'public_html/state/.gitignore': '*' }), 'public_html');
  symlinkSync(join(served, 'state'), join(root, '.runner'));
  expect(await check(root, env, 'permissions', 'problem')).toEqual([
    {
      status: 'problem',
      found: `${root}/.runner leads into ${served}, which a web server probably serves: anybody could read the output of your scripts`,
      cure: expect.stringMatching(/^Put the folder in the link's place with: rm \S+ && mv \S+ \S+, /),
    },
  ]);
});

test('settings that anybody can write are a problem, with the command that closes them', async () => {
  const { root, env } = await makeCalledRoot({ ...usual, 'runner.config.json': '{}' });
  chmodSync(join(root, 'runner.config.json'), 0o666);
  expect(await check(root, env, 'settings')).toEqual([
    {
      status: 'problem',
      found: expect.stringMatching(/cannot be loaded: .*can be written by anybody \(mode 0666\)$/),
      cure: expect.stringMatching(/^Close it with: chmod go-w runner\.config\.json, or allow it/),
    },
  ]);
});

test('what anybody could have put into .runner is a problem', async () => {
  const { root, env } = await makeCalledRoot();
  mkdirSync(join(root, '.runner/results'), { recursive: true });
  chmodSync(join(root, '.runner'), 0o777);
  chmodSync(join(root, '.runner/results'), 0o777);
  expect(await check(root, env, 'permissions')).toMatchObject([
    {
      status: 'problem',
      found: expect.stringMatching(/^\.runner\/results can be written by anybody/),
      cure: expect.stringMatching(/^Close it with: chmod go-w \.runner\/results/),
    },
    { status: 'note', found: '.runner is open to others (mode 0777)' },
  ]);
});

test('a .runner that others can read is noted', async () => {
  const { root, env } = await makeCalledRoot();
  mkdirSync(join(root, '.runner'));
  chmodSync(join(root, '.runner'), 0o755);
  expect(await check(root, env, 'permissions')).toMatchObject([
    { status: 'note', found: '.runner is open to others (mode 0755)' },
  ]);
});

test('limits that a runner meets are told', async () => {
  const { root, env } = await makeCalledRoot();
  const limits = 'ulimit -t 900; ulimit -f 200000; ulimit -n 100';
  const command = `${limits}; exec '${process.execPath}' '${commandPath}' doctor --json`;
  const { stdout } = spawnSync('/bin/sh', ['-c', command], { cwd: root, env, encoding: 'utf8' });
  const checks = JSON.parse(stdout).checks as { name: string; found: string; cure: string }[];
  expect(checks.filter(({ name }) => name === 'limits')).toEqual([
    {
      name: 'limits',
      status: 'warning',
      found: 'no file may be larger than 97.7MB, the activity log included',
      cure: "Set `retention: { maxDatabaseSize: '48mb' }` in the settings.",
    },
    expect.objectContaining({ status: 'warning', found: 'only 100 files may be open at once' }),
    expect.objectContaining({ found: 'a process is ended after 15m of CPU time' }),
  ]);
});

test('another zone than the machine’s is noted, as cron goes by that one', async () => {
  const { root, env } = await makeCalledRoot();
  writeFileSync(join(root, 'runner.config.json'), '{ "timezone": "Asia/Kolkata" }');
  const found = diagnose(root, { ...env, TZ: 'Asia/Tokyo' });
  expect(found.of('clock')).toMatchObject([
    { status: 'ok', found: expect.stringMatching(/ \+05:30 \(Asia\/Kolkata\)$|Calcutta/) },
    {
      status: 'note',
      found: expect.stringMatching(/^timezone is Asia\/(Kolkata|Calcutta) in the settings, while cron /),
    },
  ]);
});

test('the locks are really tried: a root on this machine has them', async () => {
  const { root, env } = await makeCalledRoot();
  expect(await check(root, env, 'locks')).toEqual([
    { status: 'ok', found: 'work: one process at a time, and free again when it is killed', cure: null },
  ]);
});

test('of a command in npx’s cache is said that it goes away', async () => {
  const { root, env } = await makeCalledRoot();
  const folder = join(realpathSync(makeTemporaryRoot()), '_npx/1/node_modules/folder-runner');
  mkdirSync(folder, { recursive: true });
  spawnSync('cp', ['-r', join(commandPath, '../..', 'dist'), join(commandPath, '../..', 'package.json'), folder]);
  spawnSync('ln', ['-s', join(commandPath, '../../node_modules'), join(folder, 'node_modules')]);
  const command = [join(folder, 'dist/bin.cjs'), 'doctor', '--json'];
  const { stdout } = spawnSync(process.execPath, command, { cwd: root, env, encoding: 'utf8' });
  const found = (JSON.parse(stdout).checks as { name: string; found: string }[]).filter(({ name }) => name === 'node');
  expect(found.at(-1)?.found).toMatch(/^the command is in npx's cache/);
});

const hasAccessLists = spawnSync('setfacl', ['--version']).status === 0;

// Without the program there is nobody who makes one; CI has it.
test.skipIf(!hasAccessLists)('an access list that the mode does not tell from the own group is a warning', async () => {
  const { root, env } = await makeCalledRoot({ ...usual, 'jobs/hourly/big job.sh': 'true\n' });
  const script = join(root, 'jobs/hourly/big job.sh');
  const change = (...args: string[]) => expect(spawnSync('setfacl', [...args, script]).status).toBe(0);
  // What a list allows is never more than the group's bits of the mode say.
  change('-m', 'u:12345:rw');
  expect(statSync(script).mode & 0o777).toBe(0o664);
  expect(await check(root, env, 'permissions')).toEqual([
    {
      status: 'warning',
      found: 'jobs/hourly/big job.sh has an access control list, and others in it may write',
      cure: "`getfacl 'jobs/hourly/big job.sh'` shows who; close it with: chmod g-w 'jobs/hourly/big job.sh'",
    },
  ]);
  chmodSync(script, 0o644);
  expect(spawnSync('getfacl', ['-c', script]).stdout.toString()).toMatch(/user:12345:rw-\s+#effective:r--/);
  expect(await check(root, env, 'permissions')).toMatchObject([{ status: 'ok' }]);
});

test('files that a private group can write, as under umask 002, are no warning', async () => {
  const { root, env } = await makeCalledRoot();
  for (const path of ['.', 'jobs', 'jobs/hourly', 'jobs/hourly/a.mjs']) chmodSync(join(root, path), 0o775);
  expect(await check(root, env, 'permissions')).toMatchObject([{ status: 'ok' }]);
});
