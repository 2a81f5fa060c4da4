import { copyFileSync, mkdirSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import type { Job } from '../../src/queue/api.ts';
import { startCommand } from '../support/start-command.ts';
import { makeTemporaryRoot } from '../support/temporary-root.ts';

interface Received {
  readonly path: string | undefined;
  readonly type: string | undefined;
  readonly key: string | string[] | undefined;
  readonly body: string;
}

/** A site that answers `/404` with 404, and tells what it was sent. */
async function startSite(): Promise<{ readonly url: string; readonly received: Received[] }> {
  const received: Received[] = [];
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const { 'content-type': type, 'x-key': key } = request.headers;
    received.push({ path: request.url, type, key, body: Buffer.concat(chunks).toString() });
    response.writeHead(Number(request.url?.slice(1))).end('no matter');
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => void server.close());
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, received };
}

function makeQueueRoot(): string {
  const root = makeTemporaryRoot();
  mkdirSync(join(root, 'jobs/queue'));
  const shipped = new URL('../../jobs/queue/post-webhook.ts', import.meta.url).pathname;
  copyFileSync(shipped, join(root, 'jobs/queue/post-webhook.ts'));
  return root;
}

/** Adds jobs with these data, works them off, and tells what has become of them. */
async function work(data: readonly object[]): Promise<Job[]> {
  const cwd = makeQueueRoot();
  const run = async (...args: string[]): Promise<string> => {
    const { stdout } = await startCommand(args, { cwd, env: { HOME: cwd, PATH: '/usr/bin:/bin' } }).ended;
    return stdout;
  };
  const ids: number[] = [];
  for (const each of data) {
    ids.push(JSON.parse(await run('add', 'post-webhook', JSON.stringify(each), '--json')).id);
  }
  await run('work');
  const jobs: Job[] = [];
  for (const id of ids) jobs.push(JSON.parse(await run('job', String(id), '--json')));
  return jobs;
}

test('it posts JSON with further headers, and its result is the status', async () => {
  const { url, received } = await startSite();
  const body = { order: 12, text: 'grüße' };
  const jobs = await work([{ url: `${url}/201`, body, headers: { 'x-key': 'k' } }, { url: `${url}/200` }]);
  expect(jobs).toMatchObject([
    { state: 'finished', result: { status: 201 } },
    { state: 'finished', result: { status: 200 } },
  ]);
  expect(received).toEqual([
    { path: '/201', type: 'application/json', key: 'k', body: JSON.stringify(body) },
    { path: '/200', type: 'application/json', key: undefined, body: '{}' },
  ]);
});

test('where that may help it is tried again later, and elsewhere not', async () => {
  const { url } = await startSite();
  const nobody = 'http://127.0.0.1:1';
  const startedAt = Date.now();
  const jobs = await work([
    { url: `${url}/503` },
    { url: `${url}/429` },
    { url: `${url}/404` },
    { url: nobody },
    { url: 'no address' },
  ]);
  expect(jobs.map(({ state }) => state)).toEqual([...['retrying', 'retrying', 'failed', 'retrying', 'failed']]);
  expect(jobs[2]?.reason).toBe(`${url}/404 answered 404`);
  expect(new Date(jobs[1]?.runAt ?? 0).getTime()).toBeGreaterThan(startedAt + 9 * 60_000);
});
