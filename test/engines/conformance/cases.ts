import { expect } from 'vitest';
import type { QueueErrorCode } from '../../../src/queue/errors.ts';
import type { TestQueue } from '../../support/queue.ts';

/** What one numbered case of the reference comes to here. */
export interface Case {
  readonly title: string;
  readonly check: (log: TestQueue) => Promise<void>;
  /** Of the queue. */
  readonly settings?: object;
}

/** By the case's number in the reference. */
export type Cases = Readonly<Record<number, Case>>;

/** Fails unless the call is refused like this, and leaves the log as it was. */
export async function expectRefused(
  { dump }: TestQueue,
  code: QueueErrorCode,
  call: () => Promise<unknown>,
): Promise<void> {
  const before = dump();
  await expect(call()).rejects.toMatchObject({ name: 'QueueError', code });
  expect(dump()).toBe(before);
}

/** A parent that waits for its children; they are queued. */
export async function pauseParent({ take, queue }: TestQueue, children = 2) {
  const parent = await take('parent', {}, { is: 'parent' });
  const jobs = Array.from({ length: children }, (_, n) => ({ name: 'child', data: { n }, parent: parent.id }));
  const ids = await queue.addMany(jobs);
  await queue.finish(parent);
  return { parent: parent.id, ids };
}

/** Takes the next job of that name, whatever has to be waited for. */
export async function takeNext({ queue }: Pick<TestQueue, 'queue'>, name: string) {
  const job = await queue.claim(name);
  if (job === null) throw new Error(`No ${name} could be taken`);
  return job;
}

/** How often what has happened to a job, by what its rows tell. */
export async function countersOf({ queue }: TestQueue, id: number) {
  return (await queue.get(id))?.counters;
}
