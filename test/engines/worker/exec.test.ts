import { spawn, spawnSync } from 'node:child_process';
import {
  chmodSync,
  closeSync,
  constants,
  existsSync,
  mkdirSync,
  openSync,
  readFileSync,
  realpathSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { commandPath, cronEnv, type Ended, inRoot, jsonOf, type Place, startCommand } from '../../support/command.ts';
import { engine } from '../../support/engines/engines.ts';
import { preload } from '../../support/faults/faults.ts';
import { queryLog, readJobs, readRuns, readWorkers, watchLog } from '../../support/log.ts';
import { makeTemporaryRoot } from '../../support/root.ts';
import { until } from '../../support/until.ts';

/** With a log that nothing has run in. */
async function makeSite(files: Readonly<Record<string, string>> = {}): Promise<string> {
  const root = makeTemporaryRoot({ 'jobs/hourly/a.sh': 'true\n', ...files });
  await inRoot(root, 'pause', 'hourly');
  await inRoot(root, 'resume');
  watchLog(root);
  return root;
}

/** A call by cron from a folder of its own, whose output is cron's to mail: both streams lead to one file. */
function exec(root: string, words: readonly string[], { env = {}, ...place }: Partial<Place> = {}): Ended {
  const mail = join(root, `mail-${Math.random()}`);
  const { status } = spawnSync(
    '/bin/sh',
    [
      '-c',
      `exec "$0" "$@" 2>&1 | cat >'${mail}'; exit $(cat '${mail}.status')`,
      '/bin/sh',
      '-c',
      `"$0" "$@"; echo $? >'${mail}.status'`,
    ].concat([process.execPath, commandPath, '--root', root, 'exec'], words),
    {
      ...{ cwd: root, encoding: 'utf8', timeout: 60_000, input: '', ...place },
      env: { ...cronEnv(root), RUNNER_CALLED_BY: 'cron', ...engine.environment(), ...env },
    },
  );
  return { status, stdout: readFileSync(mail, 'utf8'), stderr: '' };
}

const sh = (script: string): string[] => ['--', '/bin/sh', '-c', script];

describe('under cron', () => {
  test('a command is a run of a script: its output is kept and nothing is printed', async () => {
    const root = await makeSite();
    expect(exec(root, ['backup', ...sh('echo out; echo err >&2')])).toMatchObject({ status: 0, stdout: '' });
    const [run] = readRuns(root);
    expect(run).toMatchObject({ script: 'exec/backup', outcome: 'succeeded', exit_code: 0, output: 'out\nerr\n' });
    expect(readJobs(root)).toMatchObject([{ name: 'exec/backup', state: 'finished', attempts: 1 }]);
    expect((await inRoot(root, 'show', 'exec/backup')).stdout).toContain('out\n');
    expect(jsonOf(await inRoot(root, 'report', 'exec/backup', '--json')).runs).toHaveLength(1);
  });

  test('a failure keeps the exit code of the command, opens an incident, and is mailed once', async () => {
    const root = await makeSite();
    const failing = ['backup', ...sh('echo why; exit 7')];
    const first = exec(root, failing);
    expect(first.status).toBe(7);
    expect(first.stdout).toContain('exec/backup failed');
    expect(first.stdout).toContain('| why');
    expect(exec(root, failing)).toMatchObject({ status: 7, stdout: '' });
    expect((await inRoot(root, 'incidents')).stdout).toMatch(/exec\/backup.*2 failures/);
    expect(exec(root, ['backup', '--', 'true'])).toMatchObject({ status: 0 });
    expect((await inRoot(root, 'incidents')).stdout).not.toContain('exec/backup');
  });

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
});

describe('locks', () => {
  const waits = (file: string): string => `while [ ! -e '${file}' ]; do sleep 0.02; done`;

  test('a second call of a name is skipped, recorded and exits with 0; another name does not wait', async () => {
    const root = await makeSite();
    const go = join(root, 'go');
    const place = { cwd: root, env: cronEnv(root) };
    const first = startCommand(['exec', 'one', '--root', root, ...sh(waits(go))], place);
    await until('it runs', () => readJobs(root).some(({ state }) => state === 'running'));
    expect(exec(root, ['one', ...sh('touch second')])).toMatchObject({ status: 0, stdout: '' });
    expect(existsSync(join(root, 'second'))).toBe(false);
    expect(exec(root, ['two', '--', 'true']).status).toBe(0);
    expect((await inRoot(root, 'why', 'exec/one')).stdout).toContain('still running');
    expect((await inRoot(root, 'status')).stdout).toContain('exec/one');
    writeFileSync(go, '');
    expect((await first.ended).status).toBe(0);
    expect(readWorkers(root).filter(({ tier }) => tier === 'exec/one')).toMatchObject([
      { kind: 'script', state: 'finished' },
      { kind: 'script', state: 'skipped' },
    ]);
    expect(readRuns(root).map(({ script, outcome }) => [script, outcome])).toEqual([
      ['exec/one', 'succeeded'],
      ['exec/two', 'succeeded'],
    ]);
  });

  test('a pause of its name, or of all commands, skips its calls; stop ends its run', async () => {
    const root = await makeSite();
    expect((await inRoot(root, 'pause', 'exec/new')).status).toBe(0);
    expect(exec(root, ['new', ...sh('touch ran')]).status).toBe(0);
    expect((await inRoot(root, 'resume', 'exec/new')).status).toBe(0);
    await inRoot(root, 'pause', 'exec');
    expect(exec(root, ['new', ...sh('touch ran')]).status).toBe(0);
    expect(existsSync(join(root, 'ran'))).toBe(false);
    await inRoot(root, 'resume', 'exec');

    const place = { cwd: root, env: cronEnv(root) };
    const long = startCommand(['exec', 'new', '--root', root, '--', 'sleep', '600'], place);
    await until('it runs', () => readRuns(root).some(({ outcome }) => outcome === 'running'));
    expect((await inRoot(root, 'stop', 'exec/new')).stdout).toContain('was stopped');
    expect((await long.ended).status).toBe(143);
    expect(readRuns(root)).toMatchObject([{ outcome: 'stopped' }]);
    expect((await inRoot(root, 'mute', 'exec/new')).status).toBe(0);
  });
});

describe('retries', () => {
  test('run in the same call with the same input, and their last one counts', async () => {
    const root = await makeSite();
    const script = 'read line; echo "$RUNNER_ATTEMPT $line"; [ "$RUNNER_ATTEMPT" = 3 ]';
    const retried = ['flaky', '--retries', '2', '--retry-delay', '1s', ...sh(script)];
    expect(exec(root, retried, { input: 'first\n' })).toMatchObject({ status: 0, stdout: '' });
    expect(readRuns(root).map(({ attempt, outcome, output }) => [attempt, outcome, output])).toEqual([
      [1, 'failed', '1 first\n'],
      [2, 'failed', '2 first\n'],
      [3, 'succeeded', '3 first\n'],
    ]);
    expect(readWorkers(root)).toHaveLength(1);
    expect((await inRoot(root, 'incidents', '--json', '--all')).stdout).not.toContain('exec/flaky');
  });

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

  test('are those of the settings, where defaults for files do not count', async () => {
    const config = `export default {
      defaults: { retries: 5, timeout: '1s' },
      scripts: { 'exec/set': { retries: 1, retryDelay: '1s' } },
    };`;
    const root = await makeSite({ 'runner.config.mjs': config });
    expect(exec(root, ['set', '--', 'false']).status).toBe(1);
    expect(exec(root, ['unset', ...sh('sleep 2; false')]).status).toBe(1);
    const runs = readRuns(root).map(({ script, outcome }) => `${script} ${outcome}`);
    expect(runs).toEqual(['exec/set failed', 'exec/set failed', 'exec/unset failed']);
  });

  test('a second call waits for none: it is skipped while the first one waits for its next try', async () => {
    const root = await makeSite();
    const place = { cwd: root, env: cronEnv(root) };
    const first = startCommand(
      ['exec', 'x', '--root', root, '--retries', '1', '--retry-delay', '1h', '--', 'false'],
      place,
    );
    await until('it waits', () => readJobs(root).some(({ state }) => state === 'retrying'));
    expect(exec(root, ['x', '--', 'true']).status).toBe(0);
    expect(readRuns(root)).toHaveLength(1);
    first.kill('SIGTERM');
    expect((await first.ended).status).toBe(143);
    expect(readJobs(root)).toMatchObject([{ name: 'exec/x', state: 'failed' }]);
    expect((await inRoot(root, 'incidents')).stdout).toContain('exec/x');
  });

  test('a call that is killed while it waits leaves a failure, which the next pass records', async () => {
    const root = await makeSite();
    const place = { cwd: root, env: cronEnv(root) };
    const words = ['exec', 'x', '--root', root, '--retries', '1', '--retry-delay', '1s', '--', 'false'];
    const first = startCommand(words, place);
    await until('it waits', () => readJobs(root).some(({ state }) => state === 'retrying'));
    first.kill('SIGKILL');
    await first.ended;
    await until('it is due', async () => {
      await inRoot(root, 'hourly');
      return readJobs(root).some(({ name, state }) => name === 'exec/x' && state === 'failed');
    });
    const [job] = readJobs(root).filter(({ name }) => name === 'exec/x');
    expect(job?.reason).toBe('its call ended before its next try');
    expect(readRuns(root).filter(({ script }) => script === 'exec/x')).toHaveLength(1);
  });
});

test('a killed call is found by the next command: its run crashed, or is left alone while it goes on', async () => {
  const root = await makeSite();
  const place = { cwd: root, env: cronEnv(root) };
  const go = join(root, 'go');
  const script = `while [ ! -e '${go}' ]; do sleep 0.02; done`;
  const first = startCommand(['exec', 'x', '--root', root, ...sh(script)], place);
  await until('it runs', () => readRuns(root).some(({ outcome, pid }) => outcome === 'running' && pid !== null));
  first.kill('SIGKILL');
  await until('it is dead', () => !existsSync(`/proc/${first.pid}`));
  expect(exec(root, ['x', ...sh('touch ran')]).status).toBe(0);
  expect(existsSync(join(root, 'ran'))).toBe(false);
  writeFileSync(go, '');
  await until('it has ended', async () => {
    exec(root, ['y', '--', 'true']);
    return readRuns(root).some(({ script, outcome }) => script === 'exec/x' && outcome === 'crashed');
  });
  expect(exec(root, ['x', ...sh('touch ran')]).status).toBe(0);
  expect(existsSync(join(root, 'ran'))).toBe(true);
  expect(readJobs(root).filter(({ name }) => name === 'exec/x')).toMatchObject([{ state: 'finished' }]);
});

test('a script runs after a command has succeeded, once for each success', async () => {
  const root = await makeSite({ 'jobs/hourly/b.sh': '# @after exec/backup\necho b\n' });
  const runsOfB = () => readRuns(root).filter(({ script }) => script === 'hourly/b').length;
  await inRoot(root, 'hourly');
  exec(root, ['backup', '--', 'false']);
  await inRoot(root, 'hourly');
  expect(runsOfB()).toBe(0);
  exec(root, ['backup', '--', 'true']);
  await inRoot(root, 'hourly');
  await inRoot(root, 'hourly');
  expect(runsOfB()).toBe(1);
});

describe('whatever is wrong with the runner, the command runs', () => {
  test('without its log the runs are spooled, and the next call takes them in', async () => {
    const root = await makeSite();
    exec(root, ['x', '--', 'true']);
    if (engine.name !== 'sqlite') return;
    const log = join(root, '.runner/activity.db');
    chmodSync(log, 0o644);
    const kept = readFileSync(log);
    writeFileSync(log, 'no database at all '.repeat(1000));
    expect(exec(root, ['x', ...sh('touch ran')]).status).toBe(0);
    expect(existsSync(join(root, 'ran'))).toBe(true);
    expect(kept.length).toBeGreaterThan(0);
    expect((await inRoot(root, 'report', 'exec/x')).stdout).toContain('succeeded');
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
