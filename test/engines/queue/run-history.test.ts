import { describe, expect, test } from 'vitest';
import { openTestQueue, SECOND_MS } from '../../support/queue.ts';
import { makeTemporaryRoot } from '../../support/root.ts';
import { explainQueries } from '../../support/store.ts';
import { running, writeLog } from '../../support/written-log.ts';
import { openWorker } from './worker-claims.ts';

describe('the past of a script', () => {
  test('is none, if it never ran; what goes on now is no past', async () => {
    const { store, addRun } = await writeLog(makeTemporaryRoot());
    await addRun('hourly/a', 1_000, running);
    await addRun('hourly/b', 500);
    const nothing = { lastSuccess: null, lastDurationMs: null, lastOutcome: null };
    expect(await store.runs.history('hourly/a')).toEqual(nothing);
    expect(await store.runs.history('hourly/c')).toEqual(nothing);
  });

  test('is its last success, how long that took, and how its very last run ended', async () => {
    const { store, addRun } = await writeLog(makeTemporaryRoot());
    await addRun('hourly/a', 1_000);
    await addRun('hourly/a', 2_000, { duration_us: 40_000 });
    await addRun('hourly/a', 3_000, { outcome: 'failed', duration_us: 50_000 });
    await addRun('hourly/a', 5_000, running);
    const failed = { lastSuccess: 2_000, lastDurationMs: 40, lastOutcome: 'failed' };
    expect(await store.runs.history('hourly/a')).toEqual(failed);
    await addRun('hourly/a', 4_000, { outcome: 'crashed' });
    expect(await store.runs.history('hourly/a')).toEqual({ ...failed, lastOutcome: 'crashed' });
  });

  test('is read from an index', async () => {
    const root = makeTemporaryRoot();
    await (await writeLog(root)).addRun('hourly/a', 1_000);
    const plans = await explainQueries(root, ({ runs }) => runs.history('hourly/a'));
    const found = plans.join('; ').match(/SEARCH runs USING (COVERING )?INDEX runs_by_script/g);
    expect(found).toHaveLength(2);
    expect(plans.join('; ')).not.toMatch(/SCAN runs|TEMP B-TREE/);
  });
});

test('a success that there never was is looked for in an index alone', async () => {
  const root = makeTemporaryRoot();
  await (await writeLog(root)).addRun('hourly/a', 1_000, { outcome: 'failed' });
  const ask = `select started_at from runs
    where script_id = 1 and outcome = 'succeeded' order by started_at desc limit 1`;
  const plans = await explainQueries(root, async ({ connection }) => {
    connection.prepare(ask).all([]);
  });
  expect(plans.join('; ')).toContain('SEARCH runs USING COVERING INDEX runs_by_script');
});

describe('whether an earlier try has crashed', () => {
  /** A job that repeats, tried by a worker; each of its tries ends at once. */
  async function open() {
    const log = await openTestQueue();
    const worker = await openWorker(log, { options: { retries: 9 } });
    const id = await log.queue.add('a', {}, { repeat: 'FINISHED, +1 SECOND' });
    const tryOnce = async (outcome: 'succeeded' | 'failed' | 'crashed' | 'released') => {
      const job = await worker.claimOne();
      const decision = outcome === 'released' ? ({ kind: 'retry', delayMs: 0 } as const) : null;
      await worker.settle(job, { outcome, reason: outcome }, { decision });
      log.clock.at += 60 * SECOND_MS;
      return await log.store.runs.hasTryCrashed(id);
    };
    return { ...log, id, tryOnce };
  }

  test('is known until its next time', async () => {
    const { tryOnce } = await open();
    expect(await tryOnce('failed')).toBe(false);
    expect(await tryOnce('crashed')).toBe(true);
    expect(await tryOnce('failed')).toBe(true);
    expect(await tryOnce('succeeded')).toBe(true);
    // The first try of the next time.
    expect(await tryOnce('failed')).toBe(false);
  });

  test('is known though it was given back, before and after that', async () => {
    const { tryOnce } = await open();
    expect(await tryOnce('released')).toBe(false);
    expect(await tryOnce('crashed')).toBe(true);
    expect(await tryOnce('released')).toBe(true);
    expect(await tryOnce('failed')).toBe(true);
  });

  test('is known of a lease that ran out', async () => {
    const { queue, store, clock, id } = await open();
    await queue.claim();
    clock.at += 3_600 * SECOND_MS;
    await queue.claim();
    expect(await store.runs.hasTryCrashed(id)).toBe(true);
  });
});
