import { expect, test } from 'vitest';
import { telemetryOf } from '../../src/store/statements/monitor/telemetry.ts';
import { makeTemporaryRoot } from '../support/temporary-root.ts';
import { testOfSqlite } from '../support/test-of.ts';
import { type WrittenLog, writeLog } from '../support/written-log.ts';

const start = Date.UTC(2026, 10, 3, 14);
const query = { firstSince: start, since: 0, limit: 3 };

/** What a collector is told next, and that it has arrived. */
async function tell({ store }: WrittenLog, changed: Partial<typeof query> = {}): Promise<number[]> {
  const { runs, told } = await telemetryOf(store.statements).untold({ ...query, ...changed });
  await telemetryOf(store.statements).keepTold(told);
  return runs.map(({ id }) => id);
}

test('each run is told once it has ended, and once', async () => {
  const log = await writeLog(makeTemporaryRoot());
  const first = await log.addRun('hourly/a', start);
  const open = await log.addRun('hourly/b', start + 1, { outcome: 'running', finished_at: null, duration_ms: null });
  const third = await log.addRun('hourly/a', start + 2);
  const fourth = await log.addRun('hourly/a', start + 3);
  expect(await tell(log)).toEqual([first, third]);
  expect(await tell(log)).toEqual([fourth]);
  expect(await tell(log)).toEqual([]);
  log.change("update runs set outcome = 'failed', finished_at = ? where id = ?", start, open);
  const fifth = await log.addRun('hourly/a', start + 5);
  expect(await tell(log)).toEqual([open, fifth]);
  expect(await tell(log)).toEqual([]);
});

test('what has not arrived is told again', async () => {
  const log = await writeLog(makeTemporaryRoot());
  const id = await log.addRun('hourly/a', start);
  expect((await telemetryOf(log.store.statements).untold(query)).runs.map((run) => run.id)).toEqual([id]);
  expect(await tell(log)).toEqual([id]);
});

// Servers give no number twice.
testOfSqlite('a new run that has the number of a deleted one is told', async () => {
  const log = await writeLog(makeTemporaryRoot());
  const kept = await log.addRun('hourly/a', start);
  const gone = [await log.addRun('hourly/b', start + 1), await log.addRun('hourly/b', start + 2)];
  expect(await tell(log)).toEqual([kept, ...gone]);
  log.change('delete from runs where id > 1');
  expect(await tell(log)).toEqual([]);
  expect(await log.addRun('hourly/c', start + 10)).toBe(gone[0]);
  expect(await log.addRun('hourly/c', start + 11)).toBe(gone[1]);
  expect(await log.addRun('hourly/c', start + 12)).toBe(4);
  expect(await tell(log)).toEqual([...gone, 4]);
});

test('of a log of which nothing was told only the last runs are, and none that ended long ago', async () => {
  const log = await writeLog(makeTemporaryRoot());
  await log.addRun('hourly/a', start - 10);
  const recent = await log.addRun('hourly/a', start);
  expect(await tell(log)).toEqual([recent]);
  await log.addRun('hourly/a', start - 5_000);
  const next = await log.addRun('hourly/a', start + 1);
  expect(await tell(log, { since: start })).toEqual([next]);
});

test('one delivery of telemetry is on its way at most', async () => {
  const { store } = await writeLog(makeTemporaryRoot());
  await telemetryOf(store.statements).request('otlp', start);
  await telemetryOf(store.statements).request('otlp', start + 1);
  const [delivery, ...others] = await store.deliveries.claim(start + 2, start + 60_000, 10);
  expect(others).toEqual([]);
  await telemetryOf(store.statements).request('otlp', start + 3);
  expect(await store.deliveries.claim(start + 60_000, start + 90_000, 10)).toHaveLength(1);
  // Given up: the next one begins anew.
  await store.deliveries.postpone(delivery?.id ?? 0, null, 'no answer');
  await telemetryOf(store.statements).request('otlp', start + 90_000);
  expect(await store.deliveries.claim(start + 90_000, start + 120_000, 10)).toHaveLength(1);
});
