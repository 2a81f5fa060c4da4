// On a fleet a script runs once in a slot, however often its tier is called: this is about SQLite.
import { expect, test } from 'vitest';
import { serve } from '../../support/alerts.ts';
import { cronEnv, readRuns, startCommand } from '../../support/command.ts';
import { queryLog } from '../../support/log.ts';
import { executable, makeTemporaryRoot } from '../../support/root.ts';

const fails = { 'jobs/hourly/backup.sh': executable('#!/bin/sh\necho disk full >&2\nexit 3\n') };

test('a failure is told by the channel of RUNNER_ALERTS, and the next pass runs while it is on its way', async () => {
  const root = makeTemporaryRoot(fails);
  const env: NodeJS.ProcessEnv = cronEnv(root);
  const meanwhile: (number | null)[] = [];
  const { url, asked } = await serve(async (_, response) => {
    // Nobody holds the tier while a server takes its time.
    meanwhile.push((await startCommand(['hourly'], { cwd: root, env }).ended).status);
    response.end();
  });
  env.RUNNER_ALERTS = `webhook:${url}/geheimer-pfad`;

  const { status } = await startCommand(['hourly'], { cwd: root, env }).ended;

  expect({ status, meanwhile }).toEqual({ status: 1, meanwhile: [1] });
  expect(readRuns(root).runs).toHaveLength(2);
  expect(asked).toHaveLength(1);
  expect(JSON.parse(asked[0]?.body ?? '')).toMatchObject({
    version: 1,
    event: 'opened',
    incidents: [{ subject: 'hourly/backup', code: 'script-failing', output: expect.stringContaining('disk full') }],
  });
  expect(queryLog(root, 'select * from deliveries')).toEqual([]);
});

test('a server that is gone fails no pass, and its address is nowhere in the log', async () => {
  const root = makeTemporaryRoot({ 'jobs/hourly/a.sh': executable('#!/bin/sh\nexit 3\n') });
  const env = { ...cronEnv(root), RUNNER_ALERTS: 'webhook:http://127.0.0.1:1/geheimer-pfad' };

  const { status, stderr } = await startCommand(['hourly'], { cwd: root, env }).ended;

  expect(status).toBe(1);
  expect(stderr).not.toContain('geheimer-pfad');
  const rows = queryLog<{ reason: string }>(root, 'select * from deliveries');
  expect(rows).toMatchObject([{ channel: 'webhook', attempts: 1, reason: expect.stringContaining('ECONNREFUSED') }]);
  expect(JSON.stringify(rows)).not.toContain('geheimer-pfad');
});
