import { spawnSync } from 'node:child_process';
import { describe, expect, test } from 'vitest';
import { commandPath, cronEnv, readRuns } from '../../support/command.ts';
import type { LoggedRun } from '../../support/engines/engine.ts';
import { checkInvariants } from '../../support/faults/invariants.ts';
import { queryLog } from '../../support/log.ts';
import { executable, makeTemporaryRoot } from '../../support/root.ts';

const settings = { limits: { maxLoad: 0.01, minFreeMemory: '100tb', maxProcesses: 1 } };

/** In a mount namespace of its own, with an empty folder in the place of `/proc`, or of another one. */
function runWithoutProc(node: string, root: string, args: readonly string[], input = '', folder = '/proc') {
  const line = `mount -t tmpfs none ${folder} && exec "$@"`;
  const program = ['-m', 'sh', '-c', line, 'sh', node, commandPath, '--root', root, ...args];
  const { PATH } = process.env;
  const { status, stdout, stderr } = spawnSync('unshare', program, {
    cwd: '/',
    env: { ...cronEnv(root), PATH },
    encoding: 'utf8',
    input,
  });
  return { status, stdout, stderr };
}

describe('on a host without /proc', () => {
  // By its name alone Node does not know where it is.
  test.for([process.execPath, 'node'])('a whole pass goes well, called as %s', (node) => {
    const root = makeTemporaryRoot({
      'jobs/hourly/a.mjs': `// @max-rss 1mb\nconsole.log(process.version);\n`,
      'jobs/hourly/b.ts': `const word: string = 'fine';\nconsole.log(word);\n`,
      'jobs/hourly/c.sh': 'sleep 0.2\necho fine\n',
      'runner.config.json': JSON.stringify(settings),
    });
    expect(runWithoutProc(node, root, ['hourly'])).toMatchObject({ status: 0, stderr: '' });
    const { run } = readRuns(root);
    expect(run('a')).toMatchObject({
      outcome: 'succeeded',
      output: `${process.version}\n`,
      measured_by: 'self',
      user_cpu_us: expect.any(Number),
      max_rss_bytes: expect.any(Number),
      warning: 'its limits of resident memory could not be watched: there is no /proc',
    });
    expect(run('b')).toMatchObject({ outcome: 'succeeded', output: 'fine\n', warning: null });
    expect(run('c')).toMatchObject({
      outcome: 'succeeded',
      output: 'fine\n',
      measured_by: null,
      user_cpu_us: null,
      system_cpu_us: null,
      max_rss_bytes: null,
    });
    expect(runWithoutProc(node, root, ['report']).stdout).toMatch(/3 runs/);
    expect(runWithoutProc(node, root, ['hourly'])).toMatchObject({ status: 0, stderr: '' });
    expect(readRuns(root).runs).toHaveLength(6);
    checkInvariants(root);
  });

  test('handlers are served, several at once, by one process and by one each; programs too', () => {
    const root = makeTemporaryRoot({
      'jobs/queue/warm.mjs': 'export default () => process.ppid;\n',
      'jobs/queue/alone.mjs': '// @isolate\nexport default () => process.ppid;\n',
      'jobs/queue/program.sh': executable('#!/bin/sh\nsleep 0.2\n'),
    });
    const names = [...Array.from({ length: 40 }, () => 'warm'), 'alone', 'program'];
    const lines = names.map((name) => JSON.stringify({ name })).join('\n');
    expect(runWithoutProc('node', root, ['add', '--many'], lines)).toMatchObject({ status: 0, stderr: '' });
    const worked = runWithoutProc('node', root, ['work', '--max-memory', '1mb']);
    expect(worked).toMatchObject({ status: 0, stderr: '' });
    const runs = queryLog<LoggedRun>(root, 'select * from runs order by id');
    expect(runs.map(({ outcome, reason, warning }) => [outcome, reason, warning])).toEqual(
      names.map(() => ['succeeded', null, null]),
    );
    const figuresOf = (name: string) => {
      const { measured_by, user_cpu_us, max_rss_bytes, rss_delta_bytes } = runs.findLast(
        ({ script }) => script === `queue/${name}`,
      ) as LoggedRun;
      return { measured_by, user_cpu_us, max_rss_bytes, rss_delta_bytes };
    };
    const self = { measured_by: 'self', user_cpu_us: expect.any(Number), rss_delta_bytes: null };
    expect(figuresOf('alone')).toEqual({ ...self, max_rss_bytes: expect.any(Number) });
    expect(figuresOf('program')).toEqual({
      measured_by: null,
      user_cpu_us: null,
      max_rss_bytes: null,
      rss_delta_bytes: null,
    });
    checkInvariants(root);
  });
});

test('without /dev/null no program is started, and that is said', () => {
  const root = makeTemporaryRoot({ 'jobs/hourly/a.sh': 'true\n', 'jobs/hourly/b.mjs': '' });
  expect(runWithoutProc(process.execPath, root, ['hourly'], '', '/dev').status).toBe(1);
  const reason = 'no program can be started: /dev/null is missing on this host, or closed to your user; ';
  const rows = queryLog<{ reason: string }>(root, 'select reason from runs');
  expect(rows.map((row) => row.reason.slice(0, reason.length))).toEqual([reason, reason]);
});
