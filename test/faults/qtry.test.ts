import { test } from 'vitest';
import { scenarios } from './queue-kill-worker.test.ts';
import { runWithFault } from '../support/fault-points.ts';
import { planQueueRounds } from '../support/queue-rounds.ts';
import { makeTemporaryRoot } from '../support/temporary-root.ts';
test('count', async () => {
  for (const { name, files, jobs, prepare, args = ['work'], from = 'sql insert workers', until } of scenarios) {
    const template = makeTemporaryRoot(files);
    for (const words of jobs) await runWithFault(template, ['add', ...words]);
    await prepare?.(template);
    const r = await planQueueRounds(template, args, { from, ...(until && { until }) });
    console.log(name, r.length, r.filter((x) => x.outlives).length);
  }
}, 100000);
