import { EventEmitter } from 'node:events';
import { connect } from 'node:net';
import { userInfo } from 'node:os';
import { expect, test } from 'vitest';
import { createApi } from '../../../src/dashboard/api/api.ts';
import { openSite as openSiteOf } from '../../../src/dashboard/site.ts';
import { inRoot, jsonOf, makeQueueSite } from '../../support/command.ts';
import { checkInvariants } from '../../support/faults/invariants.ts';
import { queryLog } from '../../support/log.ts';
import { until } from '../../support/until.ts';
import { startDashboard } from '../../support/web/dashboard.ts';

async function openSite() {
  const root = makeQueueSite();
  const { ask, url } = await startDashboard(root);
  const send = async (method: string, path: string, body?: unknown) => {
    const text = typeof body === 'string' ? body : JSON.stringify(body);
    const response = await ask(path, { method, ...(body !== undefined && { body: text }) });
    const answered = await response.text();
    const location = response.headers.get('location');
    return { status: response.status, location, text: answered, body: JSON.parse(answered) };
  };
  const told = async () => {
    const { activity } = jsonOf(await inRoot(root, 'activity', '--order', 'oldest', '--json'));
    return (activity as { event: string; by: string | null }[]).flatMap(({ event, by }) =>
      by === null ? [] : [event],
    );
  };
  return { root, url, send, told };
}

const me = userInfo().username;

test('a job is added, changed, claimed, ended and removed, and each of it says who it was', async () => {
  const { root, send, told } = await openSite();
  const exact = '{"name":"export","data":{"10":1,"2":12345678901234567890.10}}';
  expect(await send('POST', '/api/jobs', exact)).toMatchObject({
    status: 201,
    location: 'jobs/1',
    body: { items: [{ id: 1, added: true, changed: false, ignored: [] }] },
  });
  const changed = await send('PATCH', '/api/jobs/1', { priority: 7 });
  expect(changed).toMatchObject({ status: 200, body: { id: 1, job: { priority: 7, state: 'queued' } } });
  expect(changed.text).toContain('"data":{"10":1,"2":12345678901234567890.10}');
  const claimed = await send('POST', '/api/jobs/claim', { names: 'exp*', lease: '5m' });
  expect(claimed).toMatchObject({ status: 200, body: { jobs: [{ id: 1, attempt: 1 }] } });
  const { token } = claimed.body.jobs[0];
  expect(await send('POST', '/api/jobs/1/touch', { token })).toMatchObject({ status: 200 });
  expect(await send('POST', '/api/jobs/1/finish', { token: 'another' })).toMatchObject({ status: 409 });
  const finished = await send('POST', '/api/jobs/1/finish', { token, result: { sent: true } });
  expect(finished).toMatchObject({ status: 200, body: { job: { state: 'finished', result: { sent: true } } } });
  expect(await send('POST', '/api/jobs/1/kick')).toMatchObject({ status: 409, body: { title: 'Conflict' } });
  checkInvariants(root);
  const removed = { id: 1, job: { name: 'export', state: 'finished', result: { sent: true } } };
  expect(await send('DELETE', '/api/jobs/1')).toMatchObject({ status: 200, body: removed });
  expect(await send('DELETE', '/api/jobs/1')).toMatchObject({ status: 404 });
  expect(await told()).toEqual(['job-added', 'job-updated', 'job-claimed', 'job-ended', 'job-deleted']);
  expect(queryLog(root, 'select distinct actor from events')).toEqual([{ actor: me }]);
});

test('a list is added whole or not at all, and a wrong field is named', async () => {
  const { send } = await openSite();
  const jobs = ['{"name":"export","data":[1.0]}', '{"name":"export","data":"a","uniqueKey":"k"}'];
  const added = await send('POST', '/api/jobs', `[${jobs.join(' , ')}]`);
  expect(added.body.items).toEqual([
    { id: 1, added: true, changed: false, ignored: [] },
    { id: 2, added: true, changed: false, ignored: [] },
  ]);
  expect((await send('POST', '/api/jobs', { name: 'export', uniqueKey: 'k' })).body.items).toEqual([
    { id: 2, added: false, changed: false, ignored: [] },
  ]);
  expect((await send('GET', '/api/jobs/1')).text).toContain('"data":[1.0]');
  const slip = await send('POST', '/api/jobs', [{ name: 'export' }, { name: 'export', prority: 7 }]);
  expect(slip).toMatchObject({ status: 400 });
  expect(slip.text).toContain('prority');
  const wrong = await send('POST', '/api/jobs', [{ name: 'export' }, { name: 'export', runAt: 'someday' }]);
  expect(wrong.body.detail).toMatch(/^Job 2 of 2 \("export"\): A time must be/);
  expect(wrong.body.errors).toEqual([{ in: 'json', name: '1.runAt', detail: wrong.body.detail }]);
  expect((await send('GET', '/api/jobs')).body.items).toHaveLength(2);
});

test('a selection is changed job by job, and each refusal is told', async () => {
  const { send } = await openSite();
  await send(
    'POST',
    '/api/jobs',
    [1, 2, 3, 4].map((index) => ({ name: index < 3 ? 'export' : 'mail/welcome' })),
  );
  const buried = await send('POST', '/api/jobs/batch', { verb: 'bury', ids: [1, 99, 2], options: { reason: 'later' } });
  expect(buried.body.items).toEqual([
    { id: 1, ok: true, reason: null },
    { id: 99, ok: false, reason: expect.stringContaining('There is no job 99') },
    { id: 2, ok: true, reason: null },
  ]);
  const failed = { state: 'failed', name: 'exp*', search: 'LATER' };
  const planned = await send('POST', '/api/jobs/batch', { verb: 'kick', filter: failed, dryRun: true });
  const plan = { jobs: 2, refused: 0, last: 2, causes: [{ reason: 'later', jobs: 2 }] };
  expect(planned.body).toEqual({ items: [], plan, next: null });
  const kicked = await send('POST', '/api/jobs/batch', { verb: 'kick', filter: { state: 'failed', name: 'exp*' } });
  expect(kicked.body).toEqual({ items: [1, 2].map((id) => ({ id, ok: true, reason: null })), plan: null, next: null });
  await send('POST', '/api/jobs/3/bury');
  expect((await send('POST', '/api/jobs/kick', { names: ['mail/*', 'export'] })).body).toEqual({ kicked: 1 });
  for (const wrong of [
    { verb: 'kick' },
    { verb: 'kick', ids: [1], filter: {} },
    { verb: 'kick', ids: [1], options: { reason: '' } },
    { verb: 'kick', ids: [1], dryRun: true },
    { verb: 'kick', filter: { state: 'ready,queued' } },
    { verb: 'kick', filter: { since: 'someday' } },
  ]) {
    expect(await send('POST', '/api/jobs/batch', wrong)).toMatchObject({ status: 400 });
  }
});

test('a job that exists already is answered with 200, and the end of a missing one with 404', async () => {
  const { send } = await openSite();
  const job = { name: 'export', uniqueKey: 'k' };
  expect(await send('POST', '/api/jobs', job)).toMatchObject({ status: 201, location: 'jobs/1' });
  const again = { status: 200, location: 'jobs/1', body: { items: [{ id: 1, added: false }] } };
  expect(await send('POST', '/api/jobs', job)).toMatchObject(again);
  expect(await send('POST', '/api/jobs', [job, { name: 'export' }])).toMatchObject({ status: 201, location: null });
  for (const path of ['/api/pauses/queue', '/api/mutes/queue']) {
    expect(await send('DELETE', path)).toMatchObject({ status: 404, body: { detail: expect.stringMatching(/queue/) } });
    expect(await send('PUT', path, {})).toMatchObject({ status: 200 });
    expect(await send('DELETE', path)).toMatchObject({ status: 200 });
  }
  for (const path of ['/api/pauses/nothing', '/api/mutes/nothing'])
    expect(await send('PUT', path, {})).toMatchObject({ status: 404 });
});

test('jobs that ended long ago are removed, and so are events', async () => {
  const { send, told } = await openSite();
  await send('POST', '/api/jobs', [{ name: 'export' }, { name: 'export' }]);
  await send('POST', '/api/jobs/1/cancel');
  expect((await send('DELETE', '/api/jobs?before=1d')).body).toEqual({ deleted: 0, more: false });
  const soon = new Date(Date.now() + 60_000).toISOString();
  expect((await send('DELETE', `/api/jobs?before=${soon}`)).body).toEqual({ deleted: 1, more: false });
  expect((await send('DELETE', `/api/activity?before=${soon}`)).body.deleted).toBeGreaterThan(2);
  expect(await told()).toEqual(['log-pruned']);
  expect(await send('DELETE', '/api/jobs')).toMatchObject({ status: 400 });
});

test('a waiting client gets a job at once, and a client that went away leaves none claimed', async () => {
  const { root, url, send } = await openSite();
  const waiters = [1, 2, 3].map(() => send('POST', '/api/jobs/claim', { wait: '30s', names: 'export' }));
  await until('they wait', async () => jsonOf(await inRoot(root, 'status', '--json')).queue.waiting.length === 3);
  await inRoot(root, 'add', 'export');
  await send('POST', '/api/jobs', [{ name: 'export' }, { name: 'export' }]);
  const got = await Promise.all(waiters.map(async (waiter) => (await waiter).body.jobs[0]?.id));
  expect(got.toSorted()).toEqual([1, 2, 3]);
  const session = await fetch(new URL('api/session', url));
  const { csrf } = (await session.json()) as { csrf: string };
  const { hostname, port, host } = new URL(url);
  const socket = connect(Number(port), hostname);
  const wanted = JSON.stringify({ wait: '1m', names: 'gone' });
  const headers = { host, 'x-csrf-token': csrf, 'content-type': 'application/json', 'content-length': wanted.length };
  const head = ['POST /api/jobs/claim HTTP/1.1', ...Object.entries(headers).map((header) => header.join(': '))];
  socket.write(`${head.join('\r\n')}\r\n\r\n${wanted}`);
  await until('it waits', async () => jsonOf(await inRoot(root, 'status', '--json')).queue.waiting.length === 1);
  socket.destroy();
  await until(
    'it waits no more',
    async () => jsonOf(await inRoot(root, 'status', '--json')).queue.waiting.length === 0,
  );
  await send('POST', '/api/jobs', { name: 'gone' });
  expect((await send('GET', '/api/jobs/4')).body).toMatchObject({ state: 'queued', attempts: 0 });
  expect((await fetch(new URL('api/jobs/claim', url), { method: 'POST' })).status).toBe(403);
  expect(await send('POST', '/api/jobs/claim', { wait: '6m' })).toMatchObject({ status: 400 });
  expect((await fetch(new URL('api/jobs/claim', url))).status).toBe(400);
  checkInvariants(root, { isSettled: false });
});

test('a job whose answer is not written is given back at once, and that was no try', async () => {
  const root = makeQueueSite();
  await inRoot(root, 'add', 'export');
  const site = openSiteOf({ root, env: process.env, version: '0', now: Date.now, distFolder: '' });
  const api = createApi(site, { name: 'token laptop', permission: 'manage' });
  const outgoing = Object.assign(new EventEmitter(), { destroyed: false, closed: false, writableFinished: false });
  const answer = await api.request('http://127.0.0.1/api/jobs/claim', { method: 'POST' }, { outgoing });
  expect(await answer.json()).toMatchObject({ jobs: [{ id: 1 }] });
  outgoing.emit('close');
  await site.close();
  expect(queryLog(root, 'select state, attempts, claim_token from jobs')).toEqual([
    { state: 'queued', attempts: 0, claim_token: null },
  ]);
  checkInvariants(root);
});
