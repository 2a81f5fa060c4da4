import { expect, onTestFinished, test } from 'vitest';
import { createApi } from '../../../src/dashboard/api/api.ts';
import { openSite } from '../../../src/dashboard/site.ts';
import { openQueue } from '../../../src/index.ts';
import { runner } from '../../support/command.ts';
import { makeTemporaryRoot } from '../../support/root.ts';
import { type Body, openReadApi, readDocument } from '../../support/web/dashboard.ts';

/** A root in which what the examples name is there: a script, run 1, incident 1, and job 1 in the given state. */
async function makeSite(state: 'failed' | 'running' | 'queued' = 'queued') {
  // Without a handler, no pass takes the job.
  const root = makeTemporaryRoot({ 'jobs/hourly/clean-tmp.sh': 'exit 3\n' });
  const queue = await openQueue({ root });
  await queue.add('mail/welcome', { to: 'ada@example.org' });
  if (state !== 'queued') await queue.claimJob(1);
  if (state === 'failed') await queue.fail(1, { reason: 'no address' });
  await queue.close();
  runner(root, 'hourly');
  return root;
}

/** The address of an operation with the examples of all that it needs. */
function addressOf(path: string, parameters: readonly Body[] = []): string {
  const needed = parameters.filter((each) => each.required);
  const whole = needed.reduce((address, { name, schema }) => {
    return address.replace(`{${name}}`, String(schema.example ?? '1d'));
  }, path);
  const words = needed.filter((each) => each.in === 'query').map(({ name, schema }) => `${name}=${schema.example}`);
  return `${whole}?${words.join('&')}`;
}

test('each question is answered at the address that its examples give', async () => {
  const api = openReadApi(await makeSite('failed'));
  for (const [path, { get }] of Object.entries<Body>(readDocument.paths)) {
    const isJson = get?.responses[200]?.content?.['application/json'] !== undefined;
    if (isJson && !/session|events/.test(path)) await api.ask(addressOf(path, get.parameters));
  }
});

const running = ['finishJob', 'retryJob', 'failJob', 'buryJob', 'touchJob'];
const failed = ['kickJob', 'cancelJob', 'deleteJob', 'changeJobs', 'kickJobs', 'requeueJob'];

/** What is refused for what the root is like, or starts what outlives the test. */
const refused: Readonly<Record<string, number>> = { endPause: 404, endMute: 404 };
const unasked = ['logOut', 'startRun', 'stopRun'];

test('each change takes the body of its example', async () => {
  for (const [path, item] of Object.entries<Body>(readDocument.paths)) {
    for (const [method, { operationId, parameters, requestBody }] of Object.entries<Body>(item)) {
      if (method === 'get' || unasked.includes(operationId)) continue;
      const root = await makeSite(
        running.includes(operationId) ? 'running' : failed.includes(operationId) ? 'failed' : 'queued',
      );
      const site = openSite({ root, env: process.env, version: '1.2.3', now: Date.now, distFolder: root });
      onTestFinished(() => site.close());
      const api = createApi(site, { name: 'test', permission: 'manage' });
      const example = requestBody?.content['application/json'].example;
      const body =
        example === undefined ? {} : { body: JSON.stringify(example), headers: { 'content-type': 'application/json' } };
      const answer = await api.request(addressOf(path, parameters), {
        method: method.toUpperCase(),
        ...body,
      });
      const wanted = refused[operationId] ?? (operationId === 'addJobs' ? 201 : 200);
      expect({ operationId, status: answer.status, text: answer.status === wanted ? '' : await answer.text() }).toEqual(
        {
          ...{ operationId, status: wanted, text: '' },
        },
      );
    }
  }
});
