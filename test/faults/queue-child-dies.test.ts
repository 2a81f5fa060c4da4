import { expect, test } from 'vitest';
import { openQueue } from '../../src/index.ts';
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
  startWaiting,
  UNTIL_GO,
  UNTIL_GO_IN_SHELL,
  untilStarted,
  untilState,
  WITHIN_MS,
} from '../support/faults/queue.ts';
import { drain, untilNothingRuns } from '../support/faults/queue-rounds.ts';
import { createRandom, rounds, someAtATime } from '../support/faults/rounds.ts';
import { queryLog } from '../support/log.ts';
import { makeTemporaryRoot } from '../support/root.ts';
import { until } from '../support/until.ts';

const random = createRandom();
const soon = '@retry-delay 1ms';

/** Each kills its own process, in the first try. */
const deaths = {
  killed: 'if (times < 2) process.kill(process.pid, "SIGKILL"); await sleep(times < 2 ? 5000 : 0);',
  crashed: 'if (times < 2) process.kill(process.pid, "SIGSEGV"); await sleep(times < 2 ? 5000 : 0);',
  aborted: 'if (times < 2) process.abort();',
  exited: 'if (times < 2) process.exit(137);',
  gone: 'if (times < 2) process.exit(0);',
  full: 'if (times < 2) { const all = []; for (;;) all.push(new Array(1e6).fill(all)); }',
};

test.each(Object.entries(deaths))(
  'a child that dies with its job takes no other one with it: %s',
  async (name, does) => {
    const tags = [soon, '@retries 1', '@memory 64mb'];
    const root = makeTemporaryRoot({
      'jobs/queue/well.mjs': nodeHandler({ tags }),
      [`jobs/queue/${name}.mjs`]: nodeHandler({ tags, does }),
    });
    const queue = await openQueue({ root });
    await queue.addMany(['well', name, 'well'].map((each) => ({ name: each })));
    await queue.close();
    expect(await drain(root)).toEqual([]);
    const runs = 'select outcome from runs where job_id = ? order by id';
    expect([1, 2, 3].map((id) => queryLog(root, runs, id).length)).toEqual([1, 2, 1]);
    const [first, second] = readJobRuns(root, 2);
    expect(['failed', 'killed']).toContain(first?.outcome);
    expect(second?.outcome).toBe('succeeded');
    expect(readJobRow(root, 2)).toMatchObject({ state: 'finished', attempts: 2 });
    checkInvariants(root);
  },
);

test('children that are killed at any moment, also between two jobs, lose none and double none', async () => {
  const lasts = { tags: [soon, '@retries 100'], lastsMs: 15 };
  const root = makeTemporaryRoot({
    'jobs/queue/warm.mjs': nodeHandler(lasts),
    'jobs/queue/apart.mjs': nodeHandler({ ...lasts, tags: [...lasts.tags, '@isolate'] }),
    'jobs/queue/program.sh': programHandler(lasts),
  });
  const count = rounds(150);
  // As many as a slow machine can bear, too, on which a child takes longer to start than until the next one is chosen.
  const deaths = Math.max(3, count / 5);
  const queue = await openQueue({ root });
  const names = ['warm', 'warm', 'warm', 'apart', 'program'];
  await queue.addMany(Array.from({ length: count }, (_, index) => ({ name: names[index % names.length] as string })));
  await queue.close();
  const workers = [startWaiting(root), startWaiting(root)];
  const open = 'select id from jobs where finished_at is null';
  let killed = 0;
  await until(
    'all is done',
    () => {
      const handlers = killed < deaths ? listRunProcesses(root) : [];
      const victim = handlers[Math.floor(random() * handlers.length)];
      // A machine that is slow gives few chances.
      const isMeant = killed < 3 || random() < 0.2;
      if (victim !== undefined && isMeant && tryKill(victim.pid, anySignal())) killed += 1;
      return queryLog(root, open).length === 0;
    },
    WITHIN_MS,
  );
  for (const worker of workers) worker.kill('SIGTERM');
  const ended = await Promise.all(workers.map((worker) => worker.ended));
  // Whose tries have failed tells of it; a child that dies between two jobs fails none.
  const failed = `select 1 from runs join workers on workers.id = worker_id
    where workers.pid = ? and outcome not in ('succeeded', 'released')`;
  const statuses = workers.map(({ pid }) => (queryLog(root, failed, pid).length > 0 ? 1 : 0));
  expect(ended.map(({ status }) => status)).toEqual(statuses);
  const states = 'select distinct state from jobs';
  expect(queryLog(root, states)).toEqual([{ state: 'finished' }]);
  expect(killed).toBeGreaterThan(2);
  // What died while it wrote its result down is cleared up after by whoever works next.
  expect(await drain(root)).toEqual([]);
  checkInvariants(root);
}, 400_000);

const anySignal = () => (random() < 0.5 ? 'SIGKILL' : 'SIGSEGV');

function tryKill(pid: number, signal: 'SIGKILL' | 'SIGSEGV'): boolean {
  try {
    return process.kill(pid, signal);
  } catch {
    return false;
  }
}

/** Rounds in one root: what is checked after each is all that has been there. */
const ROUNDS_AT_MOST = 10;

test('a worker that dies together with its child: what had begun of all that it had claimed is told, and no more', async () => {
  // A few one by one, then several at once.
  const begun = Array.from({ length: rounds(24) }, () => 20 + Math.floor(random() * 20));
  const ofRoots = Array.from({ length: Math.ceil(begun.length / ROUNDS_AT_MOST) }, (_, index) =>
    begun.slice(index * ROUNDS_AT_MOST, (index + 1) * ROUNDS_AT_MOST),
  );
  const crashed = await someAtATime(ofRoots, dieTogether);
  expect(Math.max(...crashed)).toBeGreaterThan(0);
}, 400_000);

/** In a root of their own, workers of which each dies when so many have begun. How many runs have crashed. */
async function dieTogether(begun: readonly number[]): Promise<number> {
  const root = makeTemporaryRoot({ 'jobs/queue/short.mjs': nodeHandler({ tags: [soon, '@retries 100'] }) });
  await addShort(root, 200);
  for (const wanted of begun) {
    const before = readSeenTries(root).length;
    const worker = startWaiting(root);
    await until('some have begun', () => readSeenTries(root).length >= before + wanted);
    const children = listRunProcesses(root).map(({ pid }) => pid);
    for (const pid of [worker.pid, ...children]) tryKill(pid, 'SIGKILL');
    await worker.ended;
    expect(await drain(root)).toEqual([]);
    checkInvariants(root);
    await addShort(root, 100);
  }
  return queryLog(root, "select 1 from runs where outcome = 'crashed'").length;
}

async function addShort(root: string, count: number): Promise<void> {
  const queue = await openQueue({ root });
  await queue.addMany(Array.from({ length: count }, () => ({ name: 'short' })));
  await queue.close();
}

test.each([
  ['warm', { outcome: 'succeeded' }],
  ['apart', { outcome: 'succeeded' }],
  // Nobody was there to see how it ended.
  ['program', { outcome: 'crashed' }],
])('a worker dies while its %s handler works on: that comes to its end, which is known', async (name, end) => {
  const root = makeTemporaryRoot({
    'jobs/queue/warm.mjs': nodeHandler({ tags: [soon], does: UNTIL_GO }),
    'jobs/queue/apart.mjs': nodeHandler({ tags: [soon, '@isolate'], does: UNTIL_GO }),
    'jobs/queue/program.sh': programHandler({ tags: [soon], exit: UNTIL_GO_IN_SHELL }),
  });
  const worker = startWaiting(root);
  const id = await addJob(root, name);
  await untilStarted(root, id);
  worker.kill('SIGKILL');
  await worker.ended;
  // Others come and go, and leave it alone.
  expect(await drainOnce(root)).toBe('running');
  expect(readSeenTries(root)).toHaveLength(1);
  letGo(root);
  await untilNothingRuns(root);
  expect(readSeenTries(root)).toMatchObject([{ end: 'done' }]);
  expect(await drain(root, 2)).toEqual([]);
  await untilState(root, id, 'finished');
  const isKnown = end.outcome === 'succeeded';
  const runs = readJobRuns(root, id);
  expect(runs).toHaveLength(isKnown ? 1 : 2);
  expect(runs[0]).toMatchObject(end);
  expect(readJobRow(root, id).result).toBe(JSON.stringify({ run: runs.at(-1)?.key }));
  checkInvariants(root);
});

async function drainOnce(root: string): Promise<string> {
  const worker = startWaiting(root);
  const begun = "select id from workers where state = 'running' and pid = ?";
  await until('it waits', () => queryLog(root, begun, worker.pid).length === 1, WITHIN_MS);
  await endInPeace(root, worker);
  return readJobRow(root, 1).state;
}
