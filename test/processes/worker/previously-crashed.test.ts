import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { openQueue } from '../../../src/index.ts';
import { addJob, endInPeace, startWaiting, untilState, WITHIN_MS } from '../../support/faults/queue.ts';
import { makeTemporaryRoot } from '../../support/root.ts';
import { until } from '../../support/until.ts';

/** A root with a handler that writes down what it is told, and then does this in its call of that number. */
function makeSite(does = ''): string {
  return makeTemporaryRoot({
    'jobs/queue/told.mjs': `// @retries 1
// @retry-delay 1ms
import { appendFileSync, readFileSync } from 'node:fs';

export default ({ previouslyCrashed }) => {
  const file = process.env.RUNNER_ROOT + '/told';
  appendFileSync(file, previouslyCrashed + '\\n');
  const call = readFileSync(file, 'utf8').split('\\n').length - 1;
  ${does}
};
`,
  });
}

function readTold(root: string): string[] {
  const file = join(root, 'told');
  return existsSync(file) ? readFileSync(file, 'utf8').trimEnd().split('\n') : [];
}

test('a handler is told that its worker died in an earlier try, but not at an earlier time', async () => {
  const root = makeSite(`
  if (call === 1) for (const pid of [process.ppid, process.pid]) process.kill(pid, 'SIGKILL');
  if (call === 3) throw new Error('once');`);
  await addJob(root, 'told', { repeat: 'FINISHED, +1 SECOND' });
  await startWaiting(root).ended;
  const worker = startWaiting(root);
  await until('it was called at the next time, twice', () => readTold(root).length > 3, WITHIN_MS);
  worker.kill('SIGTERM');
  await worker.ended;
  expect(readTold(root).slice(0, 4)).toEqual(['false', 'true', 'false', 'false']);
});

test('a handler is told that the lease of an earlier try ran out', async () => {
  const root = makeSite();
  const id = await addJob(root, 'told');
  const queue = await openQueue({ root });
  await queue.claim('*', { lease: '1ms' });
  await queue.close();
  const worker = startWaiting(root);
  await untilState(root, id, 'finished');
  await endInPeace(root, worker);
  expect(readTold(root)).toEqual(['true']);
});
