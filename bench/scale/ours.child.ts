import pg from 'pg';
import type { Handlers } from '../../src/discovery/handlers.ts';
import { endUnmeasured, noOutput } from '../../src/execution/result/result.ts';
import type { Runner } from '../../src/settings/settings.ts';
import { openStore } from '../../src/store/open.ts';
import { createSelector, type HandlerRun, QueueRecorder } from '../../src/worker/loop/queue-recorder.ts';
import type { EndedRun } from '../../src/worker/loop/recorder.ts';
import { report, task, timed } from './child.ts';

// What a queue worker does between its handlers: each turn settles what has ended and claims what is next, in one commit.
process.env.RUNNER_DATABASE_URL = task.url;
const name = 'no-op';

/** As anybody may add jobs by plain SQL: what lies there already is no part of what is measured. */
async function fill(): Promise<void> {
  await (await openStore({} as never)).close();
  const client = new pg.Client(task.url);
  await client.connect();
  await client.query(
    `insert into folder_runner.jobs (name, data, ready)
     select $1, '{"to":"user-' || n || '@example.org","template":"welcome"}', 1 from generate_series(1, $2::bigint) as n`,
    [name, task.jobs],
  );
  await client.query('vacuum analyze folder_runner.jobs');
  await client.end();
  report(0);
}

async function work(): Promise<void> {
  const runner = { now: Date.now, settings: { queue: queueSettings }, state: { output: '' } } as unknown as Runner;
  const handlers = { find: () => null, names: () => [name] } as unknown as Handlers;
  const workers = await Promise.all(
    Array.from({ length: task.connections }, async (_, index) => {
      const store = await openStore({} as never);
      const workerId = await store.transaction(({ workers }) => workers.start(describe(index)));
      const request = { patterns: [name], failsUnknown: true };
      const selector = createSelector({ handlers, request, groupLimit: null, version: () => 0 });
      return { store, recorder: new QueueRecorder({ store, workerId, runner, handlers, selector }) };
    }),
  );
  let done = 0;
  const startMs = performance.now();
  await Promise.all(
    workers.map(async ({ recorder }) => {
      let ended: readonly EndedRun<HandlerRun>[] = [];
      while (done < task.jobs) {
        const { settled, next } = await timed(() => recorder.turn(ended, task.batch));
        done += settled.length;
        if (next.length === 0) break;
        const at = Date.now();
        ended = next.map((run) => ({ run, startedAt: at, end: succeeded(at), isRetryable: true }));
      }
    }),
  );
  report(performance.now() - startMs);
  for (const { store } of workers) await store.close();
}

const queueSettings = { leaseMs: 60_000, missedCap: 1_000, groupLimit: null, archive: {} };

const succeeded = (at: number) =>
  endUnmeasured({ outcome: 'succeeded', finishedAt: at, durationMs: 0, reason: null, output: noOutput });

const describe = (index: number) => ({
  ...{ kind: 'queue' as const, tier: null, host: 'bench', bootId: null, pid: process.pid, startTicks: index },
  ...{ trigger: 'manual' as const, scheduledFor: null, startedAt: Date.now(), runnerVersion: '0', nodeVersion: '0' },
});

if (task.verb === 'fill') await fill();
else await work();
