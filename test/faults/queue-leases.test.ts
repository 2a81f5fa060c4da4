import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { holdLog, startWithFault } from '../support/faults/faults.ts';
import { checkInvariants } from '../support/faults/invariants.ts';
import {
  addJob,
  endInPeace,
  letGo,
  nodeHandler,
  readJobRow,
  readSeenTries,
  readTries,
  startWaiting,
  UNTIL_GO,
  untilStarted,
  untilState,
  WITHIN_MS,
} from '../support/faults/queue.ts';
import { makeTemporaryRoot } from '../support/root.ts';
import { until } from '../support/until.ts';

const HOUR = 3_600_000;

const makeSite = (lease: string): string =>
  makeTemporaryRoot({
    'jobs/queue/waits.mjs': nodeHandler({ tags: ['@retry-delay 1ms'], does: UNTIL_GO }),
    'jobs/queue/quick.mjs': nodeHandler(),
    'runner.config.json': JSON.stringify({ queue: { lease } }),
  });

const heldOnce = { state: 'finished', attempts: 1, outcomes: ['succeeded'], lostLeases: 0 };
const leasedUntil = (root: string, id: number): number => readJobRow(root, id).lease_expires_at as number;

test('a lease that is much shorter than its job is renewed for as long as that lasts', async () => {
  const root = makeSite('1m');
  const workers = [startWaiting(root), startWaiting(root)];
  const id = await addJob(root, 'waits', { lease: '400ms' });
  await untilStarted(root, id);
  const first = leasedUntil(root, id);
  await until('it was renewed many times', () => leasedUntil(root, id) > first + 2_500, WITHIN_MS);
  letGo(root);
  await untilState(root, id, 'finished');
  await endInPeace(root, ...workers);
  expect(readTries(root, id)).toEqual(heldOnce);
  checkInvariants(root);
});

test('once a job with a short lease has ended, the others are renewed as seldom as before', async () => {
  const root = makeSite('1m');
  const worker = startWaiting(root, '--concurrency', '2');
  const long = await addJob(root, 'waits');
  await untilStarted(root, long);
  const short = await addJob(root, 'quick', { lease: '400ms' });
  await untilState(root, short, 'finished');
  let [last, since] = [leasedUntil(root, long), Date.now()];
  await until('it is not renewed for a while', () => {
    const now = leasedUntil(root, long);
    if (now !== last) [last, since] = [now, Date.now()];
    return Date.now() - since > 2_000;
  });
  letGo(root);
  await untilState(root, long, 'finished');
  await endInPeace(root, worker);
});

test('while somebody writes for longer than a lease, nobody loses a claim', async () => {
  const root = makeSite('500ms');
  const workers = [startWaiting(root), startWaiting(root), startWaiting(root)];
  const ids = [await addJob(root, 'waits'), await addJob(root, 'waits')];
  for (const id of ids) await untilStarted(root, id);
  const writer = await holdLog(root, HOUR);
  const last = Math.max(...ids.map((id) => leasedUntil(root, id)));
  await until('their leases are long over', () => Date.now() > last + 4_000, WITHIN_MS);
  // Whoever wants to write has waited; all of them go on at the same time, and so do the handlers.
  letGo(root);
  writer.kill('SIGKILL');
  for (const id of ids) await untilState(root, id, 'finished');
  await endInPeace(root, ...workers);
  expect(ids.map((id) => readTries(root, id))).toEqual([heldOnce, heldOnce]);
  checkInvariants(root);
}, 120_000);

test('a handler that outlives its worker for longer than its lease has its time, and its true end', async () => {
  await Promise.all([outliveWorker({ isWatched: true }), outliveWorker({ isWatched: false })]);
}, 120_000);

/** @param isWatched whether somebody waits for jobs all the time, or comes only later */
async function outliveWorker({ isWatched }: { readonly isWatched: boolean }): Promise<void> {
  const root = makeSite('500ms');
  const worker = startWaiting(root);
  const id = await addJob(root, 'waits');
  await untilStarted(root, id);
  const others = isWatched ? [startWaiting(root)] : [];
  const last = leasedUntil(root, id);
  worker.kill('SIGKILL');
  await worker.ended;
  await until('its lease is long over', () => Date.now() > last + 5_000, WITHIN_MS);
  others.push(startWaiting(root));
  // Whoever has just come has looked at what there is.
  await untilState(root, await addJob(root, 'quick'), 'finished');
  expect(readSeenTries(root).filter(({ jobId }) => jobId === id)).toHaveLength(1);
  letGo(root);
  await untilState(root, id, 'finished');
  await endInPeace(root, ...others);
  expect(readTries(root, id)).toEqual(heldOnce);
  checkInvariants(root);
}

test('no change of the clock takes a claim from a worker, or keeps a job from being taken', async () => {
  await Promise.all([HOUR, -HOUR, 24 * HOUR, -24 * HOUR].map(setClock));
}, 120_000);

async function setClock(clockMs: number): Promise<void> {
  const root = makeSite('500ms');
  const clockWhen = join(root, 'clock-is-set');
  const start = () => startWithFault(root, ['work', '--wait', '10m'], { clockMs, clockWhen });
  const workers = [start(), start()];
  const id = await addJob(root, 'waits');
  await untilStarted(root, id);
  writeFileSync(clockWhen, '');
  // Both have looked by the new time, several times.
  const newTime = () => Date.now() + clockMs;
  const isRenewed = () => Math.abs(leasedUntil(root, id) - newTime()) < 60_000;
  await until('it is renewed by the new clock', isRenewed, WITHIN_MS);
  const first = leasedUntil(root, id);
  await until('and again', () => leasedUntil(root, id) > first + 1_000, WITHIN_MS);
  letGo(root);
  await untilState(root, id, 'finished');
  const next = await addJob(root, 'waits', { runAt: new Date(newTime()) });
  await untilState(root, next, 'finished');
  await endInPeace(root, ...workers);
  expect([id, next].map((each) => readTries(root, each))).toEqual([heldOnce, heldOnce]);
  checkInvariants(root, { hasClockMoved: true });
}
