import { chmodSync, existsSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { openQueue } from '../../../src/index.ts';
import {
  cronPlace,
  type Ended,
  inRoot,
  readRuns,
  runBoundByModes,
  runCommand,
  runner,
  runPass,
  runPassAgain,
  startCommand,
} from '../../support/command.ts';
import { queryLog } from '../../support/log.ts';
import { executable, type FileContent, makeTemporaryRoot, writeFiles } from '../../support/root.ts';
import { until } from '../../support/until.ts';

/** A file that only its owner reads. */
const own = (content: string): FileContent => ({ content, mode: 0o600 });

const pass = (root: string, env: NodeJS.ProcessEnv = {}): Ended =>
  runCommand(['hourly', '--root', root], { cwd: '/', env: { ...cronPlace(root).env, ...env } });

const PRINT = 'env | sort\n';

function variablesIn(output: string | null): Record<string, string> {
  const lines = (output ?? '').split('\n').filter((line) => line.includes('='));
  return Object.fromEntries(lines.map((line) => [line.split('=', 1)[0], line.slice(line.indexOf('=') + 1)]));
}

describe('.env', () => {
  test('goes to each script, behind the settings, @env and the runner, and before fixed values', () => {
    const { status, run } = runPass(
      { 'a.sh': `# @env ASKED LACKED\n${PRINT}`, 'b.mjs': 'console.log(`MODE=${process.env.MODE}`);\n' },
      {
        env: { ASKED: 'caller', MODE: 'caller' },
        files: {
          '.env': own(
            [
              ...[
                'MODE="live now" # a comment',
                "export QUOTED='$MODE'",
                'ASKED=file',
                'LACKED=file',
                'LINES="a\nb=c"',
              ],
              ...['SET=file', 'LANG=de_DE.UTF-8', 'RUNNER_SCRIPT=mine', 'RUNNER_DATABASE_URL=postgres://nowhere/x'],
            ].join('\r\n'),
          ),
          'runner.config.json': '{ "env": { "SET": "settings" } }',
        },
      },
    );
    expect(status).toBe(0);
    expect(variablesIn(run('a').output)).toMatchObject({
      ...{ MODE: 'live now', QUOTED: '$MODE', ASKED: 'caller', LACKED: 'file', SET: 'settings' },
      ...{ LANG: 'de_DE.UTF-8', RUNNER_SCRIPT: 'hourly/a' },
    });
    expect(run('a').output).not.toContain('RUNNER_DATABASE_URL');
    expect(run('b').output).toBe('MODE=live now\n');
  });

  test('goes to handlers, and a change reaches the next job', async () => {
    const root = makeTemporaryRoot({
      '.env': own('MODE=first\n'),
      'jobs/queue/warm.mjs': 'export default () => process.env.MODE;\n',
      'jobs/queue/program.sh': executable('#!/bin/sh\necho "$MODE"\n'),
    });
    const add = async (): Promise<void> => {
      const queue = await openQueue({ root });
      for (const name of ['warm', 'warm', 'program']) await queue.add(name);
      await queue.close();
    };
    const untilFinished = (count: number) =>
      until(
        `${count} jobs are finished`,
        () => queryLog(root, "select id from jobs where state = 'finished'").length === count,
      );
    await add();
    const worker = startCommand(['--root', root, 'work', '--wait', '10m'], cronPlace(root));
    await untilFinished(3);
    writeFileSync(join(root, '.env'), 'MODE=second one\n');
    await add();
    expect(await worker.ended).toEqual({ status: 0, stdout: '', stderr: '' });
    expect(runner(root, 'work').status).toBe(0);
    await untilFinished(6);
    const runs = queryLog<{ result: string | null; output: string | null }>(
      root,
      'select result, output from jobs left join runs on runs.job_id = jobs.id order by jobs.id',
    );
    const told = runs.map(({ result, output }) => (result === null ? output?.trim() : JSON.parse(result)));
    expect(told).toEqual([...Array(3).fill('first'), ...Array(3).fill('second one')]);
  });

  test('is masked like any secret, also for a value that the caller hides', async () => {
    const { root, run, stderr } = runPass(
      { 'a.sh': 'echo "$SHOP_TOKEN $LOGIN $MODE"; exit 3\n' },
      {
        env: { SHOP_TOKEN: 'token-of-the-caller' },
        files: {
          '.env': own('SHOP_TOKEN=tok-4711-0815\nLOGIN=listed-0815\nMODE=production\n'),
          'runner.config.json': '{ "secrets": ["LOGIN"] }',
        },
      },
    );
    expect(run('a').output).toBe('[SHOP_TOKEN] [LOGIN] production\n');
    expect(stderr).not.toMatch(/tok-4711|listed-0815/);
    const dry = await inRoot(root, 'run', 'a', '--dry-run');
    expect(dry.stdout).toContain('SHOP_TOKEN=[SHOP_TOKEN]');
    const report = runner(root, 'report', '--html', join(root, 'report.html'), '--with-output');
    expect(report.status).toBe(0);
    for (const text of [dry.stdout, readFileSync(join(root, 'report.html'), 'utf8')])
      expect(text).not.toMatch(/tok-4711|listed-0815/);
    const copy = join(root, 'copy.db');
    expect(runner(root, 'backup', copy).status).toBe(0);
    expect(readFileSync(copy, 'latin1')).not.toMatch(/tok-4711|listed-0815/);
  });

  test('need not exist, and may be a folder', () => {
    const { root, status } = runPass({ 'a.sh': PRINT });
    expect(status).toBe(0);
    mkdirSync(join(root, '.env/bin'), { recursive: true });
    expect(runPassAgain(root)).toMatchObject({ status: 0, stderr: '' });
  });
});

describe('files that the settings name', () => {
  test('take the place of .env, and those of a tier win in it', () => {
    const root = makeTemporaryRoot({
      '.env': own('MODE=unread\n'),
      'one.env': own('A=one\nB=one\nC=one\n'),
      'conf/two.env': own('B=two\nC=two\n'),
      'daily.env': own('C=daily\n'),
      'jobs/hourly/a.sh': PRINT,
      'jobs/daily/a.sh': PRINT,
      'runner.config.json': JSON.stringify({
        envFile: ['one.env', 'conf/two.env'],
        tiers: { daily: { envFile: 'daily.env' } },
      }),
    });
    for (const tier of ['hourly', 'daily']) expect(runner(root, tier)).toMatchObject({ status: 0, stderr: '' });
    const [hourly, daily] = readRuns(root).runs.map(({ output }) => variablesIn(output));
    expect(hourly).toMatchObject({ A: 'one', B: 'two', C: 'two' });
    expect(daily).toMatchObject({ A: 'one', B: 'two', C: 'daily' });
    expect(hourly).not.toHaveProperty('MODE');
  });

  test('may be none', () => {
    const files = { '.env': 'MODE=unread\nNODE_OPTIONS=x\n', 'runner.config.json': '{ "envFile": [] }' };
    const { status, run } = runPass({ 'a.sh': PRINT }, { files });
    expect([status, variablesIn(run('a').output).MODE]).toEqual([0, undefined]);
  });

  test.each([
    [{ envFile: 'shop.env' }, /\/shop\.env does not exist, and envFile in the settings names it; create it/],
    [{ tiers: { daily: { envFile: '/no/x.env' } } }, /: \/no\/x\.env does not exist, and tiers\.daily\.envFile in /],
    [{ envFile: 7 }, /envFile must be a file such as '\.env', or a list of files, found 7/],
  ])('%j is refused: %s', (settings, message) => {
    const root = makeTemporaryRoot({ 'jobs/hourly/a.sh': '', 'runner.config.json': JSON.stringify(settings) });
    const { status, stderr } = pass(root);
    expect([status, stderr]).toEqual([2, expect.stringMatching(message)]);
  });
});

test('a file of variables that others can read gives its variables, and doctor says how to close it', async () => {
  const root = makeTemporaryRoot({ 'jobs/hourly/a.sh': PRINT, '.env': { content: 'A=value\n', mode: 0o644 } });
  expect(pass(root)).toMatchObject({ status: 0, stderr: '' });
  const { checks } = JSON.parse((await inRoot(root, 'doctor', '--json')).stdout);
  expect(checks).toContainEqual({
    name: 'settings',
    status: 'warning',
    found: `${root}/.env can be read by anybody (mode 0644)`,
    cure: `Close it with: chmod go-rwx ${root}/.env.`,
  });
});

describe('a file of variables is refused, with its cure, and nothing runs', () => {
  test('if others can write it, until it is closed', () => {
    const root = makeTemporaryRoot({ 'jobs/hourly/a.sh': PRINT, '.env': { content: 'A=value\n', mode: 0o602 } });
    const { status, stderr } = pass(root);
    expect(status).toBe(2);
    expect(stderr).toContain(`${root}/.env can be written by anybody (mode 0602)`);
    expect(stderr).toMatch(/ with: chmod go-w \S+\/\.env, or /);
    expect(existsSync(join(root, '.runner/activity.db'))).toBe(false);
    expect(pass(root, { RUNNER_ALLOW_UNSAFE: '1' }).status).toBe(0);
    chmodSync(join(root, '.env'), 0o600);
    expect(pass(root).status).toBe(0);
  });

  test('in a folder that others may write, or of a web server', () => {
    const files = { 'jobs/hourly/a.sh': PRINT, 'open/x.env': own('A=1\n'), 'public_html/x.env': own('A=1\n') };
    const root = makeTemporaryRoot(files);
    chmodSync(join(root, 'open'), 0o777);
    const refused = (file: string): string => {
      writeFileSync(join(root, 'runner.config.json'), JSON.stringify({ envFile: file }));
      const { status, stderr } = pass(root);
      expect(status).toBe(2);
      return stderr;
    };
    expect(refused('open/x.env')).toContain(`${root}/open can be written by anybody (mode 0777)`);
    const served = `is inside ${root}/public_html, which a web server probably serves: anybody could read its passwords`;
    expect(refused('public_html/x.env')).toContain(`${root}/public_html/x.env ${served}`);
    symlinkSync('public_html/x.env', join(root, 'linked.env'));
    expect(refused('linked.env')).toContain(`${root}/linked.env ${served}`);
  });

  test('if this user cannot read it, or it leads nowhere', async () => {
    const root = makeTemporaryRoot({ 'jobs/hourly/a.sh': PRINT, '.env': { content: 'A=1\n', mode: 0 } });
    const bound = await runBoundByModes(['--root', root, 'hourly'], cronPlace(root));
    expect([bound.status, bound.stderr]).toEqual([
      2,
      expect.stringMatching(/\.env cannot be read: EACCES.* chmod u\+r/),
    ]);
    const linked = makeTemporaryRoot({ 'jobs/hourly/a.sh': PRINT });
    symlinkSync('nowhere', join(linked, '.env'));
    expect(pass(linked).stderr).toContain(`${linked}/.env is a link that leads nowhere; correct or remove it\n`);
  });

  test.each([
    [
      'A=1\nexport NODE_OPTIONS=--require=x',
      '.env:2: NODE_OPTIONS makes programs load code, which such a file may not',
    ],
    ['LD_PRELOAD=/x.so', '.env:1: LD_PRELOAD makes programs load code'],
    ['BASH_FUNC_ls%%=() { :; }', '.env:1: "BASH_FUNC_ls%%" is not a name such as API_KEY'],
    ['A=1\nmy name=hidden', '.env:2: "my name" is not a name such as API_KEY; correct or remove the line'],
    ['DB_PASSWORD=hidden#x', '.env:1: the value of DB_PASSWORD would end before its #; put the value between quotes'],
    ['COLOR=#fff', '.env:1: the value of COLOR would end before its #'],
    ['A=hidden\0x', '.env:1: the value of A contains a NUL'],
  ])('with the line %j', (content, message) => {
    const root = makeTemporaryRoot({ 'jobs/hourly/a.sh': PRINT, '.env': own(content) });
    const { status, stderr } = pass(root);
    expect([status, stderr]).toEqual([2, expect.stringContaining(message)]);
    expect(stderr).not.toContain('hidden');
  });

  test('but commands that run nothing still work, and list and doctor name the fault', async () => {
    const root = makeTemporaryRoot({ 'jobs/hourly/a.sh': PRINT, '.env': { content: 'A=1\n', mode: 0o606 } });
    for (const command of ['status', 'report', 'jobs']) expect((await inRoot(root, command)).status).toBe(0);
    expect((await inRoot(root, 'list')).stdout.replaceAll(/\s+/g, ' ')).toMatch(/\.env can be written by anybody/);
    const doctor = await inRoot(root, 'doctor', '--json');
    const { checks } = JSON.parse(doctor.stdout);
    expect(checks).toContainEqual({
      name: 'settings',
      status: 'problem',
      found: `${root}/.env can be written by anybody (mode 0606)`,
      cure: expect.stringMatching(/chmod go-w \S+\/\.env, or /),
    });
    writeFiles(root, { '.env': own('A=1\nB=2\nRUNNER_HOST=x\n') });
    const found = JSON.parse((await inRoot(root, 'doctor', '--json')).stdout).checks.map(
      (check: { readonly found: string }) => check.found,
    );
    expect(found).toContain('.env: 2 variables, mode 0600');
    expect(found.join('\n')).not.toContain('can be read');
    expect(found).toContain('.env sets RUNNER_HOST, to no effect');
  });
});
