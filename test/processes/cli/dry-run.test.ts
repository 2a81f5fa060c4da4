import { readdirSync } from 'node:fs';
import { expect, test } from 'vitest';
import { cronEnv, inRoot, jsonOf, runCommand } from '../../support/command.ts';
import { queryLog } from '../../support/log.ts';
import { makeTemporaryRoot } from '../../support/root.ts';
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
