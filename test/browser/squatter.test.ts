import { createServer } from 'node:http';
import { expect, test } from 'vitest';
import { cronPlace, startCommand } from '../support/command.ts';
import { findFreePort } from '../support/engines/postgres-server.ts';
import { makeTemporaryRoot } from '../support/root.ts';
import { until } from '../support/until.ts';
import { openPage } from '../support/web/browser.ts';

/** It keeps itself in the browser in each way that there is, and asks for the rights of who looks. */
const page = `<!doctype html><title>squatter</title><h1>squatter</h1><script>
  document.cookie = 'squatter=1';
  navigator.serviceWorker.register('/worker.js');
  fetch('/api/session', { cache: 'no-store' }).then((answer) => { document.title = 'squatter ' + answer.status; });
</script>`;
const worker = `
  addEventListener('install', () => skipWaiting());
  addEventListener('activate', (event) => event.waitUntil(clients.claim()));
  addEventListener('fetch', (event) => {
    if (event.request.mode !== 'navigate') return;
    event.respondWith(new Response(${JSON.stringify(page)}, { headers: { 'content-type': 'text/html' } }));
  });`;

/** In the browser. */
const countWorkers = 'navigator.serviceWorker.getRegistrations().then(({ length }) => length)';

/** Another program at the port, while nobody else listens there; as another user may start one. */
async function squat(port: number) {
  const server = createServer(({ url }, answer) => {
    const isWorker = url === '/worker.js';
    answer.setHeader('content-type', isWorker ? 'text/javascript' : 'text/html');
    answer.setHeader('cache-control', 'public, max-age=31536000, immutable');
    answer.end(isWorker ? worker : page);
  });
  await new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve));
  return async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  };
}

test('what another program has left in the browser at the port gets no control of the dashboard', async () => {
  const port = await findFreePort();
  const leave = await squat(port);
  const context = (await openPage('about:blank')).context();
  const victim = await context.newPage();
  const addresses = [`http://127.0.0.1:${port}/`, `http://localhost:${port}/`];
  for (const address of addresses) {
    await victim.goto(address);
    await victim.waitForFunction('navigator.serviceWorker.controller !== null');
  }
  await leave();
  const root = makeTemporaryRoot({ 'jobs/hourly/a.sh': '' });
  const started = startCommand(['--root', root, 'web', '--port', String(port)], cronPlace(root));
  await until('the dashboard listens', () => /http:\S+\n/.test(started.printed()));
  const printed = /http:\S+/.exec(started.printed())?.[0] as string;
  await victim.goto(printed);
  await victim.getByRole('heading', { name: 'Overview' }).first().waitFor();
  expect(await victim.evaluate(countWorkers)).toBe(0);
  const session = () =>
    victim.evaluate(() => fetch('/api/session', { cache: 'no-store' }).then((answer) => answer.status));
  expect(await session()).toBe(200);
  for (const address of addresses) {
    // Its page may be shown still, but has no rights, and its worker goes.
    await victim.goto(address);
    expect(await session()).toBe(401);
    await victim.evaluate(
      'navigator.serviceWorker.getRegistrations().then((all) => all.forEach((each) => each.update()))',
    );
    await until('the worker of the other program has gone', async () => {
      return (await victim.evaluate(countWorkers).catch(() => null)) === 0;
    });
  }
  started.kill('SIGINT');
  expect(await started.ended).toMatchObject({ status: 0, stderr: '' });
});
