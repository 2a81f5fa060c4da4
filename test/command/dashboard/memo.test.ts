import { Hono } from 'hono';
import { expect, test } from 'vitest';
import type { ApiEnv } from '../../../src/dashboard/api/route.ts';
import { rememberAnswers } from '../../../src/dashboard/live/memo.ts';
import { runner } from '../../support/command.ts';
import { makeTemporaryRoot } from '../../support/root.ts';
import { until } from '../../support/until.ts';
import { startDashboard } from '../../support/web/dashboard.ts';

/** An API of one route that counts how often it computes, over a log of the given revision. */
function openCounted(limits?: Parameters<typeof rememberAnswers>[0]) {
  const log = { revision: 'a', version: 'm9.1', computed: [] as string[], permission: 'read' };
  const api = new Hono<ApiEnv>();
  api.use(async (c, next) => {
    c.set('site', { revision: async () => log.revision } as never);
    c.set('version', log.version);
    c.set('caller', { name: 'somebody', permission: log.permission } as never);
    await next();
    c.res.headers.set('x-version', c.var.version ?? '');
  });
  api.use('/api/*', rememberAnswers(limits));
  api.get('/api/*', async (c) => {
    await new Promise(setImmediate);
    log.computed.push(c.req.path);
    if (c.req.query('fails')) throw new Error('not now');
    return c.json({ path: c.req.path, count: log.computed.length });
  });
  api.onError((error, c) => c.text(error.message, 500));
  const ask = async (path: string) => (await api.request(path)).text();
  /** As a viewer that was told this version. */
  const askAs = async (version: string) => {
    const answer = await api.request('/api/a', { headers: { 'x-version': version } });
    return [((await answer.json()) as { readonly count: number }).count, answer.headers.get('x-version')];
  };
  return { log, ask, askAs };
}

test('the same question about the same log is computed once for all', async () => {
  const { log, ask } = openCounted();
  const answers = await Promise.all(Array.from({ length: 100 }, () => ask('/api/a')));
  expect(new Set(answers).size).toBe(1);
  await ask('/api/a');
  expect(log.computed).toEqual(['/api/a']);
  // By path and query, by revision, and by what the one who asks may see.
  await ask('/api/a?b=1');
  log.revision = 'b';
  await ask('/api/a');
  log.permission = 'manage';
  await ask('/api/a');
  expect(log.computed).toHaveLength(4);
});

test('viewers that were told a version share its answer, though the log changes all the time', async () => {
  const { log, ask, askAs } = openCounted();
  expect(await askAs('m9.1')).toEqual([1, 'm9.1']);
  Object.assign(log, { revision: 'b', version: 'm9.2' });
  expect(await askAs('m9.1')).toEqual([1, 'm9.1']);
  expect(await askAs('m9.2')).toEqual([2, 'm9.2']);
  Object.assign(log, { revision: 'c', version: 'm9.10' });
  expect(await askAs('m9.2')).toEqual([2, 'm9.2']);
  // What a server before this one has told says nothing, nor does what it has not told yet.
  for (const version of ['m8.1', 'm9.11', 'm9', '']) expect(await askAs(version)).toEqual([3, 'm9.10']);
  // Whoever names no version gets the log as it is.
  log.revision = 'd';
  expect(await ask('/api/a')).toContain('"count":4');
});

test('a failure is shared while it lasts, and never kept', async () => {
  const { log, ask } = openCounted();
  expect(await Promise.all([ask('/api/a?fails=1'), ask('/api/a?fails=1')])).toEqual(['not now', 'not now']);
  expect(log.computed).toHaveLength(1);
  await ask('/api/a?fails=1');
  expect(log.computed).toHaveLength(2);
});

test("streams, sessions and output are each asker's own", async () => {
  const { log, ask } = openCounted();
  for (const path of ['events', 'session', 'runs/1/output']) {
    await ask(`/api/${path}`);
    await ask(`/api/${path}`);
  }
  expect(log.computed).toHaveLength(6);
});

test('answers are kept for a moment, and only so many', async () => {
  const aging = openCounted({ maxAgeMs: 20, maxAnswers: 10, maxBytes: 1e6 });
  await aging.ask('/api/a');
  await until('it has grown old', async () => {
    await aging.ask('/api/a');
    return aging.log.computed.length > 1;
  });
  for (const limit of [{ maxAnswers: 2 }, { maxBytes: 150 }]) {
    const { log, ask } = openCounted({ maxAgeMs: 60_000, maxAnswers: 100, maxBytes: 1e6, ...limit });
    for (const path of ['/api/a', '/api/b', '/api/c', '/api/c', '/api/a']) await ask(path);
    expect(log.computed).toEqual(['/api/a', '/api/b', '/api/c', '/api/a']);
  }
});

test('a hundred who ask at once get one answer, which is not sent again to who has it', async () => {
  const root = makeTemporaryRoot({ 'jobs/hourly/a.sh': 'true\n' });
  const { url } = await startDashboard(root);
  const ask = (path: string, headers: Record<string, string> = {}) => fetch(`${url}api/${path}`, { headers });
  // It says to the millisecond until when it counts; a slow machine takes longer than an answer is kept.
  const texts = await Promise.all(Array.from({ length: 100 }, async () => (await ask('overview')).text()));
  expect(new Set(texts).size).toBeLessThan(5);
  runner(root, 'hourly');
  expect(await (await ask('overview')).json()).toMatchObject({ totals: { runs: 1 } });
  const plain = await ask('openapi.json', { 'accept-encoding': 'identity' });
  const zipped = await ask('openapi.json', { 'accept-encoding': 'gzip' });
  expect(plain.headers.get('content-encoding')).toBeNull();
  expect(zipped.headers.get('content-encoding')).toBe('gzip');
  expect(zipped.headers.get('cache-control')).toBe('private, no-cache');
  expect(zipped.headers.get('vary')).toBe('accept-encoding');
  expect(await zipped.text()).toBe(await plain.text());
  for (const { headers } of [plain, zipped]) {
    const again = await ask('openapi.json', { 'if-none-match': headers.get('etag') as string });
    expect({ status: again.status, text: await again.text() }).toEqual({ status: 304, text: '' });
  }
});

test('the page is compressed, and sent once', async () => {
  const { url } = await startDashboard(makeTemporaryRoot());
  const page = await fetch(url);
  expect(page.headers.get('content-encoding')).toBe('gzip');
  expect(page.headers.get('content-type')).toBe('text/html; charset=UTF-8');
  expect(await page.text()).toContain('<!doctype html>');
  const again = await fetch(url, { headers: { 'if-none-match': page.headers.get('etag') as string } });
  expect(again.status).toBe(304);
  expect(again.headers.get('content-security-policy')).toContain("default-src 'none'");
});
