// On a fleet a script runs once in a slot, however often its tier is called: this is about SQLite.
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { sendPing } from '../../../src/monitor/alert/channels.ts';
import { deliverDue } from '../../../src/monitor/alert/deliver.ts';
import { defaultSettings } from '../../../src/settings/settings.ts';
import { serve } from '../../support/alerts.ts';
import { cronEnv, startCommand } from '../../support/command.ts';
import { changeLog, queryLog } from '../../support/log.ts';
import { executable, makeTemporaryRoot } from '../../support/root.ts';
import { makeStateOf, openStoreOf } from '../../support/store.ts';
import { until } from '../../support/until.ts';

const script = (body: string) => executable(`#!/bin/sh\n# @ping $PING_URL\n${body}\n`);

async function pass(root: string, PING_URL: string, tier = 'hourly') {
  return await startCommand([tier], { cwd: root, env: { ...cronEnv(root), PING_URL } }).ended;
}

const partsOf = (path: string) => {
  const { pathname, searchParams } = new URL(path, 'http://x');
  return { pathname, rid: searchParams.get('rid') };
};

describe('a script with @ping', () => {
  test('lets the service know of its start and its success, with what it printed', async () => {
    const { url, asked } = await serve();
    const root = makeTemporaryRoot({ 'jobs/hourly/a.sh': script('echo 12 rows') });

    expect(await pass(root, `${url}/uuid-1`)).toMatchObject({ status: 0 });

    const [start, success] = asked.map(({ path }) => partsOf(path));
    expect([start?.pathname, success?.pathname]).toEqual(['/uuid-1/start', '/uuid-1']);
    expect(start?.rid).toMatch(/^[0-9a-f-]{36}$/);
    expect(success?.rid).toBe(start?.rid);
    expect(asked[1]?.body).toMatch(/^succeeded after .+\n\n12 rows$/);
  });

  test('tells a failure by its exit code, and one that is tried again as no failure', async () => {
    const { url, asked } = await serve();
    const root = makeTemporaryRoot({
      'jobs/hourly/a.sh': script('exit 3'),
      'jobs/hourly/b.sh': script('# @retries 1\nexit 4'),
    });

    await pass(root, url);

    expect(asked.map(({ path }) => partsOf(path).pathname).sort()).toEqual(['/3', '/log', '/start', '/start']);
  });

  test('sends no password of its URL without TLS', async () => {
    const ping = { url: '$PING_URL', state: 'success', exitCode: 0, runId: 'a', text: '' } as const;
    const environment = { PING_URL: 'http://me:geheim@192.0.2.1/uuid' };
    const signal = AbortSignal.timeout(5_000);
    const sent = await sendPing(ping, { root: '/', version: '0.1.0', environment, signal, settings: defaultSettings });
    expect(sent).toMatchObject({ ok: false, reason: expect.stringContaining('must begin with https://') });
    expect(JSON.stringify(sent)).not.toContain('geheim');
  });

  test('is not delayed by a service that does not answer', async () => {
    const root = makeTemporaryRoot({ 'jobs/hourly/a.sh': script('touch ran') });
    const { url, asked } = await serve(async (_, response, count) => {
      // The start is answered once the script has run.
      if (count === 1) await until('the script has run', () => existsSync(join(root, 'ran')));
      response.end();
    });

    expect(await pass(root, url)).toMatchObject({ status: 0 });

    expect(asked.map(({ path }) => partsOf(path).pathname)).toEqual(['/start', '/']);
  });

  test('whose service is gone has run all the same, and its end arrives later, the newest alone', async () => {
    const root = makeTemporaryRoot({ 'jobs/hourly/a.sh': script('test -f fixed') });

    expect(await pass(root, 'http://127.0.0.1:1')).toMatchObject({ status: 1 });
    expect(await pass(root, 'http://127.0.0.1:1')).toMatchObject({ status: 1 });

    const { url, asked } = await serve();
    const store = await openStoreOf(root);
    const now = () => Date.now() + 120_000;
    const environment = { PING_URL: url };
    const runner = {
      ...{ root, state: makeStateOf(root), settings: defaultSettings, environment, now },
      ...{ probePath: '', version: '0.1.0' },
    };
    await deliverDue({ runner, store, stop: new AbortController().signal });
    expect(asked.map(({ path }) => partsOf(path).pathname)).toEqual(['/1']);
    expect(asked[0]?.body).toContain('failed after');
    await deliverDue({ runner, store, stop: new AbortController().signal });
    expect(asked).toHaveLength(1);
  });

  test('has its ends sent where its tag says, and nowhere that only the log names', async () => {
    const [own, strange] = [await serve(), await serve()];
    const root = makeTemporaryRoot({ 'jobs/hourly/a.sh': script('exit 1') });
    await pass(root, 'http://127.0.0.1:1');
    const [row] = queryLog<{ body: string }>(root, 'select * from deliveries');
    expect(row?.body).not.toContain('url');
    const body = JSON.stringify({ ...JSON.parse(row?.body ?? ''), url: strange.url });
    const lies = [
      ['hourly/a', JSON.stringify({ url: '$STRANGE', state: '../x', runId: 'r', text: '' })],
      ['hourly/a', JSON.stringify({ url: '$STRANGE', state: 'fail', runId: {}, text: [] })],
      ...['hourly/b', 'hourly', '../hourly/a', '$STRANGE', '__proto__'].map((subject) => [subject, body]),
    ];
    changeLog(root, 'update deliveries set body = ?, due_at = 0', body);
    const add = `insert into deliveries (kind, channel, body, created_at, due_at) values ('ping', ?, ?, ?, 0)`;
    for (const [subject, lie] of lies) changeLog(root, add, subject, lie, Date.now());
    const store = await openStoreOf(root);
    const environment = { PING_URL: own.url, STRANGE: strange.url };
    const runner = {
      ...{ root, state: makeStateOf(root), settings: defaultSettings, environment, now: Date.now },
      ...{ probePath: '', version: '0.1.0' },
    };
    await deliverDue({ runner, store, stop: new AbortController().signal });
    expect(strange.asked).toEqual([]);
    expect(own.asked.map(({ path }) => partsOf(path).pathname)).toEqual(['/1']);
    expect(queryLog(root, 'select reason from deliveries where reason is null')).toEqual([]);
  });
});

describe('a tier with a ping', () => {
  const settings = { 'runner.config.json': '{"tiers":{"hourly":{"ping":"$PING_URL"}}}' };

  test.each([
    [{}, '/', '0 succeeded'],
    [
      { 'jobs/hourly/a.sh': executable('#!/bin/sh\n'), 'jobs/hourly/b.sh': executable('#!/bin/sh\nexit 1\n') },
      '/fail',
      '1 of 2',
    ],
  ])('tells how its pass went, not its scripts', async (files, end, text) => {
    const { url, asked } = await serve();
    const root = makeTemporaryRoot({ ...settings, 'jobs/hourly/notes.txt': '', ...files });

    await pass(root, url);

    expect(asked.map(({ path }) => partsOf(path).pathname)).toEqual(['/start', end]);
    expect(asked[1]?.body).toContain(text);
  });

  test('is not pinged by others', async () => {
    const { url, asked } = await serve();
    const root = makeTemporaryRoot({ ...settings, 'jobs/daily/a.sh': executable('#!/bin/sh\n') });

    await pass(root, url, 'daily');

    expect(asked).toEqual([]);
  });
});
