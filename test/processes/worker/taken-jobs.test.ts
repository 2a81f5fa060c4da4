import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { openQueue } from '../../../src/index.ts';
import type { Queue } from '../../../src/queue/api.ts';
import { checkInvariants } from '../../support/faults/invariants.ts';
import { endInPeace, readJobRuns, startWaiting, untilState, WITHIN_MS } from '../../support/faults/queue.ts';
import { queryLog } from '../../support/log.ts';
import { executable, makeTemporaryRoot } from '../../support/root.ts';
import { until } from '../../support/until.ts';

/*
 * A running job that somebody else moves on: its process is ended at the next renewal of its worker's leases.
 */

const LINES = 'lines';

/** The first run of all works until it is ended, and takes a moment for that. */
const node = `
import { appendFileSync, existsSync } from 'node:fs';
const say = (text) => appendFileSync('${LINES}', text + '\\n');
export default async ({ id }) => {
  const isFirst = !existsSync('${LINES}');
  if (isFirst) process.on('SIGTERM', () => setTimeout(() => { say('end ' + id); process.exit(1); }, 300));
  say('begin ' + id);
  if (isFirst) await new Promise((resolve) => setTimeout(resolve, 600_000));
  say('end ' + id);
};
`;

const shell = `#!/bin/sh
id=$(sed 's/.*"id":\\([0-9]*\\).*/\\1/')
[ -e ${LINES} ] || { first=yes; trap 'sleep 0.3; echo "end $id" >> ${LINES}; exit 1' TERM; }
echo "begin $id" >> ${LINES}
while [ "$first" ]; do sleep 0.05; done
echo "end $id" >> ${LINES}
`;

const handlers = { node: { 'a.mjs': node }, shell: { 'a.sh': executable(shell) } } as const;

interface Site {
  readonly root: string;
  readonly queue: Queue;
  readonly lines: () => string[];
  readonly untilLines: (count: number) => Promise<void>;
}

async function openSite(kind: keyof typeof handlers): Promise<Site> {
  const files = Object.entries(handlers[kind]).map(([name, content]) => [`jobs/queue/${name}`, content] as const);
  const settings = { queue: { lease: '2s', groupLimit: 1 } };
  const root = makeTemporaryRoot({ ...Object.fromEntries(files), 'runner.config.json': JSON.stringify(settings) });
  const queue = await openQueue({ root });
  onTestFinished(() => queue.close());
  const path = join(root, LINES);
  const lines = () => (existsSync(path) ? readFileSync(path, 'utf8').trim().split('\n') : []);
  const untilLines = (count: number) => until(`${count} lines`, () => lines().length >= count, WITHIN_MS);
  return { root, queue, lines, untilLines };
}

const verbs = {
  bury: (queue: Queue) => queue.bury(1),
  fail: (queue: Queue) => queue.fail(1),
  finish: (queue: Queue) => queue.finish(1),
  requeue: async (queue: Queue) => void (await queue.requeue([1])),
  retry: (queue: Queue) => queue.retry(1),
  delete: async (queue: Queue) => {
    await queue.bury(1);
    await queue.delete(1);
  },
} as const;

test.each([
  ['node', 'bury', 'failed'],
  ['node', 'finish', 'finished'],
  ['node', 'delete', undefined],
  ['shell', 'fail', 'failed'],
] as const)('the %s process of a running job ends once the job is taken by %s', async (kind, verb, state) => {
  const { root, queue, lines, untilLines } = await openSite(kind);
  await queue.add('a');
  const worker = startWaiting(root);
  await untilState(root, 1, 'running');
  await untilLines(1);
  await verbs[verb](queue);
  expect((await queue.get(1))?.state).toBe(state);
  await untilLines(2);
  expect(lines()).toEqual(['begin 1', 'end 1']);
  await until('nobody holds it', () => queryLog(root, 'select 1 from jobs where claim_token is not null').length === 0);
  expect((await queue.get(1))?.state).toBe(state);
  worker.kill('SIGTERM');
  expect((await worker.ended).status).toBe(0);
  checkInvariants(root);
});

test.each([
  ['node', 'requeue'],
  ['node', 'retry'],
  ['shell', 'requeue'],
] as const)('the next try of a job of %s begins only after %s has ended the one before', async (kind, verb) => {
  const { root, queue, lines, untilLines } = await openSite(kind);
  await queue.add('a');
  const workers = [startWaiting(root), startWaiting(root)];
  await untilState(root, 1, 'running');
  await untilLines(1);
  await verbs[verb](queue);
  await expect(queue.claimJob(1)).rejects.toThrow('the process of its earlier try has not ended yet');
  expect(await queue.claim()).toBeNull();
  await untilLines(4);
  expect(lines()).toEqual(['begin 1', 'end 1', 'begin 1', 'end 1']);
  expect(readJobRuns(root, 1)[0]).toMatchObject({ outcome: 'released' });
  await endInPeace(root, ...workers);
});

test('until its process has ended, a buried job keeps its place in its group and its unique key', async () => {
  const { root, queue, lines, untilLines } = await openSite('node');
  await queue.add('a', {}, { group: 'g', uniqueKey: 'k' });
  const worker = startWaiting(root, '--concurrency', '3');
  await untilState(root, 1, 'running');
  await untilLines(1);
  await queue.bury(1);
  const others = [await queue.add('a', {}, { group: 'g' }), await queue.add('a', {}, { uniqueKey: 'k' })];
  expect(others).toEqual([2, 3]);
  for (const id of others) await expect(queue.claimJob(id)).rejects.toThrow('cannot be claimed');
  await untilLines(6);
  expect(lines().slice(0, 2)).toEqual(['begin 1', 'end 1']);
  await endInPeace(root, worker);
  checkInvariants(root);
});
