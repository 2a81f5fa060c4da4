import { existsSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { hostname, userInfo } from 'node:os';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import {
  commandPath,
  cronPlace,
  probePath,
  readRuns,
  runPass,
  runPassAgain,
  startProcess,
} from '../../support/command.ts';
import { queryLog } from '../../support/log.ts';
import { makeTemporaryRoot } from '../../support/root.ts';

const account = userInfo();
const PRINT = 'env | sort\n';

function readEnvironment(output: string | null): Record<string, string> {
  const lines = (output ?? '').trim().split('\n');
  return Object.fromEntries(lines.map((line) => [line.split('=', 1)[0], line.slice(line.indexOf('=') + 1)]));
}

test('a script gets an allow-listed environment and nothing of the runner’s secrets', () => {
  const { root, run } = runPass(
    { 'a.sh': PRINT },
    {
      env: {
        DATABASE_URL: 'mysql://secret',
        LC_ALL: 'de_DE.UTF-8',
        NODE_OPTIONS: '--max-old-space-size=512',
        SMTP_PASSWORD: 'secret',
        TZ: 'Europe/Berlin',
      },
    },
  );
  const { output } = run('a');
  const [pass] = queryLog<{ scheduled_for: number }>(root, 'select scheduled_for from workers');
  const environment = readEnvironment(output);
  expect(output).not.toContain('secret');
  // What the shell itself adds.
  for (const name of ['_', 'PWD', 'OLDPWD', 'SHLVL']) delete environment[name];
  expect(environment).toEqual({
    HOME: account.homedir,
    LANG: 'C.UTF-8',
    LOGNAME: account.username,
    PATH: expect.stringMatching(/^\/.*:\/usr\/local\/bin:\/usr\/bin:\/bin$/),
    RUNNER_ATTEMPT: '1',
    RUNNER_COUNTS: `${root}/.runner/tmp/1.1/.counts`,
    RUNNER_LAST_SUCCESS: '',
    RUNNER_LATENESS_MS: expect.stringMatching(/^\d+$/),
    RUNNER_PREVIOUSLY_CRASHED: '',
    RUNNER_ROOT: root,
    RUNNER_HOST: hostname(),
    RUNNER_SCHEDULED_FOR: new Date(pass?.scheduled_for ?? 0).toISOString(),
    RUNNER_RUN: '1.1',
    RUNNER_SCRIPT: 'hourly/a',
    SHELL: '/bin/sh',
    RUNNER_TMPDIR: `${root}/.runner/tmp/1.1`,
    USER: account.username,
  });
});

test('by hand from any shell and under cron it is the same', async () => {
  const root = makeTemporaryRoot({
    'jobs/hourly/a.sh': `${PRINT}umask; ulimit -S -c; pwd; tty\n`,
    'jobs/hourly/b.mjs': 'console.log(process.env, process.umask(), process.cwd());\n',
  });
  const call = async (shell: string, env: NodeJS.ProcessEnv = {}) => {
    const place = cronPlace(root);
    const command = `${shell}; exec "${process.execPath}" "${commandPath}" hourly --root "${root}"`;
    await startProcess('/bin/sh', ['-c', command], { ...place, env: { ...place.env, ...env } }).ended;
    const { run } = readRuns(root);
    return ['a', 'b'].map((name) => (run(name).output ?? '').replaceAll(/RUNNER_(?!ROOT|HOST|SCRIPT).*/g, ''));
  };
  const rich = {
    ...{ HOME: '/elsewhere', USER: 'me', LOGNAME: 'me', SHELL: '/bin/zsh', PATH: '/opt/bin:/usr/bin:/bin' },
    ...{ LANG: 'de_DE.UTF-8', LC_ALL: 'C', LC_CTYPE: 'POSIX', LANGUAGE: 'de:en', TMPDIR: root, EDITOR: 'vi' },
    ...{ http_proxy: 'http://proxy:3128', HTTPS_PROXY: 'http://proxy:3128', NODE_OPTIONS: '--no-warnings' },
    TZ: 'Asia/Tokyo',
  };

  const underCron = await call('umask 022');
  const byHand = await call('umask 077', rich);

  expect(byHand).toEqual(underCron);
  expect(byHand[0]).toContain('LANG=C.UTF-8');
  // Without a variable at all, as some panels call it.
  expect(await call('umask 002; unset HOME LOGNAME SHELL PATH')).toEqual(underCron);
});

test('what differs on purpose is named by @env and by the settings, which win', () => {
  const settings = { env: { LC_ALL: 'en_US.UTF-8', TMPDIR: '/var/tmp', SITE: 'settings' }, umask: '027' };
  const { run } = runPass(
    { 'a.sh': `# @env LANG HOME LC_ALL SITE\n${PRINT}umask\n`, 'b.sh': `${PRINT}umask\n` },
    {
      env: { LANG: 'de_DE.UTF-8', HOME: '/elsewhere', LC_ALL: 'C', SITE: 'caller' },
      files: { 'runner.config.json': JSON.stringify(settings) },
    },
  );
  const fromSettings = { LC_ALL: 'en_US.UTF-8', TMPDIR: '/var/tmp', SITE: 'settings' };
  expect(readEnvironment(run('a').output)).toMatchObject({ ...fromSettings, LANG: 'de_DE.UTF-8', HOME: '/elsewhere' });
  expect(readEnvironment(run('b').output)).toMatchObject({
    ...fromSettings,
    ...{ LANG: 'C.UTF-8', HOME: account.homedir },
  });
  for (const name of ['a', 'b']) expect(run(name).output).toMatch(/^0027$/m);
});

test('TZ is the zone of the settings, whatever the caller has', () => {
  const config = { 'runner.config.json': '{ "timezone": "Europe/Berlin" }' };
  const { run } = runPass({ 'a.sh': PRINT }, { env: { TZ: 'Asia/Tokyo' }, files: config });
  expect(readEnvironment(run('a').output)).toMatchObject({ TZ: 'Europe/Berlin' });
});

test('@env lets a variable through, to that script alone', () => {
  const env = { API_KEY: 'short', OTHER: 'too' };
  const { run } = runPass({ 'a.sh': `# @env API_KEY, NOT_SET\n${PRINT}`, 'b.sh': PRINT }, { env });
  expect(readEnvironment(run('a').output)).toMatchObject({ API_KEY: 'short' });
  expect(run('a').output).not.toMatch(/OTHER|NOT_SET/);
  expect(run('b').output).not.toContain('API_KEY');
});

test('no value goes through the argument vector: everybody on the host can read it', () => {
  const settings = { env: { SITE: 'example.org' } };
  const { run, root } = runPass(
    {
      'a.mjs': `import { readFileSync } from 'node:fs';
// @env API_KEY
console.log(readFileSync('/proc/self/cmdline', 'utf8').replaceAll('\\0', ' '));\n`,
      'b.sh': `# @env API_KEY\ntr '\\0' ' ' < /proc/$$/cmdline\n`,
    },
    { env: { API_KEY: 'short' }, files: { 'runner.config.json': JSON.stringify(settings) } },
  );
  const [first] = run('a').output?.split(probePath) ?? [];
  expect(run('a').output).toBe(`${first}${probePath} ${root}/jobs/hourly/a.mjs \n`);
  expect(first).toMatch(/^\/\S+ --require $/);
  expect(run('b').output).toBe(`/bin/sh ${root}/jobs/hourly/b.sh `);
});

test('what the probe is told is not left in a script’s environment, and holds no values', () => {
  const { run } = runPass(
    {
      'a.mjs': `import { readFileSync } from 'node:fs';
// @env API_KEY
const lines = readFileSync('/proc/self/environ', 'utf8').split('\\0');
console.log(process.env.RUNNER_PROBE, lines.filter((line) => /^RUNNER_PROBE=.*(short|visitor)/.test(line)).length);\n`,
    },
    { env: { API_KEY: 'short' } },
  );
  expect(run('a').output).toBe('undefined 0\n');
});

test('the settings give variables to every script, but not the runner’s own', () => {
  const settings = { env: { SITE: 'https://example.org', HOME: '/elsewhere', RUNNER_SCRIPT: 'x' } };
  const { run } = runPass(
    { 'a.mjs': `console.log(process.env.SITE, process.env.HOME, process.env.RUNNER_SCRIPT);\n` },
    { files: { 'runner.config.json': JSON.stringify(settings) } },
  );
  expect(run('a').output).toBe('https://example.org /elsewhere hourly/a\n');
});

test('the runner’s own Node is on the PATH', () => {
  const { run } = runPass({ 'a.sh': `node -p process.execPath\n` });
  expect(run('a').output).toBe(`${process.execPath}\n`);
});

describe('what a script starts with', () => {
  test('is the root as its folder, nothing to read, and a session and group of its own', () => {
    const { root, run } = runPass({
      'folder.sh': 'pwd\n',
      'input.sh': 'readlink /proc/self/fd/0; cat; echo end\n',
      // pid, group and session; and of the process that started it.
      'session.pl': `open my $own, '<', "/proc/$$/stat"; my @own = split ' ', <$own>;
my $pp = getppid(); open my $parent, '<', "/proc/$pp/stat"; my @parent = split ' ', <$parent>;
print "$own[0] $own[4] $own[5] ", ($own[5] == $parent[5] ? 'same' : 'another'), "\\n";\n`,
      'descriptors.sh': 'readlink /proc/$$/fd/* | grep -F "$RUNNER_ROOT/.runner" | sort -u\n',
    });
    expect(run('folder').output).toBe(`${root}\n`);
    expect(run('input').output).toBe('/dev/null\nend\n');
    expect(run('session').output).toMatch(/^(\d+) \1 \1 another\n$/);
    // Its output: neither the activity log nor a lock.
    expect(run('descriptors').output).toBe(`${root}/.runner/output/${run('descriptors').key}.log\n`);
  });

  test('is a folder of its own, gone afterwards with all that is in it', () => {
    const deep = 'mkdir "$RUNNER_TMPDIR/deep" && touch "$RUNNER_TMPDIR/deep/file" && chmod 0 "$RUNNER_TMPDIR/deep"';
    const { root, run } = runPass({
      'a.sh': `${deep} && stat -c %a "$RUNNER_TMPDIR"\n`,
      'b.mjs': `import { readdirSync } from 'node:fs';\nconsole.log(readdirSync(process.env.RUNNER_TMPDIR).length);\n`,
    });
    expect(run('a').output).toBe('700\n');
    expect(run('b').output).toBe('0\n');
    // Each goes once its run's end is on the disk, which the next script does not wait for.
    expect(readdirSync(join(root, '.runner/tmp'))).toEqual([]);
  });
});

describe('the temporary folder of programs is the host’s, as under cron', () => {
  test('what they leave there is found by the next run and by the site', () => {
    const id = `folder-runner-last-id-${process.pid}`;
    onTestFinished(() => rmSync(`/tmp/${id}`, { force: true }));
    const { run } = runPass({
      '1.sh': `echo 41 > "$(dirname "$(mktemp -u)")/${id}"\n`,
      '2.py': `import tempfile\nprint(open(tempfile.gettempdir() + '/${id}').read().strip())\n`,
      '3.mjs': `import { readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
console.log(readFileSync(\`\${tmpdir()}/${id}\`, 'utf8').trim());\n`,
      '4.pl': `use File::Spec;\nopen my $in, '<', File::Spec->tmpdir . '/${id}';\nprint <$in>;\n`,
    });
    expect(['2', '3', '4'].map((label) => run(label).output)).toEqual(['41\n', '41\n', '41\n']);
  });

  test('a socket fits in, however long the path of the root is', () => {
    const folder = `${'long-'.repeat(24)}name`;
    const root = makeTemporaryRoot({
      [`${folder}/jobs/hourly/a.py`]: `import multiprocessing
if __name__ == '__main__':
    with multiprocessing.Manager() as manager:
        print(manager.list([1, 2]))\n`,
    });
    const { run } = runPassAgain(join(root, folder));
    expect(run('a')).toMatchObject({ outcome: 'succeeded', output: '[1, 2]\n' });
  });

  test('a daemon that a script has started keeps what it has there', () => {
    // It ends once its file is gone.
    const daemon = 'f=$(mktemp) && echo "$f" > started && while [ -e "$f" ]; do sleep 0.1; done';
    const { root } = runPass({ 'a.sh': `setsid sh -c '${daemon}' &\nuntil [ -s started ]; do sleep 0.05; done\n` });
    const file = readFileSync(join(root, 'started'), 'utf8').trim();
    onTestFinished(() => rmSync(file, { force: true }));
    expect(readdirSync(join(root, '.runner/tmp'))).toEqual([]);
    expect(existsSync(file)).toBe(true);
  });
});

test('@nice is added to the niceness that the runner has', () => {
  const { run } = runPass({ 'a.sh': '# @nice 3\nsleep 0.05\nnice\n', 'b.sh': 'nice\n' });
  const own = Number(run('b').output);
  expect(Number(run('a').output)).toBe(Math.min(own + 3, 19));
});
