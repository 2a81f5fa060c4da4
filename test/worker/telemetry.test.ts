import { expect, test } from 'vitest';
import { type CollectorServer, checkAgainstSchema, startCollector } from '../support/collector.ts';
import { cronPlace } from '../support/cron-place.ts';
import { queryLog } from '../support/open-log.ts';
import { startCommand } from '../support/start-command.ts';
import { executable, makeTemporaryRoot } from '../support/temporary-root.ts';

const scripts = {
  'jobs/hourly/good.sh': executable('#!/bin/sh\necho hello\n'),
  'jobs/hourly/bad.sh': executable('#!/bin/sh\nexit 3\n'),
};

async function runHourly(root: string, env: NodeJS.ProcessEnv = {}): Promise<void> {
  const place = cronPlace(root);
  await startCommand(['hourly', '--root', root], { ...place, env: { ...place.env, ...env } }).ended;
}

/** Names of spans, one list for each request. */
const spansOf = ({ requests }: CollectorServer): string[][] =>
  requests
    .filter(({ path }) => path === '/v1/traces')
    .map(({ body }) => body.resourceSpans[0].scopeSpans[0].spans.map(({ name }: { name: string }) => name));

test('a pass tells the collector that its environment names of its runs, in one request', async () => {
  const root = makeTemporaryRoot(scripts);
  const collector = await startCollector();
  await runHourly(root, { OTEL_EXPORTER_OTLP_ENDPOINT: collector.url });
  expect(spansOf(collector)).toEqual([['hourly/bad', 'hourly/good']]);
  for (const request of collector.requests) checkAgainstSchema(request);
  expect(queryLog(root, 'select * from deliveries')).toEqual([]);
});

test('what a dead collector has not got waits in one row, and the next one gets it', async () => {
  const root = makeTemporaryRoot(scripts);
  const collector = await startCollector();
  collector.answer = { status: 503 };
  await runHourly(root, { OTEL_EXPORTER_OTLP_ENDPOINT: collector.url });
  await runHourly(root, { OTEL_EXPORTER_OTLP_ENDPOINT: collector.url });
  const rows = queryLog<{ kind: string; body: string; reason: string }>(root, 'select * from deliveries');
  expect(rows).toMatchObject([{ kind: 'telemetry', body: '{}', reason: expect.stringContaining('503') }]);
});

test('without these variables nothing is written or sent', async () => {
  const root = makeTemporaryRoot(scripts);
  await runHourly(root);
  expect(queryLog(root, "select * from deliveries where kind = 'telemetry'")).toEqual([]);
  expect(queryLog(root, 'select * from told_runs')).toEqual([]);
});
