import { join } from 'node:path';
import { OpenAPIHono } from '@hono/zod-openapi';
import { expect, test } from 'vitest';
import { addEventRoutes } from '../../src/dashboard/api/events.ts';
import type { ApiEnv } from '../../src/dashboard/api/route.ts';
import { createFeed } from '../../src/dashboard/live/feed.ts';
import { runner, startNode } from '../support/command.ts';
import { makeTemporaryRoot } from '../support/root.ts';
import { until } from '../support/until.ts';
import { openPage } from '../support/web/browser.ts';
import { readViewer, startDashboard } from '../support/web/dashboard.ts';

/** Over a log that changes whenever it is looked at. */
function openFeed() {
  const log = { looks: 0, isBusy: false, changes: true };
  const source = {
    revision: async () => {
      if (log.changes) log.looks += 1;
      return String(log.looks);
    },
    changed: async () => void (await new Promise((resolve) => setTimeout(resolve, 1))),
    isBusy: async () => log.isBusy,
  };
  const feed = createFeed(source, { restMs: 1, busyTickMs: 20, idleTickMs: 1e9 });
  const api = new OpenAPIHono<ApiEnv>();
  api.use(async (c, next) => {
    c.set('site', { feed } as never);
    c.set('caller', { name: c.req.header('x-name') ?? 'nobody', permission: 'read' });
    await next();
  });
  addEventRoutes(api, 50);
  const follow = async (name = 'token laptop') => api.request('/api/events', { headers: { 'x-name': name } });
  return { log, feed, follow };
}

test('who never reads is dropped, and nothing is looked at once nobody follows', async () => {
  const { log, feed, follow } = openFeed();
  await follow();
  const reader = readViewer(await follow());
  await until('one of the two is dropped', () => feed.followers === 1);
  await reader.nextVersion('the other one is told still');
  feed.close();
  await reader.ended;
  expect(feed.followers).toBe(0);
  const { looks } = log;
  await new Promise((resolve) => setTimeout(resolve, 20));
  expect(log.looks).toBeLessThanOrEqual(looks + 1);
});

test('one token holds no more than its share of the streams, and others follow', async () => {
  const { feed, follow } = openFeed();
  const mine = await Promise.all(Array.from({ length: 201 }, () => follow('token wallboard')));
  expect(mine.map(({ status }) => status).toSorted()).toEqual([...Array(200).fill(200), 503]);
  expect((await follow('token laptop')).status).toBe(200);
  feed.close();
});

test('while something runs, a version grows old without a change', async () => {
  const { log, feed, follow } = openFeed();
  log.changes = false;
  log.isBusy = true;
  const viewer = readViewer(await follow());
  await until('it is told again and again', () => viewer.versions().length > 2);
  expect(new Set(viewer.versions()).size).toBe(viewer.versions().length);
  feed.close();
});

test('ten thousand changes leave the memory of the server as it was', async () => {
  const child = join(import.meta.dirname, 'many-changes.child.ts');
  const { status, stdout, stderr } = await startNode(['--expose-gc', child]).ended;
  expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
  const { changes, heard, grownBytes } = JSON.parse(stdout);
  expect(changes).toBeGreaterThan(10_999);
  expect(heard).toBeGreaterThan(300);
  expect(grownBytes).toBeLessThan(2 * 1024 * 1024);
});

test('the page follows by asking where no stream gets through', async () => {
  const root = makeTemporaryRoot({ 'jobs/hourly/a.sh': 'true\n', 'jobs/hourly/b.sh': 'exit 3\n' });
  const { url } = await startDashboard(root);
  const page = await openPage('about:blank');
  let polls = 0;
  await page.route('**/api/events', async (route) => {
    if (/json/.test(route.request().headers().accept ?? '')) {
      polls += 1;
      await route.continue();
    } else await route.fulfill({ status: 200, contentType: 'text/event-stream', body: ': cut off\n\n' });
  });
  await page.goto(url);
  await until('it is asked for', () => polls > 0);
  expect(await page.getByText('exit code 3').count()).toBe(0);
  runner(root, 'hourly');
  await page.getByText('exit code 3').first().waitFor();
});
