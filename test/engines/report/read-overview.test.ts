import { hostname } from 'node:os';
import { describe, expect, test } from 'vitest';
import type { KnownTier } from '../../../src/discovery/script.ts';
import { type OverviewQuery, readOverview, type ScriptOverview } from '../../../src/report/model/overview.ts';
import { emptyQueries } from '../../../src/store/shared/queries.ts';
import { stateFolderOf } from '../../../src/system/place/state-folder.ts';
import { testOfSqlite } from '../../support/log.ts';
import { makeTemporaryRoot } from '../../support/root.ts';
import { explainQueries, insertRows, makeStateOf } from '../../support/store.ts';
import { NO_SUCH_PID, running, siteOf, type WrittenLog, writeLog } from '../../support/written-log.ts';

const HOUR = 3_600_000;
const now = Date.parse('2026-11-03T14:05:00Z');
const week: OverviewQuery = { sinceMs: now - 7 * 24 * HOUR, untilMs: now };

/** Where nothing has ever run. */
const emptyLog = { db: emptyQueries(), state: stateFolderOf('/nowhere') };

function known(tier: string, ...scripts: string[]): KnownTier {
  return { tier, scripts: scripts.map((script) => `${tier}/${script}`) };
}

async function readScript(
  log: WrittenLog,
  script: string,
  query: Partial<OverviewQuery> = {},
): Promise<ScriptOverview | undefined> {
  const { scripts } = await readOverview(siteOf(log), { ...week, ...query });
  return scripts.find((each) => each.script === script);
}

describe('the overview of scripts', () => {
  test('counts the runs inside the window only, its first moment in and its last out', async () => {
    const log = await writeLog(makeTemporaryRoot());
    for (const at of [week.sinceMs - 1, week.sinceMs, week.untilMs - 1, week.untilMs]) {
      await log.addRun('hourly/clean', at);
    }
    expect((await readScript(log, 'hourly/clean'))?.runs).toBe(2);
  });

  // SQLite takes 32,766 parameters in a statement.
  testOfSqlite('has no greatest number', async () => {
    const log = await writeLog(makeTemporaryRoot());
    await log.addRun('queue/a', now - HOUR);
    const names = Array.from({ length: 33_000 }, (_, index) => ({ name: `queue/a${index}` }));
    insertRows(log.change, 'scripts', names);
    log.change(`insert into runs (job_id, script_id, attempt, outcome, started_at, finished_at)
      select job_id, scripts.id, 1, outcome, started_at, finished_at from scripts, runs where script_id <> scripts.id`);
    expect((await readOverview(siteOf(log), week)).scripts).toHaveLength(33_001);
  });

  test('reads the figures of runs from an index alone, and none outside the window', async () => {
    const root = makeTemporaryRoot();
    await (await writeLog(root)).addRun('hourly/clean', now - HOUR);
    const state = makeStateOf(root);
    const plans = await explainQueries(root, async (store) => {
      await readOverview(siteOf({ db: await store.queries(), state }), week);
    });
    expect(plans).toContain(
      'SCAN scripts; SEARCH runs USING COVERING INDEX runs_by_script (script_id=? AND started_at>? AND started_at<?)',
    );
  });

  test('knows the last run and the last 20 durations however old they are', async () => {
    const log = await writeLog(makeTemporaryRoot());
    for (let hour = 25; hour > 0; hour--) {
      await log.addRun('hourly/clean', week.sinceMs - hour * HOUR, { duration_us: hour * 1000 });
    }
    const script = await readScript(log, 'hourly/clean');
    expect(script?.runs).toBe(0);
    expect(script?.lastRun?.startedAtMs).toBe(week.sinceMs - HOUR);
    const durations = script?.recentRuns.map((run) => run.durationMs);
    expect(durations).toEqual(Array.from({ length: 20 }, (_, index) => 20 - index));
  });

  test('takes the run with the higher number as the last of two at the same moment', async () => {
    const log = await writeLog(makeTemporaryRoot());
    await log.addRun('hourly/clean', now - HOUR, { outcome: 'failed' });
    const later = await log.addRun('hourly/clean', now - HOUR);
    expect((await readScript(log, 'hourly/clean'))?.lastRun?.id).toBe(later);
  });

  test('tells scripts that are gone and scripts that never ran', async () => {
    const log = await writeLog(makeTemporaryRoot());
    await log.addRun('hourly/old', now - HOUR);
    await log.addRun('hourly/forgotten', week.sinceMs - HOUR);
    const { scripts } = await readOverview(siteOf(log, [known('hourly', 'new')]), week);
    expect(scripts).toMatchObject([
      { script: 'hourly/new', presence: 'present', lastRun: null, runs: 0 },
      { script: 'hourly/old', presence: 'gone' },
    ]);
  });

  test('calls nothing gone when nobody looked into jobs', async () => {
    const log = await writeLog(makeTemporaryRoot());
    await log.addRun('hourly/old', now - HOUR);
    expect((await readScript(log, 'hourly/old'))?.presence).toBe('unknown');
  });

  test('can be cut to a tier, to an outcome and to a number', async () => {
    const log = await writeLog(makeTemporaryRoot());
    await log.addRun('hourly/good', now - HOUR);
    await log.addRun('hourly/mixed', now - HOUR);
    await log.addRun('hourly/mixed', now - 2 * HOUR, { outcome: 'failed' });
    await log.addRun('daily/bad', now - HOUR, { outcome: 'failed' });
    const names = async (query: Partial<OverviewQuery>) =>
      (await readOverview(siteOf(log), { ...week, ...query })).scripts.map((script) => script.script);
    expect(await names({})).toEqual(['hourly/good', 'hourly/mixed', 'daily/bad']);
    expect(await names({ tier: 'daily' })).toEqual(['daily/bad']);
    expect(await names({ outcomes: ['failed'] })).toEqual(['hourly/mixed', 'daily/bad']);
    expect(await names({ limit: 2 })).toEqual(['hourly/good', 'hourly/mixed']);
    const mixed = await readScript(log, 'hourly/mixed', { outcomes: ['failed'] });
    expect(mixed).toMatchObject({ runs: 2, failed: 1 });
  });

  test('quotes what the last run threw, or the last line it wrote', async () => {
    const log = await writeLog(makeTemporaryRoot());
    const failed = { outcome: 'failed', exit_code: 3, reason: 'exit code 3' } as const;
    await log.addRun('hourly/throws', now - HOUR, {
      ...failed,
      error_name: 'TypeError',
      error_message: 'x is not a function\nand more',
    });
    await log.addRun('hourly/says', now - HOUR, { ...failed, output: 'go\n\x1b[1mdisk full\n\n' });
    await log.addRun('hourly/mute', now - HOUR, failed);
    await log.addRun('hourly/fine', now - HOUR, { output: 'no error' });
    const { scripts } = await readOverview(siteOf(log), week);
    expect(Object.fromEntries(scripts.map((each) => [each.script, each.lastError]))).toEqual({
      'hourly/fine': null,
      'hourly/mute': 'exit code 3',
      'hourly/says': 'exit code 3: disk full',
      'hourly/throws': 'TypeError: x is not a function',
    });
  });

  test('adds up what it shows', async () => {
    const log = await writeLog(makeTemporaryRoot());
    await log.addRun('hourly/a', now - HOUR);
    await log.addRun('daily/b', now - HOUR, { outcome: 'failed' });
    const { totals } = await readOverview(siteOf(log), week);
    expect(totals).toMatchObject({ runs: 2, failed: 1, successRate: 0.5, totalCpuMs: 100 });
  });
});

describe('the overview of tiers', () => {
  test('has the last pass with its result, and the passes skipped and missed', async () => {
    const log = await writeLog(makeTemporaryRoot());
    await log.addPass('hourly', now - 6 * HOUR);
    const pass = await log.addPass('hourly', now - 2 * HOUR);
    await log.addRun('hourly/a', now - 2 * HOUR, { worker_id: pass });
    await log.addRun('hourly/b', now - 2 * HOUR, { worker_id: pass, outcome: 'killed' });
    await log.addPass('hourly', now - HOUR, { state: 'skipped', reason: 'held by pid 7' });
    const { tiers } = await readOverview(siteOf(log), week);
    expect(tiers).toMatchObject([
      {
        tier: 'hourly',
        periodMs: HOUR,
        passes: 2,
        skippedPasses: 1,
        lastPass: { id: pass, succeeded: 1, failed: 1, running: 0, liveness: null },
        lastSkipped: { reason: 'held by pid 7' },
        missed: { count: 3 },
      },
    ]);
  });

  test('does not take a script that was run by hand for a pass', async () => {
    const log = await writeLog(makeTemporaryRoot());
    await log.addPass('hourly', now - HOUR, { kind: 'script' });
    const { tiers } = await readOverview(siteOf(log), week);
    expect(tiers).toMatchObject([{ tier: 'hourly', passes: 0, lastPass: null, missed: null }]);
  });

  test('names the tiers of jobs that were never called, the shortest period first', async () => {
    const tiers = [known('weekly'), known('by-hand'), known('15min')];
    const overview = await readOverview(siteOf(emptyLog, tiers), week);
    expect(overview.tiers.map((tier) => tier.tier)).toEqual(['15min', 'weekly', 'by-hand']);
    expect(overview.tiers[0]).toMatchObject({ lastPass: null, missed: null, presence: 'present' });
  });

  test('expects nothing of a tier that is gone, and forgets it when it has no runs', async () => {
    const log = await writeLog(makeTemporaryRoot());
    await log.addPass('hourly', now - 9 * HOUR);
    await log.addPass('daily', week.sinceMs - HOUR);
    const { tiers } = await readOverview(siteOf(log, []), week);
    expect(tiers).toMatchObject([{ tier: 'hourly', presence: 'gone', missed: null }]);
  });
});

describe('what is running', () => {
  test('has the process of the run, and whether it still lives', async () => {
    const log = await writeLog(makeTemporaryRoot());
    const alive = await log.addPass('hourly', now, { state: 'running', pid: process.pid });
    const dead = await log.addPass('daily', now, { state: 'running' });
    await log.addRun('hourly/works', now - HOUR, { ...running, worker_id: alive, pid: 4 });
    await log.addRun('daily/lost', now - 2 * HOUR, { ...running, worker_id: dead });
    const overview = await readOverview(siteOf(log), { ...week, untilMs: now + 1 });
    expect(overview.running).toMatchObject([
      { script: 'daily/lost', liveness: 'dead' },
      { script: 'hourly/works', liveness: 'alive', pid: 4 },
    ]);
    expect(overview.tiers.map(({ lastPass }) => [lastPass?.state, lastPass?.liveness])).toEqual([
      ['running', 'alive'],
      ['crashed', null],
    ]);
    const reason = `the runner (pid ${NO_SUCH_PID} on ${hostname()}) died while it ran`;
    expect(overview.scripts.map(({ lastRun }) => [lastRun?.outcome, lastRun?.reason])).toEqual([
      ['running', null],
      ['crashed', reason],
    ]);
  });

  test('a script that outlived its runner still runs', async () => {
    const log = await writeLog(makeTemporaryRoot());
    const dead = await log.addPass('daily', now, { state: 'running' });
    await log.addRun('daily/orphan', now, { ...running, worker_id: dead, pid: process.pid });
    expect((await readOverview(siteOf(log), week)).running).toMatchObject([{ liveness: 'alive' }]);
  });
});

test('without a log there is nothing to report, and no mistake', async () => {
  const overview = await readOverview(siteOf(emptyLog), week);
  expect(overview).toMatchObject({ tiers: [], scripts: [], running: [], totals: { runs: 0 } });
});
