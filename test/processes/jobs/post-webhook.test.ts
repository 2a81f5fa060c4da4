import { copyFileSync, mkdirSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import type { Job } from '../../../src/queue/api.ts';
import { startCommand } from '../../support/command.ts';
import { makeTemporaryRoot } from '../../support/root.ts';

interface Received {
  readonly path: string | undefined;
  readonly type: string | undefined;
  readonly key: string | string[] | undefined;
  readonly delivery: string | string[] | undefined;
  readonly body: string;
}

/** A site that answers `/404` with 404, `/429/5` with 429 and a wait of 5 s, and tells what it was sent. */
async function startSite(): Promise<{ readonly url: string; readonly received: Received[] }> {
  const received: Received[] = [];
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const { 'content-type': type, 'x-key': key, 'idempotency-key': delivery } = request.headers;
    received.push({ path: request.url, type, key, delivery, body: Buffer.concat(chunks).toString() });
    const [, status, wait] = request.url?.split('/') ?? [];
    response.writeHead(Number(status), wait === undefined ? {} : { 'retry-after': wait }).end('no\nmatter');
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => void server.close());
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, received };
}

function makeQueueRoot(): string {
  const root = makeTemporaryRoot();
  mkdirSync(join(root, 'jobs/queue'));
  const shipped = new URL('../../../jobs/queue/post-webhook.ts', import.meta.url).pathname;
  copyFileSync(shipped, join(root, 'jobs/queue/post-webhook.ts'));
  return root;
}

/** Adds jobs with these data, works them off, and tells what has become of them. */
async function work(data: readonly (object | string)[], ...options: readonly string[]): Promise<Job[]> {
  const cwd = makeQueueRoot();
  const run = async (...args: string[]): Promise<string> => {
    const { stdout } = await startCommand(args, { cwd, env: { HOME: cwd, PATH: '/usr/bin:/bin' } }).ended;
    return stdout;
  };
  const ids: number[] = [];
  for (const each of data) {
    ids.push(
      JSON.parse(
        await run('add', 'post-webhook', typeof each === 'string' ? each : JSON.stringify(each), '--json', ...options),
      ).id,
    );
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
    { path: '/201', type: 'application/json', key: 'k', delivery: received[0]?.delivery, body: JSON.stringify(body) },
    { path: '/200', type: 'application/json', key: undefined, delivery: received[1]?.delivery, body: '{}' },
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

test('the body is posted as it was given, and each try of a job has the same number', async () => {
  const { url, received } = await startSite();
  const body = '{"id":12345678901234567890,"10":1,"a":{"body":"}","b":[1.0]}}';
  await work([`{"body":{"x":1},"url":"${url}/503/0","body":${body},"headers":{}}`], '--retries', '1');
  expect(received.map((each) => each.body)).toEqual([body, body]);
  const [first, second] = received.map(({ delivery }) => delivery);
  expect(first).toMatch(/^job-1-\d+$/);
  expect(second).toBe(first);
});

test('a wait that the receiver asks for is kept, and its tries end some day', async () => {
  const { url, received } = await startSite();
  const startedAt = Date.now();
  const [waiting] = await work([{ url: `${url}/429/3600` }]);
  expect(waiting).toMatchObject({ state: 'retrying', attempts: 1, reason: `${url}/429/3600 answered 429` });
  expect(new Date(waiting?.runAt ?? 0).getTime()).toBeGreaterThanOrEqual(startedAt + 3_600_000);
  expect(await work([{ url: `${url}/429/0` }], '--retries', '2')).toMatchObject([{ state: 'failed', attempts: 3 }]);
  expect(received.length).toBe(4);
  const [late, file] = await work([{ url: `${url}/408` }, { url: 'file:///etc/hosts' }]);
  expect(late).toMatchObject({ state: 'retrying', attempts: 1 });
  expect(file).toMatchObject({ state: 'failed', attempts: 1 });
  expect(file?.reason).toMatch(/^data\.url expects an address with http: or https:, found/);
});
