import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { createGuard } from '../../../src/commands/run/progress.ts';
import { commandPath, cronEnv, inRoot, readRuns, withCompileCache } from '../../support/command.ts';
import { queryLog } from '../../support/log.ts';
import { makeTemporaryRoot } from '../../support/root.ts';
import { until } from '../../support/until.ts';

test('a terminal that is closed lets a worker of the queue finish what it has in hand', async () => {
  const root = makeTemporaryRoot({ 'jobs/queue/slow.sh': 'touch "$RUNNER_ROOT/begun"; sleep 1\n' });
  const env = cronEnv(root);
  await once(spawn(process.execPath, [commandPath, 'add', 'slow'], { cwd: root, env }), 'exit');
  const work = `"${process.execPath}" "${commandPath}" work --for 1m`;
  const terminal = spawn('script', ['-qec', work, '/dev/null'], { cwd: root, env, stdio: 'ignore' });
  onTestFinished(() => void terminal.kill('SIGKILL'));
  await until('the job runs', () => existsSync(join(root, 'begun')));
  terminal.kill('SIGKILL');
  const stateOf = (table: string) => queryLog<{ state: string }>(root, `select state, reason from ${table}`);
  await until('the worker has ended', () => !stateOf('workers').some(({ state }) => state === 'running'));
  expect(stateOf('jobs')).toEqual([{ state: 'finished', reason: null }]);
  expect(stateOf('workers')).toEqual([{ state: 'finished', reason: 'the runner was told to stop by SIGHUP' }]);
  // It still writes Node's compile cache into its home, the root, when it exits.
  const [worker] = queryLog<{ pid: number }>(root, 'select pid from workers');
  await until('its process is gone', () => !existsSync(`/proc/${worker?.pid}`));
});

const settings = {
  'runner.config.json': '{ "alerts": { "channels": [{ "kind": "command", "run": "cat >> told" }] } }',
};

function makeRoot(): string {
  return makeTemporaryRoot({
    ...settings,
    'jobs/lab/a.sh': 'test -e fixed || { echo no orders; exit 3; }\n',
    'jobs/hourly/ok.sh': 'true\n',
  });
}

/** The command as somebody types it on a terminal; what is shown there. */
function onTerminal(root: string, ...args: readonly string[]): string {
  const line = [process.execPath, commandPath, '--root', root, ...args].join(' ');
  const env = withCompileCache({ cwd: root, env: { ...cronEnv(root), TERM: 'xterm' } }).env;
  return spawnSync('script', ['-qec', line, '/dev/null'], { cwd: root, env, encoding: 'utf8', input: '' }).stdout;
}

const incidents = (root: string) => queryLog(root, 'select subject, occurrences, recovered_at from incidents');

test.each([
  ['a run', ['run', 'lab/a']],
  ['a pass', ['lab']],
])('nobody else is told of %s that fails while somebody watches it on a terminal', async (_, args) => {
  const root = makeRoot();
  expect(onTerminal(root, ...args)).toContain('exit code 3');
  expect(queryLog(root, 'select outcome from runs')).toEqual([{ outcome: 'failed' }]);
  expect(incidents(root)).toEqual([]);
  expect(await inRoot(root, 'hourly')).toMatchObject({ status: 0, stderr: '' });
  expect(queryLog(root, 'select channel from tellings')).toEqual([]);
  expect((await inRoot(root, 'check', 'script-failing')).status).toBe(0);
});

test('a pass on a terminal names the files that were meant to run and never do', () => {
  const root = makeTemporaryRoot({ 'jobs/hourly/ok.sh': 'true\n', 'jobs/hourly/backup': '#!/bin/sh\ntrue\n' });
  const shown = onTerminal(root, 'hourly').replace(/\s+/g, ' ');
  expect(shown).toContain('Note: 1 file with a #! line never runs: jobs/hourly/backup');
  expect(shown).toContain('`chmod +x jobs/hourly/backup`');
});

test('--alert tells of a failure on a terminal, and a watched success ends its incident, told once', async () => {
  const root = makeRoot();
  onTerminal(root, 'run', 'lab/a', '--alert');
  expect(incidents(root)).toMatchObject([{ subject: 'lab/a', occurrences: 1, recovered_at: null }]);
  expect(queryLog(root, 'select channel from tellings')).toHaveLength(1);
  // Watched again, it counts for nothing.
  onTerminal(root, 'run', 'lab/a');
  expect(incidents(root)).toMatchObject([{ occurrences: 1, recovered_at: null }]);
  writeFileSync(join(root, 'fixed'), '');
  onTerminal(root, 'run', 'lab/a');
  expect(incidents(root)).toMatchObject([{ recovered_at: expect.any(Number) }]);
  expect(queryLog(root, 'select channel from tellings')).toHaveLength(2);
});

test('--no-alert tells nobody without a terminal either', async () => {
  const root = makeRoot();
  expect((await inRoot(root, 'run', 'lab/a', '--no-alert')).stderr).toContain('lab/a failed');
  expect(incidents(root)).toEqual([]);
  await inRoot(root, 'run', 'lab/a');
  expect(incidents(root)).toHaveLength(1);
});

const scripts = {
  'jobs/hourly/a.sh': 'true\n',
  'jobs/hourly/b-slow.sh': 'while ! [ -e "$RUNNER_ROOT/go" ]; do sleep 0.05; done\n',
  'jobs/hourly/c.sh': 'exit 3\n',
} as const;

const hasTmux = spawnSync('tmux', ['-V']).status === 0;
const hasScript = spawnSync('script', ['--version']).status === 0;

/** A real terminal of 100 columns with the runner in it. */
function openTerminal(root: string, env: NodeJS.ProcessEnv = {}) {
  const socket = join(root, 'tmux');
  const tmux = (...args: readonly string[]): string =>
    execFileSync('tmux', ['-S', socket, '-f', '/dev/null', ...args], {
      encoding: 'utf8',
      env: { ...cronEnv(root), LC_ALL: 'C.UTF-8', TERM: 'xterm-256color', ...env },
    });
  onTestFinished(() => void spawnSync('tmux', ['-S', socket, 'kill-server']));
  tmux('new-session', '-d', '-x', '100', '-y', '30', '-c', root, 'sh');
  tmux('set-option', '-g', 'remain-on-exit', 'on');
  return {
    type: (text: string) => tmux('send-keys', '-l', text) + tmux('send-keys', 'Enter'),
    read: (...args: readonly string[]) => tmux('capture-pane', '-p', ...args),
    close: () => tmux('kill-server'),
  };
}

const command = `'${process.execPath}' '${commandPath}' hourly`;

describe.runIf(hasTmux)('on a terminal', () => {
  test('a pass shows each script while it runs and how it ended', async () => {
    const root = makeTemporaryRoot(scripts);
    const terminal = openTerminal(root);
    terminal.type(`${command}; echo "exit $?"`);
    // The end of one is told once it is on the disk: the next one may show before.
    const shown = [/^✔ hourly\/a +succeeded +[<\d]\S* +(\S+B|–)$/mu, /[⠋-⠿] hourly\/b-slow +\d/u];
    await until('one has ended and the slow one shows', () => shown.every((line) => line.test(terminal.read())));
    const elapsed = () => /hourly\/b-slow +(\S+)/.exec(terminal.read())?.[1];
    const before = elapsed();
    await until('its time goes on', () => elapsed() !== before);
    execFileSync('touch', [join(root, 'go')]);
    await until('the pass has ended', () => /^exit 1$/m.test(terminal.read()));
    const screen = terminal.read();
    expect(screen).toMatch(/^✔ hourly\/b-slow +succeeded +\S+ +\S+B$/mu);
    expect(screen).toMatch(/^✖ hourly\/c +failed +\S+ +\S+ +exit code 3$/mu);
    expect(screen).not.toMatch(/[⠋-⠿]/u);
    expect(screen).toMatch(/^✖ .*\n {2}`npx folder-runner show 3`\nhourly: 2 succeeded, 1 did not, in \S+\nexit 1$/mu);
    // Said once: the summary is for who has not seen it.
    expect(screen).not.toContain('runner: 1 of 3');
    // Colours, unless somebody does without.
    expect(terminal.read('-e')).toContain('\x1b[32m');
  });

  test('a job that is given back is neither a success nor a failure', async () => {
    const root = makeTemporaryRoot({ 'jobs/hourly/a.sh': 'true\n', 'jobs/queue/later.sh': 'exit 75\n' });
    const runner = `'${process.execPath}' '${commandPath}'`;
    const terminal = openTerminal(root);
    terminal.type(`r() { ${runner} "$@"; }; r add later; r hourly; r add later; r work; echo "exit $?"`);
    await until('both have ended', () => /^exit 0$/m.test(terminal.read()));
    const screen = terminal.read();
    expect(screen).toMatch(/^↻ queue\/later +released .* exit code 75: asked for another try$/mu);
    expect(screen).toMatch(/^queue: 0 succeeded, 1 released, in /m);
    expect(screen).toMatch(/^queue: 0 succeeded, 0 failed, 1 released in /m);
  });

  test('NO_COLOR does without colours', async () => {
    const root = makeTemporaryRoot({ 'jobs/hourly/a.sh': 'true\n' });
    const terminal = openTerminal(root, { NO_COLOR: '1' });
    terminal.type(`${command}; echo "exit $?"`);
    await until('the pass has ended', () => /^exit 0$/m.test(terminal.read()));
    expect(terminal.read('-e')).toMatch(/^✔ hourly\/a +succeeded/mu);
  });

  test('a folder that cron cannot call is named after a pass, and not after a script that was named', async () => {
    const root = makeTemporaryRoot({ 'jobs/hourly/a.sh': 'true\n', 'jobs/houry/b.sh': 'true\n' });
    const terminal = openTerminal(root);
    const runner = `'${process.execPath}' '${commandPath}'`;
    terminal.type(`${runner} run hourly/a; echo "first $?"; ${runner} hourly; echo "exit $?"`);
    await until('both have ended', () => /^exit 0$/m.test(terminal.read()));
    const [run, pass] = terminal.read().split(/^first 0$/m);
    expect(run).not.toContain('Note: ');
    expect(pass).toContain('Note: jobs/houry is not a schedule name');
  });

  test('that is closed, what runs is ended and recorded', async () => {
    const root = makeTemporaryRoot({ 'jobs/hourly/a.sh': 'echo $$ >"$RUNNER_ROOT/pid"; sleep 60\n' });
    const terminal = openTerminal(root);
    terminal.type(`exec ${command} 2>'${root}/stderr'`);
    await until('the script shows', () => terminal.read().includes('hourly/a'));
    await until('the script runs', () => existsSync(join(root, 'pid')));
    terminal.close();
    // It has a row once it has lasted a moment.
    await until('the run has ended', () => readRuns(root).runs[0]?.outcome === 'failed');
    expect(readRuns(root).run('a')).toMatchObject({
      outcome: 'failed',
      reason: 'stopped because the runner was stopped (Ctrl-C or kill), ended with SIGTERM',
    });
    expect(readFileSync(join(root, 'stderr'), 'utf8')).not.toContain('EIO');
  });
});

describe.runIf(hasScript)('on a terminal of unknown size', () => {
  test('a pass goes on, and gives the cursor back', async () => {
    const root = makeTemporaryRoot({ 'jobs/hourly/a.sh': 'true\n' });
    const child = spawn('script', ['-qec', command, '/dev/null'], {
      cwd: root,
      env: { ...cronEnv(root), LC_ALL: 'C.UTF-8', TERM: 'xterm' },
      stdio: ['ignore', 'pipe', 'ignore'],
    });
    const chunks: Buffer[] = [];
    for await (const chunk of child.stdout) chunks.push(chunk);
    const printed = Buffer.concat(chunks).toString();
    expect(printed).toContain('hourly/a');
    expect(printed.lastIndexOf('\x1b[?25h')).toBeGreaterThan(printed.lastIndexOf('\x1b[?25l'));
  });
});

test('a display that fails ends no pass, and is told once', () => {
  const said: string[] = [];
  const guard = createGuard({ write: (text: string) => said.push(text) > 0 });
  const shown: number[] = [];
  const show = guard((value: number) => {
    if (value < 0) throw new RangeError(`Invalid count value: ${value}`);
    shown.push(value);
  });
  for (const value of [-2, 1, -3, 2]) show(value);
  expect(shown).toEqual([1, 2]);
  expect(said).toEqual([
    'runner: This display has a defect (RangeError: Invalid count value: -2); the pass goes on. ' +
      '`npx folder-runner report` shows its runs.\n',
  ]);
});
