import { spawnSync } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import { guardAgainstLoop, requireSettings, waitForSettings } from '../../../src/settings/config-file.ts';
import { cronEnv, cronPlace, inRoot, jsonOf, runCommand } from '../../support/command.ts';
import { queryLog } from '../../support/log.ts';
import { executable, makeTemporaryRoot } from '../../support/root.ts';
import { makeSeenRoot } from '../../support/site.ts';

interface Planned {
  readonly script: string;
  readonly fate: string;
}

const fatesOf = (runs: readonly Planned[]) => runs.map(({ script, fate }) => `${script} ${fate}`);

test('nothing is changed by it, and no secret is shown', () => {
  const root = makeTemporaryRoot({ 'jobs/hourly/a.sh': '# @env SHOP_TOKEN\ntouch "$RUNNER_ROOT/ran"\n' });
  const before = readdirSync(root, { recursive: true });
  const env = { ...cronEnv(root), SHOP_TOKEN: 'xyz' };
  for (const args of [['hourly'], ['run', 'a'], ['due']]) {
    const { status, stdout } = runCommand([...args, '--dry-run'], { cwd: root, env });
    expect(status).toBe(0);
    expect(stdout).toContain('  1  hourly/a · time limit 1h\n       /bin/sh jobs/hourly/a.sh\n');
    // Too short to be found in output: here its name tells.
    expect(stdout).toContain('  SHOP_TOKEN=[SHOP_TOKEN]\n');
    expect(stdout).not.toContain('xyz');
  }
  expect(readdirSync(root, { recursive: true })).toEqual(before);
});

test('what would run stands in the order of the pass, and what would not with the reason', async () => {
  const root = makeTemporaryRoot({
    'jobs/hourly/a.sh': 'true\n',
    'jobs/hourly/b.sh': '# @timeout soon\ntrue\n',
    'jobs/hourly/c.sh': 'true\n',
    'jobs/hourly/d.sh': '# @retries 2\n# @retry-delay 1h\nexit 1\n',
    'jobs/hourly/e.sh': 'true\n',
    'jobs/hourly/f.sh': '# @schedule 0 0 1 1 *\ntrue\n',
  });
  await inRoot(root, 'hourly');
  await inRoot(root, 'pause', 'hourly/c');
  const rows = () => queryLog(root, 'select * from jobs');
  const before = rows();
  const { passes } = jsonOf(await inRoot(root, 'hourly', '--dry-run', '--json'));
  expect(passes).toHaveLength(1);
  expect(passes[0]).toMatchObject({ tier: 'hourly', skipped: null });
  expect(fatesOf(passes[0].runs)).toEqual([
    ...['hourly/d waits', 'hourly/a runs', 'hourly/b refused', 'hourly/c paused', 'hourly/e runs', 'hourly/f waits'],
  ]);
  const [waiting, first, refused] = passes[0].runs;
  expect(waiting).toMatchObject({ attempt: 2, why: { reason: 'waits for try 2', until: expect.any(String) } });
  expect(first).toMatchObject({ timeoutMs: 3_600_000, command: ['/bin/sh', `${root}/jobs/hourly/a.sh`], why: null });
  expect(first.usualDurationMs).toBeGreaterThan(0);
  expect(first.environment).toMatchObject({ RUNNER_ROOT: root, RUNNER_RUN: null, RUNNER_SCRIPT: 'hourly/a' });
  expect(refused.why.reason).toContain('@timeout must be a duration');
  const nextYear = new Date(Date.UTC(new Date().getUTCFullYear() + 1, 0, 1)).toISOString();
  expect(passes[0].runs.at(-1).why).toEqual({ reason: 'waits', until: nextYear });
  // By hand neither a pause nor the time of a retry or of a schedule counts.
  for (const name of ['c', 'd', 'f']) {
    const { passes } = jsonOf(await inRoot(root, 'run', name, '--dry-run', '--json'));
    expect(fatesOf(passes[0].runs)).toEqual([`hourly/${name} runs`]);
  }
  expect(rows()).toEqual(before);
});

test('a tier that is paused or not due is skipped as a whole; a budget defers what has no time', async () => {
  const root = await makeSeenRoot({
    'jobs/hourly/a.sh': 'sleep 0.3\n',
    'jobs/hourly/b.sh': 'sleep 0.3\n',
    'jobs/daily/c.sh': 'true\n',
    'jobs/by-hand/d.sh': 'true\n',
  });
  await inRoot(root, 'hourly');
  const due = await inRoot(root, 'due', '--dry-run');
  expect(due.stdout).toMatch(/^hourly · would be skipped: not due until \d+ [A-Z][a-z]+ \d\d:00$/m);
  expect(due.stdout).toMatch(/^daily · 1 script would run$/m);
  expect(due.stdout).not.toContain('by-hand');
  const { passes } = jsonOf(await inRoot(root, 'hourly', '--dry-run', '--json', '--budget', '400ms'));
  expect(fatesOf(passes[0].runs)).toEqual(['hourly/a runs', 'hourly/b deferred']);
  await inRoot(root, 'pause', 'hourly');
  const paused = await inRoot(root, 'hourly', '--dry-run');
  expect(paused.stdout).toMatch(/^hourly · would be skipped: paused until it is resumed$/m);
});

test.each([['hourly'], ['due'], ['run', 'a']])('`runner %s %s` prints no JSON without it', async (...args) => {
  const root = makeTemporaryRoot({ 'jobs/hourly/a.sh': 'true\n' });
  const { status, stderr } = await inRoot(root, ...args, '--json');
  expect({ status, stderr }).toMatchObject({ status: 2, stderr: expect.stringContaining('--json needs --dry-run') });
});

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
