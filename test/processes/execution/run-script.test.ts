import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { runScript } from '../../../src/execution/script/run-script.ts';
import { runPass } from '../../support/command.ts';
import { executable, type FileContent } from '../../support/root.ts';
import { requestRun, runOne } from '../../support/run.ts';

describe('how a script ends is a value', () => {
  test('success', async () => {
    const end = await runOne('exit-0.sh', 'echo fine\n');
    expect(end).toMatchObject({
      outcome: 'succeeded',
      exitCode: 0,
      signal: null,
      reason: null,
      error: null,
      output: { text: 'fine\n' },
    });
    expect(end.durationMs).toBeGreaterThan(0);
    expect(Math.abs(Date.now() - end.finishedAt)).toBeLessThan(5000);
  });

  test('an exit code', async () => {
    const end = await runOne('exit-3.sh', 'echo broken >&2\nexit 3\n');
    expect(end).toMatchObject({ outcome: 'failed', exitCode: 3, reason: 'exit code 3' });
  });

  test('a signal that was not ours', async () => {
    const end = await runOne('segfault.sh', 'kill -SEGV $$\n');
    expect(end).toMatchObject({
      outcome: 'killed',
      exitCode: null,
      signal: 'SIGSEGV',
      reason: 'killed by SIGSEGV, not by the runner',
    });
  });

  test('the heap limit that @memory sets', async () => {
    const source = 'const all = [];\nfor (;;) all.push(new Array(1000).fill({}));\n';
    const limited = await runOne('leaks-memory.mjs', `// @memory 32mb\n${source}`);
    expect(limited).toMatchObject({
      outcome: 'killed',
      signal: 'SIGABRT',
      reason: 'heap limit of 32 MB reached; raise it with @memory',
      measuredBy: 'sampled',
    });
    expect(limited.output.text).toContain('JavaScript heap out of memory');
  });

  test('a script that vanishes before its turn', async () => {
    const request = await requestRun('gone.sh', 'echo never\n');
    const script = { ...request.script, launch: { kind: 'program', command: ['/no/such'] } } as const;
    const end = await runScript({ ...request, script });
    expect(end).toMatchObject({
      outcome: 'not-started',
      reason: expect.stringMatching(/^interpreter not found: such;/),
    });
  });
});

describe('a child left in the background', () => {
  test('does not delay the end, even with the output open', async () => {
    const request = await requestRun('leaves-a-child.sh', 'sleep 5 &\necho $! >"$RUNNER_ROOT/child"\necho done\n');
    const end = await runScript(request);
    const child = Number(readFileSync(join(request.root, 'child'), 'utf8'));
    expect(end).toMatchObject({ outcome: 'succeeded', output: { text: 'done\n' } });
    expect(end.durationMs).toBeLessThan(3000);
    // It is the script's own business: still there, and it fails here when it is not.
    process.kill(child, 'SIGKILL');
  });
});

describe('names that need care', () => {
  const names = [
    'a space.sh',
    'double"quote.sh',
    "single'quote.sh",
    'percent%20.sh',
    'Ünïcödé – 日本.sh',
    '-dash.sh',
    '$HOME.sh',
    'semi;colon.sh',
    '[glob]*?.sh',
    'back\\slash.sh',
    'hash#.mjs',
    'question?.mjs',
    'percent%.mjs',
    'Ünïcödé.ts',
    'b space.cts',
  ];
  const sourceOf = (name: string): FileContent =>
    name.endsWith('.sh') ? 'echo "$0"\n' : `console.log(process.argv[1]);\n`;

  test('go through a whole pass, each run once', () => {
    const { status, root, runs, stderr } = runPass(Object.fromEntries(names.map((name) => [name, sourceOf(name)])));
    expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
    expect(runs.map(({ output }) => output).toSorted()).toEqual(
      names.map((name) => `${join(root, 'jobs/hourly', name)}\n`).toSorted(),
    );
  });

  test('with a line feed in them are refused, and break neither log nor mail', () => {
    const { status, runs, stderr } = runPass({ 'two\nlines.sh': 'echo ran\n', 'b.sh': 'true\n' });
    expect(status).toBe(1);
    expect(runs.map(({ script, outcome }) => [script, outcome])).toEqual([
      ['hourly/b', 'succeeded'],
      ['hourly/two\\nlines', 'not-started'],
    ]);
    expect(stderr).toContain('hourly/two\\nlines not-started');
  });
});

test('a script with Windows line ends is refused with its cause, or runs where they do no harm', () => {
  const { run } = runPass({
    'shebang.sh': executable('#!/bin/sh\r\necho x\r\n'),
    'node.mjs': `#!/usr/bin/env node\r\nconsole.log('runs');\r\n`,
  });
  expect(run('shebang')).toMatchObject({ outcome: 'not-started' });
  expect(run('shebang').reason).toContain('Windows line end (CRLF)');
  expect(run('node')).toMatchObject({ outcome: 'succeeded', output: 'runs\n' });
});

test('the process is told as soon as there is one', async () => {
  let pid = 0;
  await runOne('pid.sh', 'echo $$\n', {
    onStarted: (started) => {
      pid = started;
    },
  }).then(({ output }) => expect(output.text).toBe(`${pid}\n`));
  expect(existsSync(`/proc/${pid}`)).toBe(false);
});
