import { existsSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { pathWithoutCrontab } from '../support/command.ts';
import { distinctPoints, type Fault, listFaultPoints, runWithFault } from '../support/faults/faults.ts';
import { checkInvariants, findViolations, HOLD, nodeScript, shellScript } from '../support/faults/invariants.ts';
import { listOpenJobs, listRunProcesses, readLog } from '../support/faults/log-content.ts';
import { sample, sampleCases, someAtATime } from '../support/faults/rounds.ts';
import { queryLog } from '../support/log.ts';
import { makeTemporaryRoot } from '../support/root.ts';
import { makeSeenRoot } from '../support/site.ts';
import { until } from '../support/until.ts';

/*
 * The runner's clock is set by the preload; files and scripts keep the kernel's. Both happen to a
 * real machine, whose files were written before and whose clock is set while it runs.
 */

const HOUR = 3_600_000;
const DAY = 24 * HOUR;
const steps = [HOUR, -HOUR, DAY, -DAY, -3_650 * DAY, 3_650 * DAY];
const moved = { hasClockMoved: true } as const;

/** What is kept is a matter of age; here nothing may be too old. */
const keepsAll = { 'runner.config.json': JSON.stringify({ retention: { succeeded: '9999d', failed: '9999d' } }) };

const scripts = {
  ...keepsAll,
  'jobs/hourly/a.sh': shellScript(),
  'jobs/hourly/b.sh': shellScript({ tags: ['@retries 1', '@retry-delay 1ms'], exit: 'attempt < 2' }),
  'jobs/hourly/c.mjs': nodeScript(),
  'jobs/yearly/y.sh': shellScript(),
};

const countRuns = (root: string): number =>
  queryLog<{ runs: number }>(root, 'select count(*) as runs from runs')[0]?.runs ?? 0;

/** `b` fails at first: that is no success, and nothing worse. */
async function runPassWithRetry(root: string, args: readonly string[], fault: Fault): Promise<void> {
  const { status, stderr } = await runWithFault(root, args, fault);
  expect([0, 1], stderr).toContain(status);
}

test.each(sampleCases(steps))('a clock that was set by %d ms between two passes', async (clockMs) => {
  const root = makeTemporaryRoot(scripts);
  for (const fault of [{}, { clockMs }, {}]) await runPassWithRetry(root, ['hourly'], fault);
  expect(countRuns(root)).toBe(3 * 4);
  expect(listOpenJobs(readLog(root) as NonNullable<ReturnType<typeof readLog>>)).toEqual([]);
  checkInvariants(root, moved);
});

test('a clock that is set in the midst of a pass, wherever', async () => {
  const points = await listFaultPoints(makeTemporaryRoot(scripts), ['hourly']);
  const rounds = distinctPoints(points).map((point, index) => {
    const clockMs = steps[index % steps.length] as number;
    return { point, clockMs, clockFrom: points.indexOf(point) + 1 };
  });
  const told = await someAtATime(sample(rounds), async ({ point, clockMs, clockFrom }) => {
    const root = makeTemporaryRoot(scripts);
    const { status, stderr } = await runWithFault(root, ['hourly'], { clockMs, clockFrom });
    const wrong = [
      ...(status === 1 ? [] : [`ended with ${status}: ${stderr}`]),
      ...(countRuns(root) === 4 ? [] : [`${countRuns(root)} runs`]),
      ...findViolations(root, moved),
    ];
    return wrong.map((each) => `${clockMs} ms from ${point}: ${each}`);
  });
  expect(told.flat()).toEqual([]);
}, 300_000);

test('a pass in which the clock was set back lasted nobody knows how long, and its runs are its own', async () => {
  const files = { ...keepsAll, 'jobs/hourly/a.sh': shellScript(), 'jobs/hourly/b.sh': shellScript() };
  const points = await listFaultPoints(makeTemporaryRoot(files), ['hourly']);
  const clockFrom = points.findIndex((point) => point.startsWith('spawn')) + 1;
  const root = makeTemporaryRoot(files);
  expect((await runWithFault(root, ['hourly'], { clockMs: -DAY, clockFrom })).status).toBe(0);
  const { stdout } = await runWithFault(root, ['report']);
  expect(stdout).toMatch(/^hourly · every hour · last pass \d+ \S+ \S+ · 2 succeeded in –$/m);
});

test('what was called while the clock was ahead keeps nothing from being expected', async () => {
  const root = makeTemporaryRoot(scripts);
  const status = () => runWithFault(root, ['status'], { env: { PATH: pathWithoutCrontab } });
  const next = async () => /^hourly .* in (.*)$/m.exec((await status()).stdout)?.[1];
  await runPassWithRetry(root, ['hourly'], { clockMs: 3_650 * DAY });
  expect(await next()).toMatch(/^(1h|\d+m.*)$/);
  await runPassWithRetry(root, ['hourly'], {});
  expect(await next()).toMatch(/^(1h|59m.*)$/);
});

test.each(sampleCases(steps))('`due` neither loops nor starves when the clock was set by %d ms', async (clockMs) => {
  const root = await makeSeenRoot(scripts);
  const ran = async (fault: Fault = {}): Promise<number> => {
    const before = existsSync(join(root, '.runner')) ? countRuns(root) : 0;
    await runPassWithRetry(root, ['due'], fault);
    return countRuns(root) - before;
  };
  expect(await ran()).toBe(5);
  const after = await ran({ clockMs });
  // At most once for each tier and step, and by no means again while the clock stays.
  expect(after).toBeLessThanOrEqual(5);
  expect(await ran({ clockMs })).toBe(0);
  // The hour that comes is not left out, whatever the clock was before.
  expect(await ran({ clockMs: clockMs + HOUR })).toBe(4);
  const back = await ran();
  expect(back).toBeLessThanOrEqual(5);
  expect(await ran()).toBe(0);
  expect(await ran({ clockMs: HOUR })).toBe(4);
  checkInvariants(root, moved);
});

test.each([HOUR, DAY, 3_650 * DAY])(
  'a retry that was set when the clock was %d ms ahead is not waited for that long',
  async (clockMs) => {
    const root = makeTemporaryRoot({
      ...keepsAll,
      'jobs/hourly/b.sh': shellScript({ tags: ['@retries 1', '@retry-delay 1s'], exit: 'attempt < 2' }),
      'jobs/daily/other.sh': shellScript(),
    });
    expect((await runWithFault(root, ['hourly'], { clockMs })).status).toBe(1);
    await until('the next pass of any tier has run it', async () => {
      await runWithFault(root, ['daily']);
      return queryLog(root, "select 1 from jobs where name = 'hourly/b' and state = 'finished'").length > 0;
    });
    checkInvariants(root, moved);
  },
);

test.each(sampleCases(steps))(
  'a script that outlives its runner has its time, though the clock was set by %d ms',
  async (clockMs) => {
    const root = makeTemporaryRoot({
      ...keepsAll,
      'jobs/hourly/a.mjs': nodeScript({ tags: ['@timeout 30m'] }),
      'jobs/daily/other.sh': shellScript(),
    });
    const ofScript = `select outcome from runs where script = 'hourly/a' order by id`;
    writeFileSync(join(root, HOLD), '');
    await runWithFault(root, ['hourly'], { at: 'after spawn#1' });
    await until('it lives', () => listRunProcesses(root).length > 0);
    for (const tier of ['daily', 'hourly']) await runWithFault(root, [tier], { clockMs });
    expect(queryLog(root, ofScript)).toEqual([{ outcome: 'running' }]);
    rmSync(join(root, HOLD));
    await until('it has ended', () => listRunProcesses(root).length === 0);
    await runWithFault(root, ['hourly'], { clockMs });
    expect(queryLog(root, ofScript)).toEqual([{ outcome: 'succeeded' }, { outcome: 'succeeded' }]);
    checkInvariants(root, moved);
  },
);

test.each(sampleCases(steps))(
  'a run that began when the clock was %d ms ahead, and whose end was found later, has a length',
  async (clockMs) => {
    const root = makeTemporaryRoot({
      ...keepsAll,
      'jobs/hourly/a.mjs': nodeScript(),
      'jobs/hourly/b.sh': shellScript(),
    });
    await runWithFault(root, ['hourly'], { at: 'after spawn#1', clockMs });
    await until('it has ended', () => listRunProcesses(root).length === 0);
    await runWithFault(root, ['hourly']);
    const [run] = queryLog<{ duration_us: number | null }>(root, 'select * from runs');
    expect(run).toMatchObject({ outcome: 'succeeded' });
    // What no clock could tell is unknown, not a day.
    expect(run?.duration_us ?? 0).toBeGreaterThanOrEqual(0);
    checkInvariants(root, moved);
  },
);
