import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, existsSync, openSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { runInNewContext } from 'node:vm';
import { describe, expect, test } from 'vitest';
import packageJson from '../../../package.json' with { type: 'json' };
import { commandNames } from '../../../src/system/base/command-names.ts';
import { callAt, commandPath, cronEnv, runCommand, runPass } from '../../support/command.ts';
import { makeTemporaryRoot } from '../../support/root.ts';

const hasScript = spawnSync('script', ['--version']).status === 0;
const commands = [...['init', 'cron', 'list', 'run', 'add', 'jobs', 'job', 'claim', 'kick', 'report', 'show'], 'tail'];

function run(...args: readonly string[]) {
  const root = makeTemporaryRoot({ 'jobs/hourly/a.sh': 'true\n' });
  return runCommand(args, { cwd: root, env: cronEnv(root) });
}

describe('help', () => {
  test.for([[[]], [['--help']], [['-h']], [['help']], [['--root', '.']]])(
    '%j names every command, exits 0',
    ([args = []]) => {
      const { status, stdout, stderr } = run(...args);
      expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
      for (const command of commands) expect(stdout).toMatch(new RegExp(`^ {2}${command}\\b`, 'm'));
      expect(stdout).toContain('Examples:');
      expect(stdout).toContain('Exit codes: 0: all runs succeeded; 1: at least one failed; 2: wrong usage.');
    },
  );

  test('of each command has a description and examples, however it is asked for', async () => {
    const root = makeTemporaryRoot();
    const place = { cwd: root, env: cronEnv(root) };
    for (const command of commandNames) {
      const { status, stdout } = await callAt([command, '--help'], place);
      expect({ command, status }).toEqual({ command, status: 0 });
      expect(stdout).toMatch(new RegExp(`^Usage: runner ${command}\\b.*\\n\\n\\w`));
      expect(stdout).toMatch(new RegExp(`^Examples:\\n {2}runner ${command}\\b`, 'm'));
      expect((await callAt(['help', command], place)).stdout).toBe(stdout);
    }
  });

  test('of a command that there is not is wrong use', () => {
    expect(run('help', 'nonsense').status).toBe(2);
    expect(run('nonsense', '--help')).toEqual({
      status: 2,
      stdout: '',
      stderr: 'runner: There is no command "nonsense"; `npx folder-runner --help` lists the commands.\n',
    });
    expect(run('hourly', '--help')).toMatchObject({ status: 0, stderr: '' });
  });

  test('shows the commands in five groups, the ten of the first day first', () => {
    const { stdout } = run('--help');
    const [, ...groups] = stdout
      .slice(stdout.indexOf('\n\nOptions:'))
      .split(/\n\n(?=\S.*:\n)/)
      .slice(1, -1);
    const titles = groups.map((group) => group.slice(0, group.indexOf(':')));
    expect(titles).toEqual(['The first day', 'Scripts', 'The queue', 'Watching and alerts', 'The folder and its log']);
    const named = groups.map((group) => [...group.matchAll(/^ {2}([a-z]+)/gm)].map(([, name]) => name));
    expect(named[0]).toHaveLength(10);
    expect(named.flat()).toEqual([...commandNames, 'help']);
  });

  test.for([...commandNames, ''])('of "%s" is 80 columns wide at most', async (name) => {
    const root = makeTemporaryRoot();
    const { stdout } = await callAt([name, '--help'].filter(Boolean), { cwd: root, env: cronEnv(root) });
    expect(stdout.length).toBeGreaterThan(100);
    expect(stdout.split('\n').filter((line) => line.length > 80)).toEqual([]);
  });
});

describe.runIf(hasScript)('on a terminal of 80 columns a complaint', () => {
  const complain = (words: string): string[] => {
    const root = makeTemporaryRoot({ 'jobs/hourly/import-all-orders.sh': 'true\n' });
    const line = `stty cols 80; cd ${root}; ${process.execPath} ${commandPath} ${words}`;
    const { stdout } = spawnSync('script', ['-qec', line, '/dev/null'], {
      env: { ...cronEnv(root), LC_ALL: 'C.UTF-8', TERM: 'xterm' },
      encoding: 'utf8',
      input: '',
    });
    return stdout.replaceAll('\r', '').split('\n');
  };

  test('is wrapped at words, and what is to be copied is on one line', () => {
    const lines = complain('terminate import-all-orders --now');
    expect(lines).toEqual([
      'runner: There is no command "terminate"; did you mean',
      '`npx folder-runner stop hourly/import-all-orders`?',
      '',
    ]);
  });

  test('has a long path in one piece', () => {
    const path = `/tmp/${'long/'.repeat(20)}`;
    const lines = complain(`--root ${path} list`);
    expect(lines.filter((line) => line.includes('/tmp/long')).join()).toContain(path.slice(0, -1));
  });
});

test('an error of the system is reported in words, with its file and how to fix it', () => {
  const { status, stdout, stderr } = run('backup', `/tmp/${'x'.repeat(300)}`);
  expect({ status, stdout }).toEqual({ status: 1, stdout: '' });
  expect(stderr).toMatch(
    /^runner: \/tmp\/x{300}: its name is too long \(ENAMETOOLONG\)\. Correct that, or name another file or folder\.\n$/,
  );
});

test('a root may be called as a command is', () => {
  const root = makeTemporaryRoot({ 'jobs/jobs/hourly/a.sh': 'true\n' });
  const { status, stdout } = runCommand(['--root', 'jobs', 'list'], { cwd: root, env: cronEnv(root) });
  expect(status).toBe(0);
  expect(stdout).toContain('hourly/a');
});

test.for(['--version', '-v'])('%s: the version is the package’s', (word) => {
  expect(run(word)).toEqual({ status: 0, stdout: `${packageJson.version}\n`, stderr: '' });
});

describe('a current folder that was removed under its shell', () => {
  const runInRemoved = (args: string) => {
    const root = makeTemporaryRoot({ 'jobs/hourly/a.sh': 'echo here\n' });
    const script = `mkdir old && cd old && rmdir ../old && exec "$0" "${commandPath}" ${args}`;
    const { status, stderr } = spawnSync('/bin/sh', ['-c', script, process.execPath], {
      cwd: root,
      env: { ...cronEnv(root), ROOT: root },
      encoding: 'utf8',
    });
    return { status, stderr };
  };

  test.for(['hourly', '--root "$ROOT" hourly'])('does not keep `runner %s` from its work', (args) => {
    expect(runInRemoved(args)).toEqual({ status: 0, stderr: '' });
  });

  test('is named where it was meant', () => {
    const { status, stderr } = runInRemoved('--root . hourly');
    expect(status).toBe(2);
    expect(stderr).toMatch(/^runner: --root names .*\/old, which has no jobs folder\..*\n$/);
  });
});

test('a home in which nothing can be made costs the compile cache alone', () => {
  const root = makeTemporaryRoot({ 'jobs/hourly/a.sh': 'true\n' });
  const { status, stderr } = spawnSync(process.execPath, [commandPath, '--root', root, 'hourly'], {
    env: { ...cronEnv(root), HOME: '/proc' },
    encoding: 'utf8',
    timeout: 10_000,
    killSignal: 'SIGKILL',
  });
  expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
});

describe('without a reader', () => {
  /** The reader closes before anything is written. */
  async function runUnread(fd: 'stdout' | 'stderr', root: string, ...args: readonly string[]) {
    const child = spawn(process.execPath, [commandPath, ...args], {
      cwd: root,
      env: cronEnv(root),
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    child[fd].destroy();
    const other = fd === 'stdout' ? child.stderr : child.stdout;
    const chunks: Buffer[] = [];
    const [[code]] = await Promise.all([
      once(child, 'exit'),
      (async () => {
        for await (const chunk of other) chunks.push(chunk);
      })(),
    ]);
    return { code, printed: Buffer.concat(chunks).toString() };
  }

  test.for(['report', 'list', '--help'])('%s ends quietly', async (argument) => {
    const { root } = runPass({ 'a.sh': 'true\n' });
    expect(await runUnread('stdout', root, argument)).toEqual({ code: 0, printed: '' });
  });

  test('of its summary a pass still says by its exit code that it failed', async () => {
    const root = makeTemporaryRoot({ 'jobs/hourly/a.sh': 'exit 3\n' });
    expect(await runUnread('stderr', root, 'hourly')).toEqual({ code: 1, printed: '' });
  });

  test('of its complaint wrong use still exits 2', async () => {
    const root = makeTemporaryRoot();
    expect(await runUnread('stderr', root, 'nothing')).toEqual({ code: 2, printed: '' });
  });
});

test('with a full disk behind its output a pass is not disturbed', async () => {
  const root = makeTemporaryRoot({ 'jobs/hourly/a.sh': 'true\n' });
  const full = openSync('/dev/full', 'w');
  const child = spawn(process.execPath, [commandPath, 'hourly'], {
    cwd: root,
    env: cronEnv(root),
    stdio: ['ignore', full, full],
  });
  expect(await once(child, 'exit')).toEqual([0, null]);
  closeSync(full);
});

test('the entry is short, and loads nothing before it has looked at the version', () => {
  const entry = readFileSync(commandPath, 'utf8');
  expect(entry.startsWith('#!/usr/bin/env node\n')).toBe(true);
  expect(entry.length).toBeLessThan(3000);
});

interface Started {
  readonly printed: string;
  readonly exitCode: number | undefined;
  /** What the entry has loaded. */
  readonly loaded: readonly string[];
}

/** The built entry under a Node that claims to be of this version. */
function startUnder(version: string): Started {
  const loaded: string[] = [];
  let printed = '';
  const fakeProcess: { exitCode?: number } & Record<string, unknown> = {
    versions: { node: version },
    execPath: '/usr/bin/node',
    env: {},
    umask: () => 0o022,
    stderr: {
      write: (text: string) => {
        printed += text;
      },
    },
  };
  const fakeRequire = (name: string): unknown => {
    loaded.push(name);
    if (name.endsWith('path')) return { join: (...parts: string[]) => parts.join('/') };
    return { enableCompileCache: () => {}, main: () => {} };
  };
  const source = readFileSync(commandPath, 'utf8').replace(/^#!.*/, '');
  const folder = dirname(commandPath);
  runInNewContext(
    source,
    { process: fakeProcess, require: fakeRequire, exports: {}, module: {}, __dirname: folder },
    { filename: commandPath },
  );
  return { printed, exitCode: fakeProcess.exitCode, loaded };
}

describe('the entry', () => {
  test.for(['4.9.1', '18.20.8', '20.20.2', '21.7.3', '22.17.1'])('refuses Node %s', (version) => {
    const { printed, exitCode, loaded } = startUnder(version);
    expect(exitCode).toBe(2);
    expect(printed).toContain(`runner: needs Node 22.18 or newer, and this is ${version} (/usr/bin/node).`);
    expect(printed).toContain('npx folder-runner cron --install');
    expect(loaded.filter((name) => !/path$/.test(name))).toEqual([]);
  });

  test.for(['22.18.0', '22.23.3', '24.0.0', '26.10.0', '100.0.0'])('lets Node %s in', (version) => {
    const { printed, exitCode, loaded } = startUnder(version);
    expect({ printed, exitCode }).toEqual({ printed: '', exitCode: undefined });
    expect(loaded).toContain('./cli.cjs');
  });

  test("refuses Yarn's PnP with its cure, before anything is loaded", () => {
    const root = makeTemporaryRoot({
      'jobs/hourly/a.sh': 'touch ran\n',
      'pnp.cjs': "Object.defineProperty(process.versions, 'pnp', { value: '3' });\n",
    });
    const args = ['--require', join(root, 'pnp.cjs'), commandPath, 'hourly', '--root', root];
    const { status, stdout, stderr } = spawnSync(process.execPath, args, { encoding: 'utf8' });
    expect({ status, stdout, stderr }).toEqual({
      status: 2,
      stdout: '',
      stderr:
        "runner: Yarn's Plug'n'Play (PnP) is not supported: write `nodeLinker: node-modules` into .yarnrc.yml and run " +
        '`yarn install`.\n',
    });
    expect(existsSync(join(root, 'ran'))).toBe(false);
  });

  test('is written so that the oldest Node understands it', () => {
    expect(readFileSync(commandPath, 'utf8')).not.toMatch(/=>|\bconst\b|\blet\b|\?\.|\?\?|`[^`]*\$\{/);
  });
});

const systemNode = spawnSync('/usr/bin/node', ['--version'], { encoding: 'utf8' });
const isOld = systemNode.status === 0 && Number(systemNode.stdout.slice(1).split('.')[0]) < 22;

test.runIf(isOld)('the machine’s own old Node is refused for real', () => {
  const { status, stdout, stderr } = spawnSync('/usr/bin/node', [commandPath, 'hourly'], { encoding: 'utf8' });
  expect({ status, stdout }).toEqual({ status: 2, stdout: '' });
  expect(stderr).toContain('runner: needs Node 22.18 or newer');
});
