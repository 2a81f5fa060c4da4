import { expect, test } from 'vitest';
import type { Handlers } from '../../../src/discovery/handlers.ts';
import type { QueueSelection } from '../../../src/queue/claim/claim.ts';
import { watchLog } from '../../../src/store/sqlite/change-feed.ts';
import { createSelector } from '../../../src/worker/loop/selection.ts';

import { makeScript } from '../../support/plain-script.ts';
import { makeStateOf, openStoreOf } from '../../support/state-of.ts';
import { openTestQueue, START } from '../../support/test-queue.ts';

const names = ['mail/a', 'mail/b', 'sms/a', 'unknown'] as const;

const handlers: Handlers = {
  problem: null,
  names: () => ['mail/a', 'mail/b', 'sms/a'],
  find: (name) => (name === 'unknown' ? null : makeScript(`queue/${name}`)),
};

/** A worker's selector beside a queue of another connection, which pauses. */
async function open(request: { patterns?: readonly string[]; failsUnknown?: boolean } = {}) {
  const log = await openTestQueue();
  const store = await openStoreOf(log.root);
  const watch = watchLog(makeStateOf(log.root), store);
  const selector = createSelector({
    db: store.db,
    handlers,
    request: { patterns: [], failsUnknown: false, ...request },
    groupLimit: 2,
    version: () => watch.look(),
  });
  return { ...log, selector, store };
}

const wantedOf = (selection: QueueSelection): string[] => names.filter(selection.isWanted);

test.each([
  [{}, ['mail/a', 'mail/b', 'sms/a']],
  [{ patterns: ['mail/*'] }, ['mail/a', 'mail/b']],
  [{ patterns: ['*/a', 'mail/b'] }, ['mail/a', 'mail/b', 'sms/a']],
  [{ failsUnknown: true }, ['mail/a', 'mail/b', 'sms/a', 'unknown']],
  [{ patterns: ['nobody'] }, []],
])('%j: %j are wanted', async (request, expected) => {
  const { selector } = await open(request);
  const selection = await selector.select(START);
  expect([wantedOf(selection), selection.groupLimit]).toEqual([expected, 2]);
});

test('pauses and fuses count at once, and so does their end', async () => {
  const { queue, selector } = await open();
  const look = async (at = START) => {
    const selection = await selector.select(at);
    return [wantedOf(selection), names.filter(selection.isFused)];
  };
  await look();
  await queue.pause('mail/*', { for: '10s' });
  expect(await look()).toEqual([['sms/a'], []]);
  await queue.pause('mail/b', { fail: true });
  await queue.pause('unknown', { fail: true });
  // What waits does not fail; what is fused fails even where nobody has a handler of it.
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
  const { queue, selector, store } = await open();
  await selector.select(START);
  await store.db.transaction().execute(async (transaction) => {
    expect(wantedOf(await selector.select(START, transaction))).toHaveLength(3);
  });
  await queue.pause('*');
  await store.db.transaction().execute(async (transaction) => {
    expect(wantedOf(await selector.select(START, transaction))).toEqual([]);
  });
});
