import { readdirSync } from 'node:fs';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { umask } from 'node:process';
import { describe, expect, test } from 'vitest';
import { probePath } from '../support/run-command.ts';
import { runPass } from '../support/run-pass.ts';

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
        LC_ALL: 'C.UTF-8',
        NODE_OPTIONS: '--max-old-space-size=512',
        SMTP_PASSWORD: 'secret',
        TZ: 'Europe/Berlin',
      },
    },
  );
  const { output, scheduled_for } = run('a');
  const environment = readEnvironment(output);
  expect(output).not.toContain('secret');
  // What the shell itself adds.
  for (const name of ['_', 'PWD', 'OLDPWD', 'SHLVL']) delete environment[name];
  expect(environment).toEqual({
    HOME: root,
    LC_ALL: 'C.UTF-8',
    LOGNAME: 'visitor',
    PATH: expect.stringMatching(/^\/.*:\/usr\/local\/bin:\/usr\/bin:\/bin$/),
    RUNNER_ATTEMPT: '1',
    RUNNER_COUNTS: `${root}/.runner/tmp/1.1/.counts`,
    RUNNER_LAST_SUCCESS: '',
    RUNNER_LATENESS_MS: expect.stringMatching(/^\d+$/),
    RUNNER_PREVIOUSLY_CRASHED: '',
    RUNNER_ROOT: root,
    RUNNER_HOST: hostname(),
    RUNNER_SCHEDULED_FOR: new Date(scheduled_for ?? 0).toISOString(),
    RUNNER_RUN: '1.1',
    RUNNER_SCRIPT: 'hourly/a',
    SHELL: '/bin/sh',
    TMPDIR: `${root}/.runner/tmp/1.1`,
    TZ: 'Europe/Berlin',
  });
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

  test('is the umask that the runner was started with', () => {
    const before = umask(0o027);
    try {
      const { run } = runPass({ 'a.sh': 'umask\n' });
      expect(run('a').output).toBe('0027\n');
    } finally {
      umask(before);
    }
  });

  test('is a temporary folder of its own, gone afterwards with all that is in it', () => {
    const { root, run } = runPass({
      'a.sh': 'mkdir "$TMPDIR/deep" && touch "$TMPDIR/deep/file" && chmod 0 "$TMPDIR/deep" && stat -c %a "$TMPDIR"\n',
      'b.mjs': `import { tmpdir } from 'node:os';\nimport { readdirSync } from 'node:fs';
console.log(tmpdir() === process.env.TMPDIR, readdirSync(tmpdir()).length);\n`,
    });
    expect(run('a').output).toBe('700\n');
    expect(run('b').output).toBe('true 0\n');
    // Each goes once its run's end is on the disk, which the next script does not wait for.
    expect(readdirSync(join(root, '.runner/tmp'))).toEqual([]);
  });
});

test('@nice is added to the niceness that the runner has', () => {
  const { run } = runPass({ 'a.sh': '# @nice 3\nsleep 0.05\nnice\n', 'b.sh': 'nice\n' });
  const own = Number(run('b').output);
  expect(Number(run('a').output)).toBe(Math.min(own + 3, 19));
});
