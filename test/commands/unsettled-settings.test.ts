import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import { waitForSettings } from '../../src/settings/load.ts';
import { cronPlace } from '../support/cron-place.ts';
import { queryLog } from '../support/open-log.ts';
import { runCommand } from '../support/run-command.ts';
import { executable, makeTemporaryRoot } from '../support/temporary-root.ts';

/** Settings are code, and code does what it likes. */
function runWith(settings: string, ...args: readonly string[]) {
  const root = makeTemporaryRoot({
    'runner.config.mjs': settings,
    'jobs/hourly/a.sh': executable('#!/bin/sh\nexit 0\n'),
  });
  return { root, ...runCommand(['--root', root, ...args], cronPlace(root)) };
}

const never = 'await new Promise(() => {}); export default {};';
const holdsProcess = 'setInterval(() => {}, 1000); export default {};';

describe('settings that never settle', () => {
  test.each([['hourly'], ['due'], ['run', 'hourly/a'], ['list'], ['add', 'x']])(
    'are told, and the call ends with 2: %s',
    (...args) => {
      const { status, stdout, stderr } = runWith(never, ...args);
      expect({ status, stdout, stderr }).toEqual({
        status: 2,
        stdout: '',
        stderr: 'runner: runner.config.mjs cannot be loaded: its top-level code never finishes\n',
      });
    },
  );

  test.each([['report'], ['why', 'hourly/a'], ['status']])('keep nobody from reading: %s', (...args) => {
    const { status, stdout } = runWith(never, ...args);
    expect(status).toBe(0);
    expect(stdout).not.toBe('');
  });

  test('are given up after their time though they hold the process', async () => {
    const loading = new Promise(() => {});
    await expect(waitForSettings('runner.config.ts', loading, 1)).rejects.toThrow(
      'its top-level code never finishes, or takes longer than 1 ms',
    );
  });

  test('are waited for as long as they may take', async () => {
    const listeners = () => process.listenerCount('beforeExit') + process.listenerCount('exit');
    const before = listeners();
    expect(await waitForSettings('runner.config.ts', sleep(1, 'loaded'))).toBe('loaded');
    expect(listeners()).toBe(before);
  });
});

test('settings that end the process are told, and the call ends with 2', () => {
  const { status, stdout, stderr } = runWith('process.exit(0); export default {};', 'hourly');
  expect({ status, stdout, stderr }).toEqual({
    status: 2,
    stdout: '',
    stderr: 'runner: runner.config.mjs cannot be loaded: it ends the process (process.exit)\n',
  });
});

test.each([['hourly'], ['status'], ['report']])(
  'settings that hold the process do not keep a call from its end: %s',
  (...args) => {
    const { root, status, stderr } = runWith(holdsProcess, ...args);
    expect(status, stderr).toBe(0);
    if (args[0] === 'hourly') expect(queryLog(root, 'select outcome from runs')).toEqual([{ outcome: 'succeeded' }]);
  },
);

test('what settings print is no part of what a program reads', () => {
  const prints = "console.log('one'); console.info('two'); console.table([3]); export default {};";
  const { status, stdout, stderr } = runWith(prints, 'list', '--json');
  expect([status, JSON.parse(stdout)]).toMatchObject([0, { tiers: [{ tier: 'hourly' }] }]);
  expect(stderr).toMatch(/^one\ntwo\n.*3/s);
});
