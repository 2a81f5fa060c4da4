import { expect, test } from 'vitest';
import { openQueue } from '../../src/index.ts';
import { cronPlace, type Started, startCommand } from '../support/command.ts';
import { checkInvariants } from '../support/faults/invariants.ts';
import { type LogContent, readLog } from '../support/faults/log-content.ts';
import { findOutOfTurn, nodeHandler, readSeenTries } from '../support/faults/queue.ts';
import { drain, untilNothingRuns } from '../support/faults/queue-rounds.ts';
import { areAllWanted, createRandom } from '../support/faults/rounds.ts';
import { queryLog } from '../support/log.ts';
import { makeTemporaryRoot } from '../support/root.ts';
import { until } from '../support/until.ts';

const [WORKERS, JOBS] = areAllWanted ? [8, 10_000] : [4, 1_000];
const WITHIN_MS = 400_000;
/** How many jobs a worker claims at once, at most. */
const MOST_AHEAD = 32;
const random = createRandom();

/** A worker that ends after five minutes or more would tell, rightly, of so many jobs, and of the workers that were killed. */
const tellsNothing = { 'runner.config.json': '{ "checks": { "crashes": false, "jobsWaiting": false } }' };

/** A root with jobs of five priorities for two handlers, of which none is taken yet. */
async function makeSite(lastsMs: number): Promise<string> {
  const handler = nodeHandler({ tags: ['@retry-delay 1ms'], lastsMs });
  const root = makeTemporaryRoot({
    'jobs/queue/mail/one.mjs': handler,
    'jobs/queue/two.mjs': handler,
    ...tellsNothing,
  });
  const queue = await openQueue({ root });
  await queue.pause('*');
  await queue.addMany(
    Array.from({ length: JOBS }, (_, index) => ({
      name: index % 3 === 0 ? 'mail/one' : 'two',
      priority: 300 + 100 * Math.floor(5 * random()),
    })),
  );
  await queue.close();
  return root;
}

const startWorker = (root: string): Started => startCommand(['--root', root, 'work', '--wait', '10m'], cronPlace(root));

/** Each ends in peace, with nothing to tell. */
async function endAll(workers: readonly Started[]): Promise<void> {
  for (const worker of workers) worker.kill('SIGTERM');
  const ended = await Promise.all(workers.map((worker) => worker.ended));
  expect(ended).toEqual(workers.map(() => ({ status: 0, stdout: '', stderr: '' })));
}

/** All of them are there, and wait, when the first job can be taken. */
async function startTogether(root: string): Promise<Started[]> {
  const workers = Array.from({ length: WORKERS }, () => startWorker(root));
  const running = "select id from workers where state = 'running'";
  await until('all workers wait', () => queryLog(root, running).length === WORKERS, 60_000);
  const queue = await openQueue({ root });
  await queue.resume('*');
  await queue.close();
  return workers;
}

const countOpen = (root: string): number =>
  queryLog<{ open: number }>(root, 'select count(*) as open from jobs where finished_at is null')[0]?.open as number;

/** Each has been executed, and is finished, which was told once. */
function checkAllDone(root: string, killed = 0): LogContent {
  checkInvariants(root);
  const log = readLog(root) as LogContent;
  const done = new Set(readSeenTries(root).flatMap(({ jobId, end }) => (end === 'done' ? jobId : [])));
  const finished = log.activity.filter(({ event }) => event === 'job-finished');
  expect(log.jobs.every(({ id, state }) => state === 'finished' && done.has(id))).toBe(true);
  expect([done.size, finished.length, log.jobs.length]).toEqual([JOBS, JOBS, JOBS]);
  // Each has claimed ahead; and what each dead one had claimed is given back late.
  expect(findOutOfTurn(log, (WORKERS + killed) * MOST_AHEAD).slice(0, 10)).toEqual([]);
  return log;
}

test(`${WORKERS} workers and ${JOBS} jobs: each is executed once, in its turn`, async () => {
  const root = await makeSite(0);
  const workers = await startTogether(root);
  await until('all is done', () => countOpen(root) === 0, WITHIN_MS);
  await endAll(workers);
  const log = checkAllDone(root);
  expect(readSeenTries(root)).toHaveLength(JOBS);
  expect(new Set(log.runs.map(({ job_id }) => job_id)).size).toBe(log.runs.length);
  const shares = log.workers.map(({ id }) => log.runs.filter((run) => run.worker_id === id).length);
  // The order in which the system lets them have the log is its own; nobody goes without.
  expect(Math.min(...shares)).toBeGreaterThan(0);
}, 500_000);

test(`${WORKERS} workers of which one after the other is killed: each job is finished once, in its turn`, async () => {
  const root = await makeSite(5);
  const workers = await startTogether(root);
  let killed = 0;
  await until(
    'all is done',
    async () => {
      // What the dead ones had in hand is left to whoever starts next.
      if (countOpen(root) <= WORKERS) return true;
      const index = Math.floor(random() * WORKERS);
      workers[index]?.kill('SIGKILL');
      await workers[index]?.ended;
      killed += 1;
      workers[index] = startWorker(root);
      await until('it has begun', () => hasBegun(root, workers[index]?.pid), 60_000);
      return false;
    },
    WITHIN_MS,
  );
  await endAll(workers);
  await untilNothingRuns(root);
  expect(await drain(root)).toEqual([]);
  const log = checkAllDone(root, killed);
  expect(killed).toBeGreaterThan(2);
  expect(log.workers.filter(({ state }) => state === 'crashed').length).toBeGreaterThan(0);
}, 500_000);

function hasBegun(root: string, pid: number | undefined): boolean {
  const own = queryLog(root, 'select 1 from workers where pid = ?', pid);
  return own.length > 0;
}
