import { chmodSync, existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { cronEnv, inRoot, jsonOf, startCommand } from '../../support/command.ts';
import { engine } from '../../support/engines/engines.ts';
import { exec, makeSite, sh } from '../../support/exec.ts';
import { readJobs, readRuns, readWorkers } from '../../support/log.ts';
import { until } from '../../support/until.ts';

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
});
