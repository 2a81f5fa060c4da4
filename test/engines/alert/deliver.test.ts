import { describe, expect, test } from 'vitest';
import { deliverDue, idOf, nextTryAt } from '../../../src/monitor/alert/deliver.ts';
import { AT, channelOf, messageOf, openPlace, serve } from '../../support/alerts.ts';
import type { LoggedActivity } from '../../support/engines/engine.ts';
import { queryLog } from '../../support/log.ts';

const MINUTE = 60_000;

describe('what is due is sent', () => {
  test('a message that has arrived leaves no row', async () => {
    const { url, asked } = await serve();
    const { add, deliver, store } = await openPlace([channelOf({ kind: 'webhook', url })]);
    await add('webhook');

    await deliver();

    expect(asked.map(({ method, body }) => [method, JSON.parse(body)])).toEqual([['POST', messageOf()]]);
    expect(asked[0]?.headers).toMatchObject({ 'content-type': 'application/json; charset=utf-8' });
    expect((await store.chores.due(AT + 1e9, 1)).deliveries).toBe(false);
  });

  test('a server that fails is asked again after a minute, then after five', async () => {
    const { url, asked } = await serve((_, response, count) => void response.writeHead(count < 3 ? 503 : 200).end());
    const { add, deliver, clock, waiting } = await openPlace([channelOf({ kind: 'webhook', url })]);
    await add('webhook');

    await deliver();
    clock.now += MINUTE - 1;
    await deliver();
    expect(asked).toHaveLength(1);
    expect(await waiting()).toMatchObject([{ attempts: 1, reason: expect.stringContaining('answered 503') }]);
    clock.now += 1;
    await deliver();
    expect(asked).toHaveLength(2);
    clock.now += 5 * MINUTE;
    await deliver();

    expect(asked).toHaveLength(3);
    expect(await waiting()).toEqual([]);
    expect(new Set(asked.map(({ headers }) => headers['idempotency-key'])).size).toBe(1);
  });

  test('a message whose sender died is sent again, by the same name', async () => {
    const { url, asked } = await serve();
    const { add, deliver, clock, store, root } = await openPlace([channelOf({ kind: 'webhook', url })]);
    await add('webhook');
    const [row] = await store.deliveries.claim(AT, AT + MINUTE, 4);

    await deliver();
    expect(asked).toEqual([]);
    clock.now += MINUTE;
    await deliver();

    expect(asked.map(({ headers }) => headers['idempotency-key'])).toEqual([
      idOf(root, row as NonNullable<typeof row>),
    ]);
  });

  test('what is refused for good is given up at the third try, and the log says so', async () => {
    const { url, asked } = await serve((_, response) => void response.writeHead(404).end('no_service'));
    const { add, deliver, clock, waiting, root } = await openPlace([channelOf({ kind: 'webhook', url })]);
    await add('webhook');

    for (const wait of [0, 1, 5, 15, 60, 180]) {
      clock.now += wait * MINUTE;
      await deliver();
    }

    expect(asked).toHaveLength(3);
    const reason = `127.0.0.1:${new URL(url).port} answered 404 Not Found: no_service`;
    expect(await waiting()).toMatchObject([{ attempts: 3, reason }]);
    const events = queryLog<LoggedActivity>(root, "select * from activity where event = 'alert-undelivered'");
    expect(events).toMatchObject([{ detail: `alert by webhook, tried 3 times: ${reason}` }]);
    clock.now += 31 * 24 * 60 * MINUTE;
    await deliver();
    expect(await waiting()).toEqual([]);
  });

  test('a server that asks for peace gets it', async () => {
    const { url, asked } = await serve((_, response) => void response.writeHead(429, { 'retry-after': '1800' }).end());
    const { add, deliver, clock } = await openPlace([channelOf({ kind: 'webhook', url })]);
    await add('webhook');

    await deliver();
    clock.now += 30 * MINUTE - 1;
    await deliver();
    expect(asked).toHaveLength(1);
    clock.now += 1;
    await deliver();
    expect(asked).toHaveLength(2);
  });

  test('one dead channel does not keep the others from being told', async () => {
    const { url, asked } = await serve();
    const dead = channelOf({ kind: 'webhook', name: 'dead', url: 'http://127.0.0.1:1' });
    const { add, deliver, waiting } = await openPlace([dead, channelOf({ kind: 'webhook', url })]);
    await add('dead');
    await add('webhook');

    await deliver();

    expect(asked).toHaveLength(1);
    expect(await waiting()).toMatchObject([
      { channel: 'dead', reason: '127.0.0.1:1: it refuses the connection (ECONNREFUSED)' },
    ]);
  });

  test.each(['', 'null', '[]', '{}', '{"version":1,"incidents":[{}]}', '{"version":1,"incidents":[null]}'])(
    'what no runner has queued keeps nothing else from being told: %s',
    async (body) => {
      const { url, asked } = await serve();
      const { add, call, waiting, store } = await openPlace([channelOf({ kind: 'webhook', url })]);
      await store.deliveries.add([{ kind: 'alert', channel: 'gone', body, at: AT }]);
      await store.deliveries.add([{ kind: 'alert', channel: 'webhook', body, at: AT }]);
      await add('webhook');
      const unsent: unknown[] = [];

      await deliverDue({ ...call, onUnsent: (each) => void unsent.push(each) });

      expect([asked.length, unsent]).toEqual([1, []]);
      expect(await waiting()).toMatchObject([{ channel: 'gone' }, { reason: 'its body is no alert' }]);
    },
  );

  test('a variable that is not set is waited for', async () => {
    const { url, asked } = await serve();
    const environment: NodeJS.ProcessEnv = {};
    const place = await openPlace([channelOf({ kind: 'webhook', url: '$HOOK' })], environment);
    await place.add('webhook');

    await place.deliver();
    expect(await place.waiting()).toMatchObject([{ reason: 'the variable HOOK is not set' }]);
    environment.HOOK = url;
    place.clock.now += MINUTE;
    await place.deliver();

    expect(asked).toHaveLength(1);
  });

  test('nothing is sent any more once the runner is told to stop', async () => {
    const { url, asked } = await serve();
    const { add, deliver, stop } = await openPlace([channelOf({ kind: 'webhook', url })]);
    await add('webhook');
    stop.abort();

    await deliver();

    expect(asked).toEqual([]);
  });
});

test('tries become rarer, and end after three days', () => {
  const failed = { isPermanent: false, retryAfterMs: null };
  const times: number[] = [];
  let at = AT;
  for (let attempts = 1; ; attempts += 1) {
    const next = nextTryAt({ attempts, createdAt: AT }, failed, at);
    if (next === null) break;
    times.push((next - at) / MINUTE);
    at = next;
  }
  expect(times.slice(0, 7)).toEqual([1, 5, 15, 60, 180, 360, 360]);
  expect(at - AT).toBeGreaterThan(2.7 * 24 * 60 * MINUTE);
  expect(at - AT).toBeLessThanOrEqual(3 * 24 * 60 * MINUTE);
});
