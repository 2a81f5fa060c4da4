import { expect, onTestFinished, test } from 'vitest';
import { claimJobs } from '../../../src/queue/claim/claim.ts';
import { policyOf } from '../../../src/queue/settle/retry-policy.ts';
import { defaultSettings } from '../../../src/settings/settings.ts';
import { jobListsOf } from '../../../src/store/statements/list-jobs.ts';
import { renewLeases } from '../../../src/worker/loop/run-handlers.ts';
import { startQueueWorker } from '../../../src/worker/pass/work-queue.ts';
import { holdLog } from '../../support/faults/faults.ts';
import { queryLog } from '../../support/log.ts';
import { openTestQueue } from '../../support/queue.ts';
import { makeLoggedCall } from '../../support/run.ts';
import { until } from '../../support/until.ts';

const selection = { names: null, groupLimit: null, isWanted: () => true, failsFast: () => false };

/** A worker that has taken these jobs, all that there are, and renews its leases. */
async function openWorker(leaseMs: number, leases: readonly (string | null)[]) {
  const log = await openTestQueue();
  const queue = { ...defaultSettings.queue, leaseMs };
  const call = await makeLoggedCall(log.root, { queue });
  const started = await startQueueWorker(call);
  if (!('workerId' in started)) throw new Error(started.refusal);
  const { workerId } = started;
  log.clock.at = Date.now();
  const jobs = leases.map((lease) => ({ name: 'a', ...(lease !== null && { lease }) }));
  await log.queue.addMany(jobs);
  let claims = 0;
  const at = Date.now();
  await call.store.transaction(async (session) => {
    const claimed = await claimJobs(session, {
      ...{ selection, count: jobs.length, at, leaseMs: null, defaultLeaseMs: leaseMs },
      ...{ newToken: () => `${workerId}.${++claims}`, state: 'running', missedCap: 10 },
    });
    await session.runs.start(
      claimed.map(({ id, claim_token }) => ({
        ...{ jobId: id, workerId, key: claim_token, script: 'queue/a', contentHash: null },
        ...{ attempt: 1, scheduledFor: null, startedAt: at, timeoutMs: null },
        ...{ pid: null, startTicks: null, maxRssBytes: null },
      })),
    );
  });
  const takenBack: number[] = [];
  const onTakenBack = () => takenBack.push(Date.now());
  const heartbeat = renewLeases(call, { workerId, policyOfName: () => policyOf(), onTakenBack });
  onTestFinished(heartbeat.stop);
  const leasedUntil = (id: number) => log.row(id).lease_expires_at as number;
  return { ...log, call, heartbeat, takenBack, leasedUntil, workerId };
}

test('claims are renewed as long as their worker lives, and no longer', async () => {
  const { heartbeat, leasedUntil } = await openWorker(2_000, [null, '1h']);
  const [first, long] = [leasedUntil(1), leasedUntil(2)];
  await until('both were renewed', () => leasedUntil(1) > first && leasedUntil(2) > long);
  expect(leasedUntil(2) - leasedUntil(1)).toBe(3_600_000 - 2_000);
  heartbeat.stop();
  await until('its lease is over', () => Date.now() > leasedUntil(1));
});

test('a job with a short lease has all claims renewed more often', async () => {
  const { heartbeat, leasedUntil } = await openWorker(60_000, ['1s']);
  const before = leasedUntil(1);
  for (const leaseMs of [50_000, 30_000, 10_000, 1_000]) heartbeat.note(leaseMs);
  heartbeat.note(null);
  heartbeat.note(90_000);
  await until('it was renewed, long before a usual beat', () => leasedUntil(1) > before, 4_000);
});

test('a log that is held for longer than a lease takes no claim away', async () => {
  const { root, row, store, leasedUntil, queue, clock, takenBack } = await openWorker(1_000, [null]);
  const holder = await holdLog(root, 4_000);
  const looks: unknown[] = [];
  await until('the log is free again', async () => {
    clock.at = Date.now();
    // Who is no worker looks meanwhile, and is perhaps the first that has the lock.
    looks.push(await queue.claim());
    return (await Promise.race([holder.ended, null])) !== null;
  });
  await until('it was renewed', () => leasedUntil(1) > Date.now());
  expect(looks.every((claimed) => claimed === null)).toBe(true);
  expect(row(1)).toMatchObject({ state: 'running' });
  expect(await jobListsOf(store.statements).counters(1)).toMatchObject({ timeouts: 0, reserves: 1 });
  expect(takenBack).toEqual([]);
  expect(queryLog(root, `select 1 from runs where outcome <> 'running'`)).toEqual([]);
});

test('what somebody else has let run out is taken back, and the executors are told', async () => {
  const { queue, clock, takenBack, row, store } = await openWorker(1_000, []);
  clock.at = Date.now() - 60_000;
  const id = await queue.add('b', {}, { lease: '1s' });
  await queue.claim('b');
  await until('it was taken back', () => takenBack.length > 0);
  expect(row(id)).toMatchObject({ state: 'retrying' });
  expect(await jobListsOf(store.statements).counters(id)).toMatchObject({ timeouts: 1 });
});

test('a closed log is no matter to who has stopped', async () => {
  const { heartbeat, call } = await openWorker(1_000, [null]);
  heartbeat.stop();
  await call.store.close();
});
