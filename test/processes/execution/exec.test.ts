import { spawn, spawnSync } from 'node:child_process';
import { chmodSync, closeSync, constants, existsSync, mkdirSync, openSync, readFileSync, realpathSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { commandPath, cronEnv, inRoot, startCommand } from '../../support/command.ts';
import { engine } from '../../support/engines/engines.ts';
import { exec, makeSite, sh } from '../../support/exec.ts';
import { preload } from '../../support/faults/faults.ts';
import { queryLog, readRuns } from '../../support/log.ts';
import { makeTemporaryRoot } from '../../support/root.ts';
import { until } from '../../support/until.ts';

describe('a command', () => {
  test.each([
    [sh('kill -TERM $$'), 143],
    [sh('kill -9 $$'), 137],
    [['--', 'no-such-command'], 127],
    [['--', './data.txt'], 126],
    [['--timeout', '1s', ...sh('trap "exit 0" TERM; sleep 30 & wait')], 124],
    [['--fail-on', 'broken', ...sh('echo it is broken')], 1],
  ])('%j exits as a shell would say it', async (words, status) => {
    const root = await makeSite({ 'data.txt': '' });
    chmodSync(join(root, 'data.txt'), 0o644);
    expect(exec(root, ['x', ...words]).status).toBe(status);
    expect(readRuns(root)[0]?.outcome).not.toBe('succeeded');
  });

  test('it has the folder, the environment, the umask and the input of its caller, and what a run knows', async () => {
    const root = await makeSite({ 'elsewhere/x': '' });
    const cwd = realpathSync(join(root, 'elsewhere'));
    const script =
      'pwd; umask; cat; echo "$GREETING $TZ $PATH $RUNNER_SCRIPT $RUNNER_ATTEMPT ${RUNNER_CRON_SCRIPT-none}"';
    const env = {
      GREETING: 'hello',
      TZ: 'Asia/Tokyo',
      RUNNER_CRON_SCRIPT: '/x',
      RUNNER_CRON_VERSION: 'x',
      PATH: '/usr/bin:/bin',
    };
    const words = [
      '-c',
      'umask 027; exec "$0" "$@"',
      process.execPath,
      commandPath,
      '--root',
      root,
      'exec',
      'x',
      ...sh(script),
    ];
    const { RUNNER_CRON_SCRIPT: _, ...others } = env;
    spawnSync('/bin/sh', words, {
      cwd,
      input: 'data\n',
      env: { ...cronEnv(root), RUNNER_CALLED_BY: 'cron', ...engine.environment(), ...others },
      stdio: ['pipe', openSync('/dev/null', 'w'), openSync('/dev/null', 'w')],
    });
    const [run] = readRuns(root);
    expect(run?.output).toBe(`${cwd}\n0027\ndata\nhello Asia/Tokyo /usr/bin:/bin exec/x 1 none\n`);
  });

  test('RUNNER_ROOT is that of its caller, or none, so a runner command in it acts where it stands', async () => {
    // The last root of a test is the one that has the server's log.
    const other = makeTemporaryRoot({ 'jobs/queue/mail.sh': 'true\n' });
    const root = await makeSite();
    const call = `cd '${other}' && '${process.execPath}' '${commandPath}' list`;
    expect(exec(root, ['x', ...sh(call)]).status).toBe(0);
    expect(readRuns(root).at(-1)?.output).toContain('jobs/queue/mail.sh');
    expect(exec(root, ['y', ...sh('echo $RUNNER_ROOT')], { env: { RUNNER_ROOT: other } }).status).toBe(0);
    expect(readRuns(root).at(-1)?.output).toBe(`${other}\n`);
  });

  test('a process that it leaves behind is told of', async () => {
    const root = await makeSite();
    exec(root, ['x', ...sh('setsid sleep 60 >/dev/null 2>&1 & echo $! >pid')]);
    onTestFinished(() => void process.kill(Number(readFileSync(join(root, 'pid'), 'utf8')), 'SIGKILL'));
    expect((await inRoot(root, 'show', 'exec/x')).stdout).toContain('sleep');
  });

  test('what is redirected is written by the command itself, and only the rest is recorded', async () => {
    const root = await makeSite();
    const dump = join(root, 'dump.sql');
    const call = `"$0" "$1" --root '${root}' exec dump -- /bin/sh -c 'printf "\\377\\000data"; echo note >&2' >'${dump}'`;
    spawnSync('/bin/sh', ['-c', call, process.execPath, commandPath], {
      env: { ...cronEnv(root), RUNNER_CALLED_BY: 'cron', ...engine.environment() },
      cwd: root,
    });
    expect(readFileSync(dump).toString('latin1')).toBe('\xff\0data');
    expect(readRuns(root)[0]?.output).toBe('note\n');
  });

  test('secrets of the environment are masked in what is kept', async () => {
    const root = await makeSite();
    exec(root, ['x', ...sh('echo "token $API_TOKEN"')], { env: { API_TOKEN: 'abcdef0123456789' } });
    expect(readRuns(root)[0]?.output).not.toContain('abcdef0123456789');
  });

  test('with wrong settings, or without a root, it says so and keeps input, output and exit code', async () => {
    const root = await makeSite({ 'runner.config.mjs': 'export default { timeot: 1 };' });
    const told = exec(root, ['x', ...sh('cat; exit 5')], { input: 'data' });
    expect(told.status).toBe(5);
    expect(told.stdout).toContain('timeot');
    expect(told.stdout).toContain('exec/x runs without a record.\ndata');
    const outside = makeTemporaryRoot();
    const lost = startCommand(['exec', 'x', ...sh('echo all the same; exit 6')], { cwd: '/', env: cronEnv(outside) });
    expect(await lost.ended).toMatchObject({ status: 6, stdout: 'all the same\n' });
  });
});

describe('retries', () => {
  test.each([
    ['that nobody writes to or ends', 'exec "$0" "$@" 0<>pipe', ''],
    ['whose reads do not wait', 'exec 4>pipe; (sleep 0.5; echo first) >&4 & exec 4>&-; exec "$0" "$@" <&3', 'first\n'],
  ])('need no end of a pipe %s', async (_, call, input) => {
    const root = await makeSite();
    spawnSync('mkfifo', [join(root, 'pipe')]);
    const pipe = openSync(join(root, 'pipe'), constants.O_RDONLY | constants.O_NONBLOCK);
    onTestFinished(() => closeSync(pipe));
    const nothing = openSync('/dev/null', 'r+');
    const script = `${input && 'cat; '}[ "$RUNNER_ATTEMPT" = 2 ]`;
    const words = ['--root', root, 'exec', 'x', '--retries', '1', '--retry-delay', '1s', ...sh(script)];
    const { status } = spawnSync('/bin/sh', ['-c', call, process.execPath, commandPath, ...words], {
      ...{ cwd: root, timeout: 60_000, stdio: [nothing, nothing, nothing, pipe] },
      env: { ...cronEnv(root), RUNNER_CALLED_BY: 'cron', ...engine.environment() },
    });
    expect(status).toBe(0);
    expect(readRuns(root).map(({ attempt, outcome, output }) => [attempt, outcome, output])).toEqual([
      [1, 'failed', input],
      [2, 'succeeded', input],
    ]);
  });

  test.each([
    ['more than 64 MB', 'yes | "$0" "$@"', {}, 'it has more than 64MB'],
    ['no end', 'exec 3<>pipe; echo first >&3; exec "$0" "$@" <&3', { FAULT_PACE: '600' }, 'it has not ended within 5m'],
  ])('of an input with %s are refused in one sentence, before any try', async (_, call, env, why) => {
    const root = await makeSite();
    spawnSync('mkfifo', [join(root, 'pipe')]);
    const words = ['--root', root, 'exec', 'x', '--retries', '1', ...sh('touch ran')];
    const { status, stderr } = spawnSync('/bin/sh', ['-c', call, process.execPath, commandPath, ...words], {
      ...{ cwd: root, timeout: 60_000, encoding: 'utf8', stdio: ['ignore', 'ignore', 'pipe'] },
      env: { ...cronEnv(root), ...engine.environment(), NODE_OPTIONS: `--require=${preload}`, ...env },
    });
    expect(status).toBe(2);
    expect(stderr.replaceAll('\n', ' ')).toContain(`need its whole input before the first try, and ${why}.`);
    expect(existsSync(join(root, 'ran'))).toBe(false);
  });

  test('wait for no socket that nobody writes to, and read one that ends', async () => {
    const root = await makeSite();
    for (const input of ['', 'first\n']) {
      const script = `${input && 'cat; '}[ "$RUNNER_ATTEMPT" = 2 ]`;
      const words = ['--root', root, 'exec', 'x', '--retries', '1', '--retry-delay', '1s', ...sh(script)];
      const child = spawn(process.execPath, [commandPath, ...words], {
        ...{ cwd: root, stdio: ['pipe', 'ignore', 'ignore'] },
        env: { ...cronEnv(root), RUNNER_CALLED_BY: 'cron', ...engine.environment() },
      });
      onTestFinished(() => void child.kill('SIGKILL'));
      if (input !== '') child.stdin?.end(input);
      expect(await new Promise((done) => child.once('close', done))).toBe(0);
      expect(
        readRuns(root)
          .slice(-2)
          .map(({ outcome, output }) => [outcome, output]),
      ).toEqual([
        ['failed', input],
        ['succeeded', input],
      ]);
    }
  });
});

test('wrong use runs nothing', async () => {
  const root = await makeSite();
  for (const words of [
    ['x'],
    ['x', '--'],
    ['--', 'true'],
    ['--retries', '1', '--', 'true'],
    ['x', 'true'],
    ['a/b', '--', 'true'],
    ['x', '--timeout', 'y', '--', 'true'],
  ]) {
    expect((await inRoot(root, 'exec', ...words)).status, words.join(' ')).toBe(2);
  }
  expect(queryLog(root, 'select 1 from runs')).toEqual([]);
  mkdirSync(join(root, 'jobs/exec'));
  expect((await inRoot(root, 'list')).stdout).toContain('`npx folder-runner exec` is a command; rename the folder');
  expect((await inRoot(root, 'run', 'exec/x')).stderr).toContain('npx folder-runner exec x -- <command>');
});

const hasScript = spawnSync('script', ['--version']).status === 0;

describe.runIf(hasScript)('on a terminal', () => {
  test('output comes as it is printed, input is passed on, and the exit code is kept', async () => {
    const root = await makeSite();
    const inner = `${process.execPath} ${commandPath} --root ${root} exec talk -- /bin/sh -c 'echo name?; read name; echo "hello $name"; exit 3'`;
    const child = spawn('script', ['-qec', inner, '/dev/null'], {
      env: { ...cronEnv(root), ...engine.environment(), TERM: 'xterm' },
    });
    onTestFinished(() => void child.kill('SIGKILL'));
    let seen = '';
    child.stdout.on('data', (piece) => {
      seen += piece;
    });
    await until('it asks', () => seen.includes('name?'));
    child.stdin.write('Ada\n');
    const status = await new Promise((done) => child.once('close', done));
    expect(status).toBe(3);
    expect(seen.replaceAll('\r', '')).toContain('hello Ada\nrunner: exec/talk failed');
    expect(readRuns(root)[0]).toMatchObject({ exit_code: 3, output: 'name?\nhello Ada\n' });
    expect((await inRoot(root, 'incidents', '--all')).stdout).not.toContain('exec/talk');
  });
});
