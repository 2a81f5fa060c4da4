import { get } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { createAdaptorServer } from '@hono/node-server';
import { OpenAPIHono } from '@hono/zod-openapi';
import { addEventRoutes } from '../../src/dashboard/api/events.ts';
import type { ApiEnv } from '../../src/dashboard/api/route.ts';
import { createFeed } from '../../src/dashboard/live/feed.ts';
import { rememberAnswers } from '../../src/dashboard/live/memo.ts';

/** A server with viewers, one of whom never reads, over a log that changes all the time; prints how its heap grows. */
let changes = 0;
const revision = async (): Promise<string> => String(changes);
const changed = async (): Promise<void> => {
  await new Promise(setImmediate);
  // A busy log has several commits from one look to the next.
  changes += 20;
};
const pace = { restMs: 0, busyTickMs: 1e9, idleTickMs: 1e9 };
const feed = createFeed({ revision, changed, isBusy: async () => false }, pace);

const api = new OpenAPIHono<ApiEnv>();
api.use(async (c, next) => {
  c.set('site', { feed, revision } as never);
  c.set('caller', { name: 'somebody', permission: 'read' });
  await next();
});
api.use('/api/*', rememberAnswers({ maxAgeMs: 100, maxAnswers: 200, maxBytes: 1e7 }));
addEventRoutes(api);
api.get('/api/data', (c) => c.json({ changes, filling: 'x'.repeat(20_000) }));

const server = createAdaptorServer({ fetch: api.fetch }).listen(0, '127.0.0.1');
await new Promise((resolve) => server.once('listening', resolve));
const { port } = server.address() as AddressInfo;
let heard = 0;
for (const isReader of [true, true, false]) {
  get({ port, path: '/api/events' }, (response) => {
    if (isReader) response.on('data', () => (heard += 1));
    else response.pause();
  });
}

async function heapAfter(count: number): Promise<number> {
  while (changes < count) {
    await api.request('/api/data');
    await sleep(1);
  }
  // Kept answers are gone by then.
  await sleep(200);
  globalThis.gc?.();
  return process.memoryUsage().heapUsed;
}

const first = await heapAfter(1_000);
const last = await heapAfter(changes + 10_000);
console.log(JSON.stringify({ changes, heard, grownBytes: last - first }));
process.exit();
