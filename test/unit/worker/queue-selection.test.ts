import { expect, test } from 'vitest';
import type { Handlers } from '../../../src/discovery/handlers.ts';
import type { QueueSelection } from '../../../src/queue/claim/claim.ts';
import { createSelector } from '../../../src/worker/loop/queue-recorder.ts';
import { openTestQueue, START } from '../../support/queue.ts';
import { makeScript } from '../../support/run.ts';
import { openStoreOf } from '../../support/store.ts';

const names = ['mail/a', 'mail/b', 'sms/a', 'unknown'] as const;

const handlers: Handlers = {
  problem: null,
  names: () => ['mail/a', 'mail/b', 'sms/a'],
  find: (name) => (name === 'unknown' ? null : makeScript(`queue/${name}`)),
  optionsOf: () => ({}),
};

/** A worker's selector beside a queue of another connection, which pauses. */
async function open(request: { patterns?: readonly string[]; failsUnknown?: boolean } = {}) {
  const log = await openTestQueue();
  const store = await openStoreOf(log.root);
  const watch = store.watch();
  const selector = createSelector({
    handlers,
    request: { patterns: [], failsUnknown: false, ...request },
    groupLimit: 2,
    version: () => watch.look(),
  });
  return { ...log, selector, store, select: (at = START) => selector.select(at, store) };
}

const wantedOf = (selection: QueueSelection): string[] => names.filter(selection.isWanted);

test.each([
  [{}, ['mail/a', 'mail/b', 'sms/a']],
  [{ patterns: ['mail/*'] }, ['mail/a', 'mail/b']],
  [{ patterns: ['*/a', 'mail/b'] }, ['mail/a', 'mail/b', 'sms/a']],
  [{ failsUnknown: true }, ['mail/a', 'mail/b', 'sms/a', 'unknown']],
  [{ patterns: ['nobody'] }, []],
])('%j: %j are wanted', async (request, expected) => {
  const { select } = await open(request);
  const selection = await select();
  expect([wantedOf(selection), selection.groupLimit]).toEqual([expected, 2]);
});

test('pauses count at once, of both kinds, and so does their end', async () => {
  const { queue, select } = await open();
  const look = async (at = START) => {
    const selection = await select(at);
    return [wantedOf(selection), names.filter(selection.failsFast)];
  };
  await look();
  await queue.pause('mail/*', { for: '10s' });
  expect(await look()).toEqual([['sms/a'], []]);
  await queue.pause('mail/b', { fail: true });
  await queue.pause('unknown', { fail: true });
  // What waits does not fail; what is to fail does even where nobody has a handler of it.
  expect(await look()).toEqual([
    ['sms/a', 'unknown'],
    ['mail/b', 'unknown'],
  ]);
  await queue.resume('unknown');
  expect(await look(START + 10_000)).toEqual([['mail/a', 'mail/b', 'sms/a'], ['mail/b']]);
  await queue.pause('*');
  expect(await look()).toEqual([[], ['mail/b']]);
});

test('what is asked in a transaction is what holds in it', async () => {
  const { queue, selector, store, select } = await open();
  await select();
  await store.transaction(async (session) => {
    expect(wantedOf(await selector.select(START, session))).toHaveLength(3);
  });
  await queue.pause('*');
  await store.transaction(async (session) => {
    expect(wantedOf(await selector.select(START, session))).toEqual([]);
  });
});
