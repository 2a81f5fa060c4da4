import { spawnSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { commandPath, cronEnv, readRuns, runPass } from '../support/command.ts';
import { checkInvariants } from '../support/faults/invariants.ts';
import { makeTemporaryRoot } from '../support/root.ts';
import { runOne } from '../support/run.ts';
import { runLimited } from './run-limited.ts';

const fine = `console.log('fine');\n`;

const grows = 'const all = [];\nfor (;;) all.push(new Array(100_000).fill({}));\n';
const REFUSED = 'the host gave it no more memory: its limit of address space (ulimit -v) is reached';

/** Node scripts get a limit that the runner has not. */
function limitNode(ulimit: string): void {
  const { execPath } = process;
  const wrapper = join(makeTemporaryRoot(), 'node');
  writeFileSync(wrapper, `#!/bin/sh\nulimit ${ulimit} && exec '${execPath}' "$@"\n`, { mode: 0o755 });
  process.execPath = wrapper;
  onTestFinished(() => {
    process.execPath = execPath;
  });
}

/** The built command with a limit of the shell's, as a host sets it for all that cron starts. */
function runPassUnder(ulimit: string, scripts: Readonly<Record<string, string>>, concurrency = 1) {
  const files = Object.entries(scripts).map(([name, source]) => [`jobs/hourly/${name}`, source]);
  const settings = `export default { concurrency: ${concurrency} };\n`;
  const root = makeTemporaryRoot({ ...Object.fromEntries(files), 'runner.config.mjs': settings });
  const line = `ulimit ${ulimit} && exec "$0" "$@"`;
  const args = ['-c', line, process.execPath, commandPath, '--root', root, 'hourly'];
  const { status, stderr } = spawnSync('/bin/sh', args, { cwd: '/', env: cronEnv(root), encoding: 'utf8' });
  checkInvariants(root);
  return { status, stderr, root };
}

describe('address space (ulimit -v)', () => {
  test('of 2 GB is enough for a whole pass, whatever its scripts are', () => {
    const { status, stderr, root } = runPassUnder('-v 2000000', {
      'a.mjs': fine,
      'b.ts': 'const word: string = "fine";\nconsole.log(word);\n',
      'c.sh': 'echo fine\n',
    });
    expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
    expect(readRuns(root).runs.map(({ output }) => output)).toEqual(['fine\n', 'fine\n', 'fine\n']);
  });

  test('too small for another Node: the reason says so, other scripts run', async () => {
    limitNode('-v 500000');
    const node = await runOne('small.mjs', fine);
    expect(node).toMatchObject({ outcome: 'not-started', warning: 'was started twice' });
    expect(node.reason).toMatch(/^Node could not start: the host's memory limit \(ulimit -v\)/);
    expect(await runOne('small.sh', 'echo fine\n')).toMatchObject({ outcome: 'succeeded' });
  });

  test('that a Node script uses up is told from a heap limit', async () => {
    limitNode('-v 1600000');
    const end = await runOne('grows.mjs', grows);
    expect(end).toMatchObject({ outcome: 'killed', reason: REFUSED });
    limitNode('-v 4000000');
    const limited = await runOne('limited.mjs', `// @memory 32mb\n${grows}`);
    expect(limited).toMatchObject({ outcome: 'killed', reason: 'heap limit of 32 MB reached; raise it with @memory' });
  });
});

describe('file size (ulimit -f)', () => {
  test('ends a script that prints more, and the reason says so', async () => {
    const end = await runLimited('prints.pl', 'print "x" x 1000 for 1..1000;\n', { limits: '--fsize=100000' });
    expect(end).toMatchObject({
      outcome: 'killed',
      signal: 'SIGXFSZ',
      reason: "killed by SIGXFSZ: a file grew beyond the host's limit of file size (ulimit -f)",
      output: { bytes: 100_000 },
    });
  });

  test('leaves others alone', async () => {
    const end = await runLimited('quiet.mjs', fine, { limits: '--fsize=100000' });
    expect(end).toMatchObject({ outcome: 'succeeded', output: { text: 'fine\n' } });
  });
});

describe('open files (ulimit -n)', () => {
  test('of 64 are enough for a whole pass', () => {
    const { status, stderr } = runPassUnder('-n 64', { 'a.mjs': fine, 'b.sh': 'echo fine\n' });
    expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
  });

  test('of 8 more are enough for each further script at the same time, and for each job', () => {
    const waits = `setTimeout(() => {}, 300);\n`;
    const names = Array.from({ length: 9 }, (_, n) => [`s${n}.mjs`, waits]);
    const { status, stderr, root } = runPassUnder('-n 128', Object.fromEntries(names), 9);
    expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
    mkdirSync(join(root, 'jobs/queue'));
    writeFileSync(
      join(root, 'jobs/queue/q.mjs'),
      'export default () => new Promise((done) => setTimeout(done, 300));\n',
    );
    const line = `yes '{"name":"q"}' | head -n 9 | "$0" "$1" add --many && ulimit -n 128 && exec "$0" "$1" work --concurrency 9`;
    const how = { cwd: root, env: cronEnv(root), encoding: 'utf8' } as const;
    expect(spawnSync('/bin/sh', ['-c', line, process.execPath, commandPath], how)).toMatchObject({
      status: 0,
      stderr: '',
    });
    expect(
      readRuns(root).runs.filter(({ script, outcome }) => script === 'queue/q' && outcome === 'succeeded'),
    ).toHaveLength(9);
  });

  test('of 64 are enough for the jobs of many handlers, one after the other', () => {
    const names = Array.from({ length: 12 }, (_, n) => `q${n}`);
    const root = makeTemporaryRoot(
      Object.fromEntries(names.map((name) => [`jobs/queue/${name}.mjs`, 'export default () => 1;\n'])),
    );
    const input = names.map((name) => `{"name":"${name}"}\n`).join('');
    const line = `"$0" "$1" add --many && ulimit -n 64 && exec "$0" "$1" work`;
    const how = { cwd: root, env: cronEnv(root), encoding: 'utf8', input } as const;
    const { status, stderr } = spawnSync('/bin/sh', ['-c', line, process.execPath, commandPath], how);
    expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
  });

  test.for([12, 24])('too few of them (%i) are the reason', async (count) => {
    const end = await runLimited('opens.mjs', fine, { limits: `--nofile=${count}` });
    expect(end).toMatchObject({ outcome: 'not-started' });
    expect(end.reason).toMatch(/too many files are open for the host's limit \(ulimit -n\)$/);
  });
});

test('CPU time (ulimit -t) that is used up is the reason', async () => {
  const end = await runLimited('busy.pl', '1 while 1;\n', { limits: '--cpu=1:5' });
  expect(end).toMatchObject({
    outcome: 'killed',
    signal: 'SIGXCPU',
    reason: 'killed by SIGXCPU: it used all the CPU time that the host allows (ulimit -t)',
  });
});

test('what Node needs of processes for itself it has before its first script', () => {
  const count = 'grep Threads /proc/$PPID/status';
  const { run } = runPass({ 'a.sh': `#!/bin/sh\n${count}; sleep 0.5; ${count}\n` });
  const [first, later] = run('a').output?.trim().split('\n') ?? [];
  expect(first).toMatch(/^Threads:/);
  expect(first).toBe(later);
});
