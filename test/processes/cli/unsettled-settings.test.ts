import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import { guardAgainstLoop, requireSettings, waitForSettings } from '../../../src/settings/config-file.ts';
import { cronPlace, runCommand } from '../../support/command.ts';
import { queryLog } from '../../support/log.ts';
import { executable, makeTemporaryRoot } from '../../support/root.ts';

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
  test.runIf(process.env.RUN_INTEGRATION)('though they loop keep a call for half a minute', () => {
    const { status, stderr } = runWith('for (;;);\nexport default {};\n', 'hourly');
    expect(stderr).toBe(
      'runner: runner.config.mjs cannot be loaded: its top-level code never finishes, or takes longer than 30000 ms\n',
    );
    expect(status).toBe(2);
  });

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
    await expect(waitForSettings(loading, 1)).rejects.toThrow(
      'its top-level code never finishes, or takes longer than 1 ms',
    );
  });

  test.each([
    ['mjs', 'for (;;);\nexport default {};\n'],
    ['cjs', 'for (;;);\n'],
    ['mjs', "import './_loops.mjs';\nexport default {};\n"],
  ])('are given up after their time though they loop: %s', (extension, code) => {
    const file = `runner.config.${extension}`;
    const root = makeTemporaryRoot({ [file]: code, '_loops.mjs': 'for (;;);\n' });
    expect(() => requireSettings(join(root, file), 100)).toThrow(
      'its top-level code never finishes, or takes longer than 100 ms',
    );
  });

  test('have nothing of them run twice where they await something', () => {
    const root = makeTemporaryRoot({ 'settings.mjs': 'globalThis.hasRun = true;\nawait 1;\nexport default {};\n' });
    expect(requireSettings(join(root, 'settings.mjs'))).toBeNull();
    expect(globalThis).not.toHaveProperty('hasRun');
  });

  test('are killed with a sentence where they loop behind an await', async () => {
    const load = join(import.meta.dirname, '../../../src/settings/config-file.ts');
    const code = `import { guardAgainstLoop } from ${JSON.stringify(load)};
guardAgainstLoop('runner.config.ts', 300);\nawait 1;\nfor (;;);\n`;
    const options = { encoding: 'utf8', timeout: 30_000 } as const;
    const { signal, stderr } = spawnSync(process.execPath, ['--input-type=module', '-e', code], options);
    expect(signal).toBe('SIGKILL');
    expect(stderr).toContain('runner: runner.config.ts cannot be loaded: its top-level code never finishes\n');
  });

  test('are not waited for by the guard, nor killed once they are loaded', async () => {
    guardAgainstLoop('runner.config.ts', 50)();
    await sleep(200);
  });

  test('are waited for as long as they may take', async () => {
    const listeners = () => process.listenerCount('beforeExit');
    const before = listeners();
    expect(await waitForSettings(sleep(1, 'loaded'))).toBe('loaded');
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
