import { symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import type { Script } from '../../../src/discovery/script.ts';
import { commandOf, findMissingInterpreter, withBackoff } from '../../../src/execution/start/process.ts';
import { runPass } from '../../support/command.ts';
import { executable, makeTemporaryRoot } from '../../support/root.ts';

const scriptOf = (script: Partial<Script>) => ({
  script: { options: {}, ...script } as Script,
  probePath: '/dist/probe.cjs',
});

test('a Node script is run by the runner’s Node, with the probe', () => {
  expect(commandOf(scriptOf({ launch: { kind: 'node' }, path: '/jobs/a b.ts' }))).toEqual([
    process.execPath,
    '--require',
    '/dist/probe.cjs',
    '/jobs/a b.ts',
  ]);
});

test('a heap limit is given in whole megabytes', () => {
  const options = { memoryBytes: 100.5 * 1024 * 1024 };
  const limited = scriptOf({ launch: { kind: 'node' }, path: '/a.js', options });
  expect(commandOf(limited)).toContain('--max-old-space-size=101');
});

test('a program is run as it is', () => {
  const command = ['/bin/sh', '-eu', '/jobs/a.sh'] as const;
  expect(commandOf(scriptOf({ launch: { kind: 'program', command }, path: '/jobs/a.sh' }))).toEqual(command);
});

describe('the interpreter that env asks for', () => {
  test.for<readonly [readonly string[], string | null]>([
    [['/usr/bin/env', 'no-such-language', '/a'], 'no-such-language'],
    [['/usr/bin/env', 'sh', '/a'], null],
    [['/usr/bin/env', '-S', 'x', '/a'], null],
    [['/usr/bin/env', '/opt/x/bin/x', '/a'], null],
    [['/bin/sh', '/a'], null],
    [['/a'], null],
  ])('of %j is missing: %s', ([command, missing]) => {
    expect(findMissingInterpreter(command, '/usr/bin:/bin')).toBe(missing);
  });

  test('is nowhere without a PATH', () => {
    expect(findMissingInterpreter(['/usr/bin/env', 'sh', '/a'], undefined)).toBe('sh');
  });
});

test('a missing interpreter is told by name and stops no other script', () => {
  const { status, run, runs } = runPass({
    'a-plain': executable('#!/opt/none/bin/no-such-language\n'),
    'b-env': executable('#!/usr/bin/env no-such-language\n'),
    'c-folder': executable('#!/usr/bin\n'),
    'c-root': executable('#!/\n'),
    'd.sh': 'echo fine\n',
    'e.sh': '#!/opt/none/bin/sh\n',
    'f.sh': '# @shell /opt/none/bin/sh -e\n',
  });
  expect(status).toBe(1);
  expect(runs).toHaveLength(7);
  const notInstalled = 'no-such-language is not installed, or not on the PATH of scripts (/';
  const cures = {
    'a-plain': 'line 1 of jobs/hourly/a-plain names /opt/none/bin/no-such-language, which does not exist',
    'b-env': expect.stringContaining(notInstalled),
  };
  for (const label of ['a-plain', 'b-env'] as const) {
    const { reason, ...others } = run(label);
    expect(reason?.split('; ')).toEqual(['interpreter not found: no-such-language', cures[label]]);
    expect(others).toMatchObject({
      outcome: 'not-started',
      exit_code: null,
      signal: null,
      pid: null,
      output_bytes: 0,
      measured_by: null,
      user_cpu_us: null,
      max_rss_bytes: null,
    });
  }
  expect(run('c-folder')).toMatchObject({ outcome: 'not-started', reason: 'not allowed to execute bin' });
  expect(run('c-root')).toMatchObject({ outcome: 'not-started', reason: 'not allowed to execute /' });
  expect(run('d')).toMatchObject({ outcome: 'succeeded', output: 'fine\n' });
  for (const [label, asked] of Object.entries({
    e: 'line 1 of jobs/hourly/e.sh names',
    f: 'jobs/hourly/f.sh is to be run by',
  })) {
    const [found, names, where] = (run(label).reason ?? '').split('; ');
    expect([found, names]).toEqual(['interpreter not found: sh', `${asked} /opt/none/bin/sh, which does not exist`]);
    expect(where).toMatch(/^sh is at \/.*\/sh$/);
  }
});

test('an interpreter behind links that lead back to themselves is told as such', () => {
  const folder = makeTemporaryRoot();
  symlinkSync(join(folder, 'two'), join(folder, 'one'));
  symlinkSync(join(folder, 'one'), join(folder, 'two'));
  const { run } = runPass({ a: executable(`#!${join(folder, 'one')}\n`) });
  expect(run('a')).toMatchObject({
    outcome: 'not-started',
    reason:
      'could not start one: too many symlinks on the way to it; line 1 of jobs/hourly/a names ' +
      `${join(folder, 'one')}, a symlink that leads back to itself; fix or remove it`,
  });
});

const fail = (code: string) => Object.assign(new Error(`spawn ${code}`), { code });

/** Fails with these codes, one after the other, then succeeds. */
function startAfter(codes: readonly string[]) {
  const rest = [...codes];
  const counted = {
    calls: 0,
    start: async () => {
      counted.calls += 1;
      const code = rest.shift();
      if (code !== undefined) throw fail(code);
      return 'started';
    },
  };
  return counted;
}

const never = new AbortController().signal;

test('goes on trying while the host is full', async () => {
  const counted = startAfter(['EAGAIN', 'ENOMEM', 'ENFILE']);
  expect(await withBackoff(counted.start, never, [1, 1, 1])).toBe('started');
  expect(counted.calls).toBe(4);
});

test('gives up after the last delay, with the last error', async () => {
  const counted = startAfter(['EAGAIN', 'EAGAIN', 'ENOMEM']);
  await expect(withBackoff(counted.start, never, [1, 1])).rejects.toThrow('spawn ENOMEM');
  expect(counted.calls).toBe(3);
});

test('takes about five seconds in all', async () => {
  const started = performance.now();
  await expect(withBackoff(startAfter(Array(7).fill('EAGAIN')).start, never)).rejects.toThrow();
  expect(performance.now() - started).toBeGreaterThan(4_900);
});

describe('tries once only', () => {
  test.for(['ENOENT', 'EACCES', 'EMFILE'])('at %s, which does not pass', async (code) => {
    const counted = startAfter([code]);
    await expect(withBackoff(counted.start, never, [1])).rejects.toThrow(code);
    expect(counted.calls).toBe(1);
  });

  test('when it is stopped meanwhile, and does not wait', async () => {
    const stop = new AbortController();
    const counted = startAfter(['EAGAIN']);
    const result = withBackoff(counted.start, stop.signal, [60_000]);
    stop.abort();
    await expect(result).rejects.toThrow('EAGAIN');
    expect(counted.calls).toBe(1);
  });
});
