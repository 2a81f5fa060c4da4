import { expect, test } from 'vitest';
import { startDashboard } from '../support/dashboard.ts';
import { checkInvariants } from '../support/invariants.ts';
import { makeQueueSite } from '../support/queue-site.ts';

async function openSite() {
  const root = makeQueueSite();
  const { ask } = await startDashboard(root);
  const send = async (method: string, path: string, body?: unknown) => {
    const text = typeof body === 'string' ? body : JSON.stringify(body);
    const response = await ask(path, { method, ...(body !== undefined && { body: text }) });
    const answered = await response.text();
    return { status: response.status, text: answered, body: JSON.parse(answered) };
  };
  return { root, send };
}

test('a job is added, changed, claimed, ended and removed, and each of it says who it was', async () => {
  const { root, send } = await openSite();
  const exact = '{"name":"export","data":{"10":1,"2":12345678901234567890.10}}';
  expect(await send('POST', '/api/jobs', exact)).toMatchObject({
    status: 201,
    body: { items: [{ id: 1, added: true }] },
  });
  const changed = await send('PATCH', '/api/jobs/1', { priority: 7 });
  expect(changed).toMatchObject({ status: 200, body: { id: 1, job: { priority: 7, state: 'queued' } } });
  expect(changed.text).toContain('"data":{"10":1,"2":12345678901234567890.10}');
  const claimed = await send('GET', '/api/jobs/claim?names=exp*&lease=5m');
  expect(claimed).toMatchObject({ status: 200, body: { jobs: [{ id: 1, attempt: 1 }] } });
  const { token } = claimed.body.jobs[0];
  expect(await send('POST', '/api/jobs/1/touch', { token })).toMatchObject({ status: 200 });
  const finished = await send('POST', '/api/jobs/1/finish', { token, result: { sent: true } });
  expect(finished).toMatchObject({ status: 200, body: { job: { state: 'finished', result: { sent: true } } } });
  expect(await send('DELETE', '/api/jobs/1')).toMatchObject({ status: 200, body: { id: 1, job: null } });
  expect(await send('DELETE', '/api/jobs/1')).toMatchObject({ status: 404 });
  checkInvariants(root);
});
