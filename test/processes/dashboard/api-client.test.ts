import { existsSync, readFileSync } from 'node:fs';
import { userInfo } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import type { createClient as CreateClient } from '../../../src/dashboard/client/client.ts';
import { cronPlace, inRoot, jsonOf, makeQueueSite, startCommand } from '../../support/command.ts';
import { addJob, endInPeace, startWaiting } from '../../support/faults/queue.ts';
import { queryLog } from '../../support/log.ts';
import { makeTemporaryRoot } from '../../support/root.ts';
import { until } from '../../support/until.ts';
import { startDashboard } from '../../support/web/dashboard.ts';

const built = new URL('../../../dist/client.mjs', import.meta.url).href;
const { createClient } = (await import(built)) as { createClient: typeof CreateClient };

test('the client of the package manages a site: with a token, or as the owner at the socket', async () => {
  const root = makeQueueSite();
  const added = await inRoot(root, 'web', 'token', 'add', 'laptop', '--manage');
  const [token = ''] = /\S{40,}/.exec(added.stdout) ?? [];
  const { url } = await startDashboard(root);
  const runner = createClient({ url, token });
  const { data } = await runner.POST('/api/jobs', { body: { name: 'export', data: { to: 1 } } });
  expect(data).toEqual({ items: [{ id: 1, added: true, changed: false, ignored: [] }] });
  const claimed = await runner.POST('/api/jobs/claim', { body: { names: 'export' } });
  expect(claimed.data?.jobs).toMatchObject([{ id: 1, data: { to: 1 } }]);
  const own = createClient({ socket: join(root, '.runner/web.sock') });
  const path = { pattern: 'hourly/clean' };
  const paused = await own.PUT('/api/pauses/{pattern}', { params: { path }, body: { for: '2h' } });
  expect(paused.data).toMatchObject({ name: 'hourly/clean', kind: 'pause' });
  const { error, response } = await own.PUT('/api/pauses/{pattern}', { params: { path: { pattern: 'hourli' } } });
  expect([response.status, error?.detail]).toEqual([404, expect.stringContaining('did you mean hourly?')]);
  const read = await own.GET('/api/scripts/{name}', { params: { path: { name: 'hourly/clean' } } });
  expect(read.data?.script).toBe('hourly/clean');
  const resumed = await own.DELETE('/api/pauses/{pattern}', { params: { path } });
  expect(resumed.data).toEqual({ resumed: ['hourly/clean'], pause: null });
  expect((await own.DELETE('/api/session')).response.status).toBe(204);
  const page = createClient({ url: url.replace(/\/$/, '') });
  expect((await page.GET('/api/session')).data?.permission).toBe('manage');
  const by = queryLog<{ event: string; actor: string }>(root, 'select event, actor from events order by id');
  const me = userInfo().username;
  expect(by.map(({ event, actor }) => `${event} ${actor}`)).toEqual([
    ...['job-added token laptop', 'job-claimed token laptop', `paused ${me}`, `resumed ${me}`],
  ]);
  expect((await createClient({ url, token: 'wrong' }).GET('/api/session')).response.status).toBe(401);
});

test('a script is run now; what is unknown, or is no script, is not', async () => {
  const root = makeQueueSite();
  const { url } = await startDashboard(root);
  const runner = createClient({ url });
  const run = async (script: string) => await runner.POST('/api/runs', { body: { script } });
  const started = await run('hourly/clean');
  expect(started.response.status).toBe(202);
  expect(started.data).toMatchObject({ script: 'hourly/clean', run: 1, reason: null });
  expect(started.response.headers.get('location')).toBe('runs/1');
  await until('it has run', async () => {
    const { runs } = jsonOf(await inRoot(root, 'report', 'hourly/clean', '--json'));
    return runs[0]?.outcome === 'succeeded';
  });
  const [worker] = queryLog(root, 'select kind, state, triggered_by, actor from workers');
  expect(worker).toMatchObject({ kind: 'script', triggered_by: 'manual', actor: userInfo().username });
  expect(queryLog(root, `select detail from events where event = 'run-requested'`)).toEqual([
    { detail: 'hourly/clean' },
  ]);
  const unknown = await run('hourly/cleam');
  expect([unknown.response.status, unknown.error?.detail]).toEqual([
    404,
    expect.stringContaining('did you mean hourly/clean'),
  ]);
  expect(unknown.error?.detail).not.toContain(root);
  expect((await run('queue/export')).response.status).toBe(404);
});

test.each([true, false])('a run that fails is told unless somebody watches it: alert %s', async (alert) => {
  const root = makeTemporaryRoot({ 'jobs/hourly/fails.sh': 'exit 3\n' });
  const { url } = await startDashboard(root);
  await createClient({ url }).POST('/api/runs', { body: { script: 'hourly/fails', alert } });
  await until('it has failed', async () => {
    const { runs } = jsonOf(await inRoot(root, 'report', 'hourly/fails', '--json'));
    return runs[0]?.outcome === 'failed';
  });
  expect(queryLog(root, 'select subject from incidents')).toEqual(alert ? [{ subject: 'hourly/fails' }] : []);
});

test('a run is stopped only if it is the one that is meant, and also if its job is not kept', async () => {
  const root = makeTemporaryRoot({
    'jobs/queue/slow.sh': 'sleep 600\n',
    'runner.config.json': '{ "queue": { "archive": { "*": "remove" } } }',
  });
  const { url } = await startDashboard(root);
  const runner = createClient({ url });
  await addJob(root, 'slow');
  const worker = startWaiting(root);
  const running = 'select id from runs where pid is not null';
  await until('it runs', () => queryLog(root, running).length > 0);
  const params = { path: { id: 1 } };
  const startedAt = '2026-01-02T03:04:05.678Z';
  const other = await runner.POST('/api/runs/{id}/stop', { params, body: { startedAt } });
  expect([other.response.status, other.error?.detail]).toEqual([409, expect.stringContaining('of another run')]);
  expect(queryLog(root, "select id from events where event = 'run-stop-requested'")).toEqual([]);
  const read = await runner.GET('/api/runs/{id}', { params });
  const body = { startedAt: read.data?.startedAt ?? null };
  const stopped = await runner.POST('/api/runs/{id}/stop', { params, body });
  expect(stopped.response.status).toBe(202);
  await until('it is gone', () => queryLog(root, 'select id from jobs').length === 0);
  await endInPeace(root, worker);
});

test('the call of a script that is not run says so at once', async () => {
  const root = makeTemporaryRoot({
    'jobs/hourly/a.sh': 'exit 0\n',
    'runner.config.json': '{ "limits": { "maxLoad": 0.0001, "maxWait": "1s" } }',
  });
  const { url } = await startDashboard(root);
  const { response, data } = await createClient({ url }).POST('/api/runs', { body: { script: 'hourly/a' } });
  expect([response.status, data]).toMatchObject([202, { run: null, reason: expect.stringContaining('ended without') }]);
});

test('a script gets its arguments as they are, also dashes; who ran it is in the activity', async () => {
  const root = makeTemporaryRoot({ 'jobs/hourly/a.sh': 'printf "%s " "$@" > given\n' });
  const { url } = await startDashboard(root);
  const runner = createClient({ url });
  await runner.POST('/api/runs', { body: { script: 'hourly/a', args: ['--', 'b', '--', '--all'] } });
  await until('it has run', () => queryLog(root, "select id from runs where outcome = 'succeeded'").length > 0);
  expect(readFileSync(join(root, 'given'), 'utf8')).toBe('-- b -- --all ');
  const { data } = await runner.GET('/api/activity', { params: { query: { by: '*' } } });
  const me = userInfo().username;
  expect(data?.items.map(({ event, by }) => [event, by])).toEqual([
    ['worker-started', me],
    ['run-requested', me],
  ]);
});

test('a stopped run is no error that a search finds, and `run` exits with 1', async () => {
  const root = makeTemporaryRoot({ 'jobs/hourly/a.sh': 'touch begun; sleep 600\n' });
  const { url } = await startDashboard(root);
  const call = startCommand(['run', 'hourly/a', '--root', root], cronPlace(root));
  await until('it has begun', () => existsSync(join(root, 'begun')));
  await until('it runs', () => queryLog(root, 'select id from runs where pid is not null').length > 0);
  await inRoot(root, 'stop', 'a');
  expect((await call.ended).status).toBe(1);
  const find = async (search: string) =>
    (await createClient({ url }).GET('/api/runs', { params: { query: { search } } })).data?.items.length;
  expect([await find('stopped by'), await find('hourly/a')]).toEqual([0, 1]);
});
