import { expect, test } from 'vitest';
import { openQueue } from '../../src/index.ts';
import { signalAll, stopOutsideOfWrites } from '../support/faults/faults.ts';
import { checkInvariants } from '../support/faults/invariants.ts';
import { listRunProcesses } from '../support/faults/log-content.ts';
import {
  addJob,
  endInPeace,
  letGo,
  nodeHandler,
  programHandler,
  readJobRow,
  readJobRuns,
  readSeenTries,
  readTries,
  startWaiting,
  UNTIL_GO,
  UNTIL_GO_IN_SHELL,
  untilStarted,
  untilState,
  WITHIN_MS,
} from '../support/faults/queue.ts';
import { untilNothingRuns } from '../support/faults/queue-rounds.ts';
import { queryLog } from '../support/log.ts';
import { makeTemporaryRoot } from '../support/root.ts';
import { until } from '../support/until.ts';

const soon = '@retry-delay 1ms';

function makeSite(): string {
  return makeTemporaryRoot({
    'jobs/queue/warm.mjs': nodeHandler({ tags: [soon], does: UNTIL_GO }),
    'jobs/queue/apart.mjs': nodeHandler({ tags: [soon, '@isolate'], does: UNTIL_GO }),
    'jobs/queue/program.sh': programHandler({ tags: [soon], exit: UNTIL_GO_IN_SHELL }),
    'runner.config.json': JSON.stringify({ queue: { lease: '500ms' } }),
  });
}

const endings = "select run_id from activity where event = 'job-finished' and job_id = ?";

/** Mostly they wait for a lease to run out: all of them at once. */
test('a worker that was stopped for longer than its lease changes nothing that others have done', async () => {
  await Promise.all([
    stopForLong('warm', { withHandler: true }),
    stopForLong('warm', { withHandler: false }),
    stopForLong('apart', { withHandler: true }),
    stopForLong('program', { withHandler: false }),
  ]);
}, 120_000);

async function stopForLong(name: string, { withHandler }: { readonly withHandler: boolean }): Promise<void> {
  const root = makeSite();
  const stopped = startWaiting(root);
  const id = await addJob(root, name);
  await untilStarted(root, id);
  await untilState(root, id, 'running');
  const handlers = withHandler ? listRunProcesses(root).map(({ pid }) => pid) : [];
  await stopOutsideOfWrites(root, [stopped.pid, ...handlers]);

  const other = startWaiting(root);
  await untilState(root, id, 'finished');
  const done = readJobRow(root, id);
  // Its own try comes to its end now, of which nobody wants to know any more. Its worker goes on after that: one that
  // finds its lease lost first may stop the try.
  letGo(root);
  signalAll(handlers, 'SIGCONT');
  await until('it has ended', () => readSeenTries(root)[0]?.end === 'done', WITHIN_MS);
  signalAll([stopped.pid], 'SIGCONT');
  await endInPeace(root, other);

  // The one that was stopped goes on with other jobs.
  const next = await addJob(root, name);
  await untilState(root, next, 'finished');
  await endInPeace(root, stopped);
  await untilNothingRuns(root);
  expect(readJobRow(root, id)).toEqual(done);
  const [first, second] = readJobRuns(root, id);
  expect([first?.outcome, second?.outcome]).toEqual(['crashed', 'succeeded']);
  expect(first?.reason).toMatch(/^its lease expired at \S+ without being renewed/);
  expect(done.result).toBe(JSON.stringify({ run: second?.key }));
  expect(readTries(root, id).lostLeases).toBe(1);
  expect(queryLog(root, endings, id)).toEqual([{ run_id: second?.id }]);
  expect(readJobRuns(root, next)).toMatchObject([{ outcome: 'succeeded', worker_id: first?.worker_id }]);
  checkInvariants(root, { mayOverlap: true });
}

test('workers that stand still together, as their machine does, lose nothing', async () => {
  const root = makeSite();
  const workers = [startWaiting(root), startWaiting(root)];
  const ids = [await addJob(root, 'warm'), await addJob(root, 'apart')];
  for (const id of ids) await untilStarted(root, id);
  const all = [...workers, ...listRunProcesses(root)].map(({ pid }) => pid);
  signalAll(all, 'SIGSTOP');
  const leasedUntil = Math.max(...ids.map((id) => readJobRow(root, id).lease_expires_at as number));
  await until('all leases are long over', () => Date.now() > leasedUntil + 4_000, WITHIN_MS);
  signalAll(all, 'SIGCONT');
  // Each looks at the other's claims before it comes to an end of its own.
  const isRenewed = (id: number) => (readJobRow(root, id).lease_expires_at as number) > Date.now() - 1;
  await until('both are renewed', () => ids.every(isRenewed), WITHIN_MS);
  letGo(root);
  for (const id of ids) await untilState(root, id, 'finished');
  await endInPeace(root, ...workers);
  expect(ids.map((id) => readTries(root, id))).toMatchObject([
    { outcomes: ['succeeded'], lostLeases: 0 },
    { outcomes: ['succeeded'], lostLeases: 0 },
  ]);
  checkInvariants(root);
});

test('who has claimed from outside and comes late is refused, and somebody else had it', async () => {
  const root = makeSite();
  letGo(root);
  const id = await addJob(root, 'warm');
  const queue = await openQueue({ root });
  const claim = await queue.claim('*', { lease: '200ms' });
  const worker = startWaiting(root);
  await untilState(root, id, 'finished');
  const done = readJobRow(root, id);
  const late = { id, token: claim?.token as string };
  for (const tell of [
    () => queue.finish(late, { result: 'late' }),
    () => queue.fail(late),
    () => queue.retry(late),
    () => queue.bury(late),
    () => queue.touch(late),
    () => queue.update(late, { data: 'late' }),
    () => queue.delete(late),
  ]) {
    await expect(tell()).rejects.toMatchObject({ code: 'stale-claim' });
  }
  await queue.close();
  await endInPeace(root, worker);
  expect(readJobRow(root, id)).toEqual(done);
  checkInvariants(root);
});
