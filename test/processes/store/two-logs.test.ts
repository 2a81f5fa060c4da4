import { openQueue } from 'folder-runner';
import { afterAll, afterEach, beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest';
import { type OwnServer, ownServersFor } from '../../support/engines/own-server.ts';
import { makeTemporaryRoot } from '../../support/root.ts';

const HOUR_MS = 3_600_000;

describe.each(ownServersFor('two queues in one program'))('$name', ({ engine, start }) => {
  let server: OwnServer;

  beforeAll(async () => {
    server = await start();
    if (engine === 'mysql') await server.ask('create database other');
  }, 120_000);

  afterAll(() => server?.stop());
  afterEach(() => void vi.useRealTimers());

  const url = () => (engine === 'mysql' ? server.url('', 'other') : server.url('?schema=other'));
  const environments = () => [{}, { RUNNER_DATABASE_URL: server.url() }, { RUNNER_DATABASE_URL: url() }];

  async function open(env: Record<string, string>) {
    const queue = await openQueue({ root: makeTemporaryRoot(), env });
    onTestFinished(() => queue.close());
    return queue;
  }

  test('a program opens several logs, and each queue has its own', async () => {
    const queues = await Promise.all(environments().map(open));
    for (const [index, queue] of queues.entries()) await queue.add(`queue-${index}`);
    const names = await Promise.all(queues.map(async (queue) => (await queue.list()).map(({ name }) => name)));
    expect(names).toEqual([['queue-0'], ['queue-1'], ['queue-2']]);
  });

  test('a queue goes by the clock of its own log', async () => {
    // This machine's clock is slow; the server's is not.
    const real = Date.now();
    vi.useFakeTimers({ toFake: ['Date'], now: real - HOUR_MS });
    const [file, onServer] = await Promise.all(environments().slice(0, 2).map(open));
    const addedAt = async (queue = file) => (await queue?.get((await queue?.add('late')) as number))?.createdAt;
    expect((await addedAt(onServer))?.getTime()).toBeGreaterThan(real - HOUR_MS / 2);
    expect((await addedAt(file))?.getTime()).toBeLessThan(real - HOUR_MS / 2);
  });
});
