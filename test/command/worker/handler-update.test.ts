import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { openQueue } from '../../../src/index.ts';
import { checkInvariants } from '../../support/faults/invariants.ts';
import { addJob, endInPeace, readJobRow, startWaiting, untilState, WITHIN_MS } from '../../support/faults/queue.ts';
import { makeTemporaryRoot } from '../../support/root.ts';
import { until } from '../../support/until.ts';

/** In its first run it waits, and says then what becomes of its progress. */
const handler = `
import { existsSync, renameSync, writeFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
export default async ({ update }) => {
  if (existsSync('begun')) return;
  writeFileSync('begun', '');
  while (!existsSync('go')) await sleep(10);
  const said = await update({ done: 99 }).then(() => 'fulfilled', (error) => error.message);
  writeFileSync('said.part', said);
  renameSync('said.part', 'said');
};
`;

async function lose(root: string, id: number, how: 'requeue' | 'delete'): Promise<void> {
  const queue = await openQueue({ root });
  await queue.requeue([id]);
  if (how === 'delete') await queue.delete(id);
  await queue.close();
}

test.each([
  ['requeue', 'The claim of job 1 (a) has expired: the job is queued; nothing was changed.'],
  ['delete', 'There is no job 1 in the queue; `npx folder-runner jobs` lists all jobs.'],
] as const)('progress of a job that is lost by %s is refused, and its handler told why', async (how, why) => {
  const root = makeTemporaryRoot({ 'jobs/queue/a.mjs': handler });
  const path = (name: string) => join(root, name);
  const id = await addJob(root, 'a');
  const worker = startWaiting(root);
  await until('it has begun', () => existsSync(path('begun')), WITHIN_MS);
  await lose(root, id, how);
  writeFileSync(path('go'), '');
  await until('it has said how that was', () => existsSync(path('said')), WITHIN_MS);
  expect(readFileSync(path('said'), 'utf8')).toBe(why);
  if (how === 'requeue') {
    await untilState(root, id, 'finished');
    expect(readJobRow(root, id).data).toBe('{}');
  }
  await endInPeace(root, worker);
  checkInvariants(root);
});
