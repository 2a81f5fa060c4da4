import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { describe, expect, onTestFinished, test } from 'vitest';
import { callCommand, commandPath, withCompileCache } from '../../support/command.ts';
import { engine } from '../../support/engines/engines.ts';
import { makeTemporaryRoot } from '../../support/root.ts';
import { until } from '../../support/until.ts';
import { running, writeLog } from '../../support/written-log.ts';

const berlin = { PATH: process.env.PATH, TZ: 'Europe/Berlin' };

interface Ended {
  readonly code: number | null;
  readonly out: string;
  readonly err: string;
}

function start(root: string, args: readonly string[], env: NodeJS.ProcessEnv = {}): ChildProcess {
  const child = spawn(process.execPath, [commandPath, ...args], {
    cwd: root,
    env: withCompileCache({ cwd: root, env: { ...engine.environment(), ...berlin, ...env } }).env,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  onTestFinished(() => void child.kill('SIGKILL'));
  return child;
}

async function end(child: ChildProcess): Promise<Ended> {
  const { stdout, stderr } = child;
  if (!stdout || !stderr) throw new Error('stdout and stderr were asked for as pipes');
  const code = new Promise<number | null>((resolve) => child.once('close', resolve));
  const [out, err] = await Promise.all([text(stdout), text(stderr)]);
  return { out, err, code: await code };
}

async function runner(root: string, ...args: string[]): Promise<Ended> {
  const { status, stdout, stderr } = await callCommand(args, { cwd: root, env: berlin });
  return { code: status, out: stdout, err: stderr };
}

const scripts = {
  'jobs/hourly/clean-tmp.sh': { content: '#!/bin/sh\n# @timeout 5m\n', mode: 0o755 },
  'jobs/hourly/notes.txt': 'not a script',
} as const;

async function writeFailure(root: string): Promise<number> {
  const log = await writeLog(root);
  return await log.addRun('hourly/clean-tmp', Date.now() - 60_000, {
    outcome: 'failed',
    exit_code: 3,
    reason: 'exit code 3',
    output: 'working\n\x1b[2Jdisk full\n',
  });
}

describe('npx folder-runner report', () => {
  test('where nothing has run says what to do, exits 0 and makes nothing', async () => {
    const root = makeTemporaryRoot(scripts);
    expect(await runner(root, 'report')).toEqual({
      code: 0,
      err: '',
      out:
        `Nothing has run yet; 1 script in ${root}/jobs.\n` +
        '`npx folder-runner hourly` runs that tier now.\n' +
        '`npx folder-runner cron --install` makes cron run it.\n',
    });
    expect(JSON.parse((await runner(root, 'report', '--json')).out)).toMatchObject({
      tiers: [{ tier: 'hourly', lastPass: null, missedPasses: null }],
      scripts: [{ script: 'hourly/clean-tmp', runs: 0, successRate: null, lastRun: null }],
    });
    expect(existsSync(join(root, '.runner'))).toBe(false);
  });

  test('shows all scripts in the local zone, without colours into a pipe', async () => {
    const root = makeTemporaryRoot(scripts);
    await writeFailure(root);
    const { out, code } = await runner(root, 'report');
    expect(code).toBe(0);
    expect(out).toContain('times in Europe/Berlin');
    expect(out).toContain('exit code 3: disk full');
    expect(out).not.toContain('\x1b');
  });

  test('obeys FORCE_COLOR and COLUMNS', async () => {
    const root = makeTemporaryRoot(scripts);
    await writeFailure(root);
    const { out } = await end(start(root, ['report'], { FORCE_COLOR: '1', COLUMNS: '60' }));
    expect(out).toContain('\x1b[31mfailed\x1b[39m');
    expect(out).not.toMatch(/outcome.*memory/);
    expect(out).toContain('5 columns hidden (p50, max, cpu, memory, last 20): widen to');
  });

  test('of one script shows its runs, as text, JSON and CSV', async () => {
    const root = makeTemporaryRoot(scripts);
    const id = await writeFailure(root);
    expect((await runner(root, 'report', 'clean-tmp')).out).toContain('exit code 3');
    const none = await runner(root, 'report', 'clean-tmp', '--outcome', 'killed');
    expect(none.out).toContain('--since 90d goes further back');
    const json = JSON.parse((await runner(root, 'report', 'hourly/clean-tmp', '--json')).out);
    expect(json).toMatchObject({ script: 'hourly/clean-tmp', runs: [{ id, exitCode: 3 }] });
    const csv = (await runner(root, 'report', 'clean-tmp', '--csv')).out.split('\n');
    expect(csv[1]).toContain(`${id},hourly/clean-tmp,hourly,failed`);
  });

  test('asks no settings, so that wrong ones keep nobody from reading the log', async () => {
    const root = makeTemporaryRoot({ ...scripts, 'runner.config.json': '{"concurrency": "many"}' });
    await writeFailure(root);
    const { out, err, code } = await runner(root, 'report');
    expect(out).toContain('clean-tmp');
    expect({ code, err }).toEqual({ code: 0, err: '' });
  });

  test('says that no script runs where the settings have a wrong name, and still reads the log', async () => {
    const root = makeTemporaryRoot({ ...scripts, 'runner.config.yaml': '' });
    await writeFailure(root);
    const { out, err, code } = await runner(root, 'report');
    expect(out).toContain('clean-tmp');
    expect({ code, err }).toEqual({
      code: 0,
      err:
        `Note: no script runs. ${root}/runner.config.yaml is not read: settings are TypeScript, JavaScript or JSON. ` +
        'Write them to runner.config.json, and remove this file.\n',
    });
  });

  test.each([
    [['report', 'hourly/clean-tpm'], 'did you mean hourly/clean-tmp?'],
    [['report', '--tier', 'houly'], 'There is no tier "houly" in jobs/ or in the log; did you mean hourly?'],
    [['report', '--since', 'munday'], 'found "munday"; did you mean monday?'],
    [['report', '--outcome', 'fail'], 'did you mean failed?'],
    [['report', '--limit', '0'], '--limit must be a whole number from 1, found "0".'],
    [['report', '--json', '--csv'], '--json and --csv cannot be combined'],
    [['show', 'latest'], 'There is no script "latest" in jobs/ or in the log'],
    [['show', 'hourly/clean-tmp'], 'hourly/clean-tmp has never run.'],
    [['show', '0'], 'npx folder-runner show needs the number of a run or the name of a script, found "0"'],
    [['show', '99'], 'There is no run 99 in the log: nothing has run yet'],
    [['tail', 'nothing'], 'There is no script "nothing" in jobs/ or in the log'],
  ])('%j is wrong use: one sentence, exit 2', async (args, message) => {
    const { code, out, err } = await runner(makeTemporaryRoot(scripts), ...args);
    expect({ code, out }).toEqual({ code: 2, out: '' });
    expect(err).toContain(message);
    expect(err.trimEnd().split('\n')).toHaveLength(1);
  });

  test('is quiet when its reader has gone', async () => {
    const root = makeTemporaryRoot(scripts);
    const log = await writeLog(root);
    // More than a pipe takes.
    const reason = 'x'.repeat(4_000);
    for (let run = 0; run < 100; run++) {
      await log.addRun('hourly/clean-tmp', Date.now() - 1000, { outcome: 'failed', reason });
    }
    const child = start(root, ['report', 'clean-tmp', '--json']);
    child.stdout?.once('data', () => child.stdout?.destroy());
    const code = new Promise((resolve) => child.once('exit', resolve));
    expect(child.stderr && (await text(child.stderr))).toBe('');
    expect(await code).toBe(0);
  });
});

describe('npx folder-runner show', () => {
  test.each<[string, object, string | null]>([
    ['printed nothing', { output: '', output_bytes: 0 }, ''],
    ['was cut off by an unknown number of bytes', { output: null, output_bytes: null }, null],
  ])('tells as JSON the output of a run that %s', async (_how, fields, output) => {
    const root = makeTemporaryRoot();
    const log = await writeLog(root);
    const id = await log.addRun('hourly/a', Date.now(), fields);
    expect(JSON.parse((await runner(root, 'show', String(id), '--json')).out)).toMatchObject({ output });
  });

  test('of a script shows its newest run', async () => {
    const root = makeTemporaryRoot(scripts);
    await writeFailure(root);
    const newest = String(await writeFailure(root));
    const shown = await runner(root, 'show', newest);
    const { script } = JSON.parse((await runner(root, 'show', newest, '--json')).out);
    expect(await runner(root, 'show', script)).toEqual(shown);
    expect(await runner(root, 'show', `jobs/${script}.sh`)).toEqual(shown);
  });

  test('shows one run with its output, made safe', async () => {
    const root = makeTemporaryRoot(scripts);
    const { out, code } = await runner(root, 'show', String(await writeFailure(root)));
    expect(code).toBe(0);
    expect(out).toMatch(/^hourly\/clean-tmp · run 1 · failed\nexit code 3\n/);
    expect(out.endsWith('\noutput\nworking\ndisk full\n')).toBe(true);
  });

  test('names what was noted though the run succeeded, and so do the runs of its script', async () => {
    const root = makeTemporaryRoot(scripts);
    const log = await writeLog(root);
    const warning = 'its memory was above 100MB for 9s';
    const id = await log.addRun('hourly/clean-tmp', Date.now() - 60_000, { warning });
    expect((await runner(root, 'show', String(id))).out).toContain(` succeeded (warning)\nwarning: ${warning}\n`);
    expect((await runner(root, 'report', 'clean-tmp')).out).toContain('  warning: its memory was ');
    const json = JSON.parse((await runner(root, 'show', String(id), '--json')).out);
    expect(json).toMatchObject({ outcome: 'succeeded', warning });
  });

  test('--with shows its figures beside those of another run, or of a script’s newest one', async () => {
    const root = makeTemporaryRoot(scripts);
    const log = await writeLog(root);
    const [now, known] = [Date.now(), { max_rss_bytes: 50 * 1024 * 1024, content_hash: 'a'.repeat(64) }];
    const usual = await log.addRun('hourly/clean-tmp', now - 90_000, { ...known, duration_us: 2_000_000 });
    const fields = { max_rss_bytes: null, duration_us: 9_400_000, content_hash: 'b'.repeat(64) };
    const slow = await log.addRun('hourly/clean-tmp', now - 60_000, fields);
    const other = await log.addRun('daily/other', now - 30_000, { ...known, content_hash: null });
    const { out } = await runner(root, 'show', String(slow), '--with', String(usual));
    expect(out).toMatch(new RegExp(`\\nbeside run ${usual} of hourly/clean-tmp · succeeded · .+\\n`));
    expect(out).toMatch(/\nduration +9\.4s +2s +4\.7×\n/);
    expect(out).toMatch(/\nmemory +– +50MB +–\n/);
    expect(out).toContain('\nTheir files differ.\n');
    expect((await runner(root, 'show', String(slow), '--with', 'daily/other')).out).toContain(`beside run ${other} of`);
    const json = JSON.parse((await runner(root, 'show', String(slow), '--with', String(usual), '--json')).out);
    expect(json.comparison).toMatchObject({ with: usual, script: 'hourly/clean-tmp', isContentSame: false });
    expect(json.comparison.figures[0]).toEqual({ measure: 'duration', name: '', value: 9400, other: 2000 });
    const none = await runner(root, 'show', String(slow), '--with', '99');
    expect(none).toMatchObject({ code: 2, out: '', err: expect.stringContaining('There is no run 99 in the log') });
  });

  test('as JSON has the output as it was written', async () => {
    const root = makeTemporaryRoot(scripts);
    const { out } = await runner(root, 'show', String(await writeFailure(root)), '--json');
    expect(JSON.parse(out)).toMatchObject({ id: 1, output: 'working\n\x1b[2Jdisk full\n' });
  });
});

describe('runner tail', () => {
  test('-f is ended quietly by Ctrl-C, with the exit code of shells', async () => {
    const root = makeTemporaryRoot(scripts);
    const child = start(root, ['tail', 'clean-tmp', '-f']);
    const waiting = new Promise((resolve) => child.stderr?.once('data', resolve));
    const ended = end(child);
    await waiting;
    child.kill('SIGINT');
    expect(await ended).toEqual({
      code: 130,
      out: '',
      err: 'hourly/clean-tmp has never run; waiting for its first run (Ctrl-C ends).\n',
    });
  });

  test('-f follows a run that begins later', async () => {
    const root = makeTemporaryRoot(scripts);
    const log = await writeLog(root);
    const child = start(root, ['tail', 'clean-tmp', '-f']);
    const waiting = new Promise((resolve) => child.stderr?.once('data', resolve));
    const ended = end(child);
    await waiting;
    const pass = await log.addPass('hourly', Date.now(), { state: 'running', pid: process.pid });
    const own = { worker_id: pass, claim_number: 1 };
    const id = await log.addRun('hourly/clean-tmp', Date.now(), { ...running, ...own });
    let seen = '';
    child.stdout?.on('data', (data) => {
      seen += data;
    });
    writeFileSync(join(log.state.output, `${pass}.1.log`), 'live\n');
    await until('it is shown', () => seen === 'live\n');
    log.change("update runs set outcome = 'succeeded', duration_us = 5000");
    const { code, err } = await ended;
    expect(code).toBe(0);
    expect(err).toContain(`run ${id} of hourly/clean-tmp succeeded in 5ms.`);
  });
});

test('runner list names scripts with their options, and what is no script and why', async () => {
  const root = makeTemporaryRoot(scripts);
  const { out } = await runner(root, 'list');
  expect((await runner(makeTemporaryRoot(), 'list')).out).toMatch(/^There is no tier in jobs\/ yet: .*init/);
  expect(out).toContain('  hourly/clean-tmp · jobs/hourly/clean-tmp.sh\n    timeout 5m\n');
  expect(out).toContain('  jobs/hourly/notes.txt · text\n');
  expect(JSON.parse((await runner(root, 'list', '--json')).out)).toMatchObject({
    tiers: [{ tier: 'hourly', periodMs: 3_600_000, scripts: [{ options: { timeoutMs: 300_000 } }] }],
    ignored: [{ path: join(root, 'jobs/hourly/notes.txt'), reason: 'text' }],
  });
});
