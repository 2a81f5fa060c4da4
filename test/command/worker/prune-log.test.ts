import { existsSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { defaultSettings, type Settings } from '../../../src/settings/settings.ts';
import type { SqliteStore } from '../../../src/store/sqlite/store.ts';
import { pruningOf } from '../../../src/store/statements/pruning.ts';
import type { JobState } from '../../../src/store/words.ts';
import { pruneLog } from '../../../src/worker/pass/prune-log.ts';
import { cronPlace, runCommand } from '../../support/command.ts';
import { changeLog, makeFinishedRun, queryLog } from '../../support/log.ts';
import { executable, makeTemporaryRoot } from '../../support/root.ts';
import { makeStateOf, openSqliteOf } from '../../support/store.ts';

const NOW = Date.UTC(2026, 10, 1, 12);
const dayMs = 86_400_000;
const MEGABYTE = 1_048_576;

interface EndedJob {
  readonly state: JobState;
  readonly ageDays: number;
  /** Of its run, if that was not the last that happened to the job. */
  readonly runAgeDays?: number;
  readonly output?: string;
  /** Content of the run's output file. */
  readonly file?: string;
}

/** A root whose log holds these jobs, each with a run, all of one worker of long ago. */
async function makeLog(jobs: readonly EndedJob[]) {
  const root = makeTemporaryRoot();
  const state = makeStateOf(root);
  const store = await openSqliteOf(root);
  await addWorker(store, 1000);
  await store.transaction(async ({ runs }) => {
    const add = store.connection.prepare(
      'insert into jobs (name, state, ready, created_at, finished_at) values (?, ?, null, ?, ?)',
    );
    for (const [index, { state: jobState, ageDays, output = null, file, ...job }] of jobs.entries()) {
      const at = NOW - ageDays * dayMs;
      const startedAt = NOW - (job.runAgeDays ?? ageDays) * dayMs;
      const name = `${index}.log.gz`;
      if (file !== undefined) writeFileSync(join(state.output, name), file);
      const { lastInsertRowid } = add.run([`a/${index}`, jobState, at, at]);
      const start = {
        ...{ jobId: Number(lastInsertRowid), workerId: 1, key: null, script: 'queue/a' },
        ...{ contentHash: null, attempt: 1, scheduledFor: null, startedAt, timeoutMs: null },
      };
      const end = makeFinishedRun({
        outcome: jobState === 'failed' ? 'failed' : 'succeeded',
        ...{ finished_at: startedAt, output },
        ...(file !== undefined && { output_file: name, output_file_bytes: file.length }),
      });
      await runs.end([{ ...start, runId: null, end, leftJob: null }]);
    }
  });
  return { root, state, store };
}

async function addWorker({ workers }: SqliteStore, ageDays: number): Promise<void> {
  const at = NOW - ageDays * dayMs;
  const id = await workers.start({
    ...{ kind: 'tier', tier: null, host: 'web3', bootId: null, pid: 1, startTicks: null },
    ...{ trigger: 'cron', scheduledFor: null, startedAt: at },
    ...{ runnerVersion: '0', nodeVersion: '0' },
  });
  await workers.end(id, { state: 'finished', at, reason: null });
}

async function prune(
  { root, state, store }: Awaited<ReturnType<typeof makeLog>>,
  retention: Partial<Settings['retention']> = {},
): Promise<void> {
  const runner = {
    root,
    state,
    settings: { ...defaultSettings, retention: { ...defaultSettings.retention, ...retention } },
    environment: {},
    probePath: '',
    version: '0.1.0',
    now: () => NOW,
  };
  await pruneLog(runner, store, 1);
}

const names = (root: string): string[] =>
  queryLog<{ name: string }>(root, 'select name from jobs order by id').map(({ name }) => name);

test('what succeeded is kept for 90 days, what failed for 365', async () => {
  const log = await makeLog([
    { state: 'finished', ageDays: 91 },
    { state: 'cancelled', ageDays: 91 },
    { state: 'failed', ageDays: 366 },
    { state: 'finished', ageDays: 89 },
    { state: 'cancelled', ageDays: 89 },
    { state: 'failed', ageDays: 91 },
    { state: 'failed', ageDays: 364 },
  ]);
  await prune(log);
  expect(names(log.root)).toEqual(['a/3', 'a/4', 'a/5', 'a/6']);
  expect(queryLog(log.root, 'select script from runs')).toHaveLength(4);
  expect(queryLog(log.root, 'select at, event, worker_id, detail from events')).toEqual([
    { at: NOW, event: 'log-pruned', worker_id: 1, detail: '3 jobs and runs' },
  ]);
});

test('where nothing is too old nothing is written', async () => {
  const log = await makeLog([{ state: 'finished', ageDays: 89 }]);
  await prune(log);
  expect(names(log.root)).toEqual(['a/0']);
  expect(queryLog(log.root, 'select id from events')).toEqual([]);
});

test('an output file that is gone already does not matter', async () => {
  const log = await makeLog([{ state: 'finished', ageDays: 91 }]);
  log.store.connection.exec(`update runs set output_file = '7.1.log.gz', output_file_bytes = 5`);
  await prune(log);
  expect(names(log.root)).toEqual([]);
});

test('a log that is too large loses its oldest jobs, whatever their state, and no more than needed', async () => {
  const log = await makeLog(
    Array.from({ length: 40 }, (_, index) => ({
      state: index % 2 === 0 ? ('failed' as const) : ('finished' as const),
      ageDays: 40 - index,
      output: 'x'.repeat(60_000),
    })),
  );
  expect(await pruningOf(log.store.statements).usedBytes()).toBeGreaterThan(2.2 * MEGABYTE);
  await prune(log, { maxDatabaseBytes: 1.5 * MEGABYTE });
  const left = names(log.root);
  expect(left.at(-1)).toBe('a/39');
  expect(left.length).toBeGreaterThanOrEqual(20);
  expect(left).toEqual(Array.from(left, (_, index) => `a/${40 - left.length + index}`));
  expect(await pruningOf(log.store.statements).usedBytes()).toBeLessThanOrEqual(1.5 * MEGABYTE);
});

test('output files count for the size of the log', async () => {
  const log = await makeLog(
    Array.from({ length: 10 }, (_, index) => ({
      state: 'finished' as const,
      ageDays: 10 - index,
      file: 'x'.repeat(500_000),
    })),
  );
  await prune(log, { maxDatabaseBytes: 2 * MEGABYTE });
  const left = names(log.root);
  expect(left.length).toBeGreaterThanOrEqual(2);
  expect(left.length).toBeLessThanOrEqual(4);
  const files = Array.from({ length: 10 }, (_, index) => existsSync(join(log.state.output, `${index}.log.gz`)));
  expect(files.filter(Boolean)).toHaveLength(left.length);
});

test('what was deleted is given back to the disk', async () => {
  const log = await makeLog(
    Array.from({ length: 50 }, () => ({ state: 'finished' as const, ageDays: 91, output: 'x'.repeat(60_000) })),
  );
  await prune(log);
  await log.store.close();
  expect(statSync(log.state.database).size).toBeLessThan(MEGABYTE / 2);
});

test('a backlog is worked off over several passes', async () => {
  const log = await makeLog(Array.from({ length: 2_100 }, () => ({ state: 'finished' as const, ageDays: 91 })));
  await prune(log);
  expect(names(log.root)).toHaveLength(100);
  await prune(log);
  expect(names(log.root)).toHaveLength(0);
});

test('events go with the successes, workers with the failures', async () => {
  const log = await makeLog([{ state: 'failed', ageDays: 300, runAgeDays: 400 }]);
  for (const ageDays of [366, 100]) await addWorker(log.store, ageDays);
  for (const ageDays of [91, 89]) {
    await log.store.events.record([{ at: NOW - ageDays * dayMs, event: 'paused' }]);
  }
  await prune(log);
  expect(queryLog(log.root, 'select at from events')).toEqual([{ at: NOW - 89 * dayMs }]);
  // The first one still has a run, the second one has not.
  expect(queryLog(log.root, 'select id from workers order by id')).toEqual([{ id: 1 }, { id: 3 }]);
});

test('more events than one step takes goes in one pass', async () => {
  const log = await makeLog([]);
  const old = Array.from({ length: 600 }, () => ({ at: 0, event: 'paused' as const }));
  await log.store.events.record(old);
  await prune(log);
  expect(queryLog(log.root, 'select id from events')).toEqual([]);
});

test('a pass prunes with the settings’ own limits', async () => {
  const root = makeTemporaryRoot({
    'jobs/hourly/a.sh': executable('#!/bin/sh\nhead -c 200000 /dev/urandom | od -x\n'),
    'runner.config.json': JSON.stringify({ retention: { succeeded: '1m', failed: '1m' } }),
  });
  const pass = (): unknown => runCommand(['hourly', '--root', root], cronPlace(root));
  expect(pass()).toEqual({ status: 0, stdout: '', stderr: '' });
  const file = queryLog<{ output_file: string }>(root, 'select output_file from runs')[0];
  const path = join(root, '.runner', 'output', file?.output_file as string);
  expect(existsSync(path)).toBe(true);
  changeLog(root, 'update runs set started_at = started_at - 120000, finished_at = finished_at - 120000');
  expect(pass()).toEqual({ status: 0, stdout: '', stderr: '' });
  expect(queryLog(root, 'select id from runs')).toEqual([{ id: 2 }]);
  expect(existsSync(path)).toBe(false);
});
