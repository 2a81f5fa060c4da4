import { expect, test } from 'vitest';
import { discoveryToJson, formatJson } from '../../../src/report/json.ts';
import { overviewRecord, readOverview } from '../../../src/report/model/overview.ts';
import { runRecord } from '../../../src/report/model/runs/run.ts';
import { selectRun } from '../../../src/report/model/runs/runs.ts';
import { makeTemporaryRoot } from '../../support/root.ts';
import { NO_SUCH_PID, running, siteOf, writeLog } from '../../support/written-log.ts';

const now = Date.parse('2026-11-03T14:05:00Z');
const window = { sinceMs: now - 3_600_000, untilMs: now };

/** As a program reads it that knows only docs/json.md. */
function throughText(value: unknown): unknown {
  return JSON.parse(formatJson(value));
}

test('a run has every key of docs/json.md, and null for what is unknown', async () => {
  const log = await writeLog(makeTemporaryRoot());
  const startedAt = now - 60_000;
  const ended = await log.addRun('hourly/clean', startedAt, {
    outcome: 'failed',
    scheduled_for: startedAt - 1,
    exit_code: 1,
    reason: 'exit code 1',
    error_name: 'Error',
    error_message: 'boom',
    error_stack: 'Error: boom\n  at x',
    content_hash: 'ab'.repeat(32),
    pid: 42,
    output_bytes: 5,
    output_dropped_bytes: 0,
  });
  const open = await log.addRun('hourly/clean', startedAt, running);
  const [first, second] = await Promise.all([ended, open].map((id) => selectRun(log, id)));
  if (!first || !second) throw new Error('the runs that were just added are not there');
  expect(throughText(runRecord.toJson(first))).toEqual({
    id: ended,
    script: 'hourly/clean',
    tier: 'hourly',
    job: null,
    outcome: 'failed',
    attempt: 1,
    scheduledFor: '2026-11-03T14:03:59.999Z',
    startedAt: '2026-11-03T14:04:00.000Z',
    finishedAt: '2026-11-03T14:04:00.100Z',
    durationMs: 100,
    userCpuMs: 40,
    systemCpuMs: 10,
    maxRssBytes: 52_428_800,
    measuredBy: 'self',
    exitCode: 1,
    signal: null,
    reason: 'exit code 1',
    warning: null,
    suspect: false,
    error: { name: 'Error', message: 'boom', stack: 'Error: boom\n  at x' },
    contentHash: 'ab'.repeat(32),
    pid: 42,
    outputBytes: 5,
    outputDroppedBytes: 0,
    counts: {},
    deviations: [],
  });
  expect(throughText(runRecord.toJson(second))).toMatchObject({
    outcome: 'running',
    finishedAt: null,
    durationMs: null,
    userCpuMs: null,
    maxRssBytes: null,
    error: null,
    outputBytes: null,
  });
});

test('the overview has every key of docs/json.md', async () => {
  const log = await writeLog(makeTemporaryRoot());
  const pass = await log.addPass('hourly', now - 60_000);
  const run = await log.addRun('hourly/clean', now - 60_000, { worker_id: pass });
  const lost = await log.addPass('daily', now - 60_000, { state: 'running' });
  await log.addRun('daily/lost', now - 60_000, { ...running, worker_id: lost, pid: NO_SUCH_PID });
  const json = throughText(overviewRecord.toJson(await readOverview(siteOf(log), window)));
  expect(json).toMatchObject({
    since: '2026-11-03T13:05:00.000Z',
    until: '2026-11-03T14:05:00.000Z',
    running: [{ script: 'daily/lost', liveness: 'dead', pid: NO_SUCH_PID, attempt: 1, maxRssBytes: null }],
    totals: { runs: 2, succeeded: 1, failed: 0, released: 0, stopped: 0, successRate: 1, durationMs: 100, cpuMs: 50 },
  });
  const { tiers, scripts } = json as Record<'tiers' | 'scripts', Record<string, unknown>[]>;
  expect(tiers[0]).toEqual({
    tier: 'hourly',
    periodMs: 3_600_000,
    presence: 'unknown',
    lastPass: {
      id: pass,
      state: 'finished',
      scheduledFor: '2026-11-03T14:04:00.000Z',
      startedAt: '2026-11-03T14:04:00.000Z',
      finishedAt: '2026-11-03T14:04:01.000Z',
      reason: null,
      succeeded: 1,
      withWarning: 0,
      failed: 0,
      running: 0,
      liveness: null,
    },
    passes: 1,
    skippedPasses: 0,
    lastSkippedPass: null,
    missedPasses: { count: 0, gaps: [] },
    pause: null,
  });
  expect(scripts[0]).toEqual({
    script: 'hourly/clean',
    tier: 'hourly',
    presence: 'unknown',
    runs: 1,
    succeeded: 1,
    failed: 0,
    released: 0,
    stopped: 0,
    successRate: 1,
    p50DurationMs: 100,
    p95DurationMs: 100,
    maxDurationMs: 100,
    totalDurationMs: 100,
    cpuMs: 50,
    totalCpuMs: 50,
    maxRssBytes: 52_428_800,
    lastRun: expect.objectContaining({ id: run, outcome: 'succeeded' }),
    lastError: null,
    recentRuns: [{ id: run, outcome: 'succeeded', durationMs: 100 }],
    slower: null,
    heavier: null,
    pause: null,
    waiting: null,
    verbs: ['pause'],
  });
  expect(scripts[0]?.lastRun).not.toHaveProperty('output');
});

test('the list has scripts with their options, and what was ignored and why', () => {
  const script = {
    name: 'hourly/clean',
    tier: 'hourly',
    path: '/root/jobs/hourly/clean.ts',
    launch: { kind: 'node' },
    options: { timeoutMs: 600_000 },
    contentHash: '',
    refusals: [],
    warnings: ['@timout'],
  } as const;
  const ignored = [{ path: '/root/jobs/hourly/notes.txt', reason: 'text' }];
  const tiers = [{ name: 'hourly', periodMs: 3_600_000, scripts: [script] }];
  const handler = { ...script, name: 'queue/mail', tier: 'queue', warnings: [] };
  const unread = [{ tier: 'daily', reason: 'permission denied' }];
  const elsewhere = [{ ...script, name: 'hourly/db', options: { host: ['db-*'] } }];
  const discovery = { tiers, unread, handlers: [handler], ignored, elsewhere, warnings: ['scripts?'] };
  const pauses = [{ name: 'hourly/clean', kind: 'pause' as const, until: null, createdAt: now, by: 'ada' }];
  const disabled = [{ name: 'hourly/old', tier: 'hourly', path: '/root/jobs/hourly/old.sh.disabled' }];
  const both = {
    ...discovery,
    ignored: [...ignored, { path: '/root/jobs/hourly/old.sh.disabled', reason: 'disabled' }],
  };
  expect(throughText(discoveryToJson(both, pauses, disabled))).toEqual({
    tiers: [
      {
        tier: 'hourly',
        periodMs: 3_600_000,
        pause: null,
        scripts: [
          {
            script: 'hourly/clean',
            path: '/root/jobs/hourly/clean.ts',
            options: { timeoutMs: 600_000 },
            refusals: [],
            warnings: ['@timout'],
            pause: { name: 'hourly/clean', kind: 'pause', until: null, since: '2026-11-03T14:05:00.000Z', by: 'ada' },
            next: null,
            nextPass: null,
            links: [],
          },
        ],
      },
    ],
    unread,
    handlers: [
      {
        script: 'queue/mail',
        path: '/root/jobs/hourly/clean.ts',
        options: { timeoutMs: 600_000 },
        refusals: [],
        warnings: [],
        pause: null,
      },
    ],
    commands: [],
    disabled: [{ script: 'hourly/old', path: '/root/jobs/hourly/old.sh.disabled' }],
    ignored,
    elsewhere: [{ script: 'hourly/db', path: '/root/jobs/hourly/clean.ts', hosts: ['db-*'] }],
    warnings: ['scripts?'],
  });
});

test('nothing in the text is a control character, and all of it is read back unchanged', () => {
  const hostile = { 'k\x9b': '\x1b[31m \x07 \x7f \x85 \x9b2J \u202e \u2028 日本 \ud800 "\\' };
  const text = formatJson(hostile);
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what must not be there
  expect(text.trimEnd()).not.toMatch(/[\0-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e]/);
  expect(JSON.parse(text)).toEqual(hostile);
});
