import type { ClaimedJob, Queue } from '../../src/queue/api.ts';

/** A command that is killed at each of its changes. */
export interface Verb {
  readonly name: string;
  /** What has happened before; its answer are the command's words. */
  readonly words: (queue: Queue) => Promise<readonly (string | number)[]>;
  readonly input?: string;
  /** Whether somebody else has the job once it is done: then saying it again is refused. */
  readonly isOnce?: boolean;
}

/** Taken by somebody outside, for long. */
async function take(queue: Queue, name = 'a'): Promise<ClaimedJob> {
  return (await queue.claim(name, { lease: '1h' })) as ClaimedJob;
}

const end = ({ id, token }: ClaimedJob, verb: string, ...more: readonly string[]) => [
  ...['job', id, verb, '--token', token],
  ...more,
];

/** A parent that runs and has children, which wait for it. */
async function takeParent(queue: Queue, onChildFailure: 'resume' | 'fail' = 'resume') {
  await queue.add('a', {}, { onChildFailure, priority: 900 });
  const parent = await take(queue);
  for (const index of [1, 2]) await queue.add('a', { index }, { parent: parent.id });
  return parent;
}

/** A parent that waits, and its last child, which runs. */
async function takeLastChild(queue: Queue, onChildFailure: 'resume' | 'fail' = 'resume') {
  const parent = await takeParent(queue, onChildFailure);
  await queue.finish(parent);
  await queue.finish(await take(queue));
  return await take(queue);
}

async function addFailed(queue: Queue, count: number): Promise<number> {
  for (let index = 0; index < count; index += 1) await queue.add('a');
  for (let index = 0; index < count; index += 1) await queue.fail(await take(queue));
  return 1;
}

const lines = (...jobs: readonly object[]) => jobs.map((job) => JSON.stringify({ name: 'a', ...job })).join('\n');

/** Each in every situation that makes a difference to what it writes. */
export const verbs: readonly Verb[] = [
  { name: 'add', words: async () => ['add', 'a', '{"n":1}', '--priority', '7'] },
  { name: 'add a repeating one', words: async () => ['add', 'a', '--repeat', 'FINISHED, +1 HOUR'] },
  { name: 'add with a unique key', words: async () => ['add', 'a', '--unique', 'k'] },
  {
    name: 'add and merge',
    words: async (queue) => {
      await queue.add('a', { one: 1 }, { uniqueKey: 'k' });
      return ['add', 'a', '{"two":2}', '--unique', 'k', '--on-duplicate', 'merge'];
    },
  },
  { name: 'add a child', words: async (queue) => ['add', 'a', '--parent', (await takeParent(queue)).id] },
  { name: 'add many', words: async () => ['add', '--many'], input: lines({ data: 1 }, { priority: 9 }, { data: 3 }) },
  {
    name: 'add many of every kind',
    words: async (queue) => {
      await queue.add('a', { one: 1 }, { uniqueKey: 'k' });
      await takeParent(queue);
      return ['add', '--many'];
    },
    input: lines({ uniqueKey: 'k', data: 2, onDuplicate: 'replace' }, { parent: 2 }, { data: 3 }),
  },
  {
    name: 'claim',
    words: async (queue) => {
      await queue.addMany([{ name: 'a' }, { name: 'a' }]);
      return ['claim', '--count', '2', '--lease', '1ms'];
    },
  },
  {
    name: 'claim one that has failed',
    words: async (queue) => ['claim', '--job', await addFailed(queue, 1), '--lease', '1ms'],
  },
  {
    name: 'finish',
    words: async (queue) => {
      await queue.add('a');
      return end(await take(queue), 'finish', '--result', '{"sent":true}');
    },
    isOnce: true,
  },
  {
    name: 'finish a repeating one',
    words: async (queue) => {
      await queue.add('a', {}, { repeat: 'FINISHED, +1 HOUR' });
      return end(await take(queue), 'finish', '--data', '{"next":1}');
    },
    isOnce: true,
  },
  {
    name: 'finish what is not kept',
    words: async (queue) => {
      await queue.add('gone');
      return end(await take(queue, 'gone'), 'finish');
    },
    isOnce: true,
  },
  { name: 'finish a parent', words: async (queue) => end(await takeParent(queue), 'finish'), isOnce: true },
  { name: 'finish the last child', words: async (queue) => end(await takeLastChild(queue), 'finish'), isOnce: true },
  {
    name: 'fail the last child of a strict parent',
    words: async (queue) => end(await takeLastChild(queue, 'fail'), 'fail'),
    isOnce: true,
  },
  { name: 'fail a parent', words: async (queue) => end(await takeParent(queue), 'fail'), isOnce: true },
  {
    name: 'retry',
    words: async (queue) => {
      await queue.add('a');
      return end(await take(queue), 'retry', '--priority', '8', '--data', '{"left":3}');
    },
    isOnce: true,
  },
  {
    name: 'bury',
    words: async (queue) => {
      await queue.add('a');
      return end(await take(queue), 'bury');
    },
    isOnce: true,
  },
  {
    name: 'touch',
    words: async (queue) => {
      await queue.add('a');
      return end(await take(queue), 'touch', '--lease', '1ms');
    },
  },
  { name: 'kick one', words: async (queue) => ['job', await addFailed(queue, 1), 'kick'], isOnce: true },
  {
    name: 'kick many',
    words: async (queue) => {
      await addFailed(queue, 3);
      return ['kick', '*', '--count', '2'];
    },
  },
  {
    name: 'cancel a parent that waits',
    words: async (queue) => {
      await queue.finish(await takeParent(queue));
      return ['job', 1, 'cancel'];
    },
  },
  {
    name: 'delete a family',
    words: async (queue) => {
      await queue.finish(await takeLastChild(queue));
      await queue.finish(await take(queue));
      return ['job', 1, 'delete'];
    },
    isOnce: true,
  },
  { name: 'update', words: async (queue) => ['job', await queue.add('a'), 'update', '--data', '7', '--priority', '1'] },
  {
    name: 'requeue what runs',
    words: async (queue) => {
      await queue.add('a');
      return ['job', (await take(queue)).id, 'requeue'];
    },
  },
  {
    name: 'pause a pattern',
    words: async (queue) => {
      await queue.add('a');
      return ['pause', 'a*', '--for', '1s'];
    },
  },
  {
    name: 'resume',
    words: async (queue) => {
      await queue.pause('a', { fail: true });
      return ['resume'];
    },
  },
];
