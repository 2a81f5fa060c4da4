import { hostname } from 'node:os';
import { expect, test } from 'vitest';
import { sendTelemetry } from '../../src/monitor/alert/telemetry/send-telemetry.ts';
import { type CollectorServer, checkAgainstSchema, startCollector } from '../support/collector.ts';
import { makeTemporaryRoot } from '../support/temporary-root.ts';
import { type WrittenLog, writeLog } from '../support/written-log.ts';

const start = Date.UTC(2026, 10, 3, 14);

async function makeSite() {
  const collector = await startCollector();
  return { collector, log: await writeLog(makeTemporaryRoot()) };
}

/** Sends spans alone, unless another environment is given. */
async function send(
  { collector, log }: { collector: CollectorServer; log: WrittenLog },
  environment: NodeJS.ProcessEnv = {},
  signal = new AbortController().signal,
) {
  const variables = { OTEL_EXPORTER_OTLP_ENDPOINT: collector.url, OTEL_METRICS_EXPORTER: 'none', ...environment };
  const place = { root: '/site', version: '0.1.0', environment: variables, signal };
  return await sendTelemetry(log.store, place, () => start + 60_000);
}

const spansOf = ({ requests }: CollectorServer) =>
  requests.flatMap(({ body }) =>
    // biome-ignore lint/suspicious/noExplicitAny: as a collector reads them
    body.resourceSpans.flatMap((each: any) => each.scopeSpans.flatMap((scoped: any) => scoped.spans)),
  );

test('each run is a span, as the schema of OTLP has it', async () => {
  const site = await makeSite();
  const { collector, log } = site;
  await log.addRun('hourly/good', start, { pid: 4711, max_rss_bytes: 1024, user_cpu_ms: 12.5, system_cpu_ms: 2 });
  const stack = { error_name: 'TypeError', error_message: 'x is not a function', error_stack: 'at x.ts:3' };
  await log.addRun('queue/mail', start + 500, { outcome: 'failed', exit_code: 1, reason: 'exit code 1', ...stack });
  expect(
    await send(site, { OTEL_RESOURCE_ATTRIBUTES: 'deployment.environment=a%20b,service.name=shop' }),
  ).toMatchObject({ ok: true });
  const [request] = collector.requests;
  expect(collector.requests).toHaveLength(1);
  expect(request).toMatchObject({ path: '/v1/traces', headers: { 'content-type': 'application/json' } });
  checkAgainstSchema(request as never);
  expect(request?.body.resourceSpans[0].resource.attributes).toEqual(
    Object.entries({ 'deployment.environment': 'a b', 'service.name': 'shop', 'host.name': hostname() }).map(
      ([key, stringValue]) => ({ key, value: { stringValue } }),
    ),
  );
  const [good, failed] = spansOf(collector);
  expect(good).toMatchObject({
    name: 'hourly/good',
    startTimeUnixNano: `${start}000000`,
    endTimeUnixNano: `${start + 100}000000`,
    status: { code: 0 },
  });
  expect(good.attributes).toContainEqual({ key: 'runner.cpu.user', value: { doubleValue: 0.0125 } });
  expect(good.attributes).toContainEqual({ key: 'process.pid', value: { intValue: '4711' } });
  expect(failed).toMatchObject({ status: { code: 2, message: 'exit code 1' }, events: [{ name: 'exception' }] });
});

test('a run that was sent in vain is the same span the next time, and is sent once', async () => {
  const site = await makeSite();
  const { collector, log } = site;
  await log.addRun('hourly/a', start);
  collector.answer = { status: 503, text: 'busy' };
  expect(await send(site)).toMatchObject({ ok: false, isPermanent: false });
  collector.answer = { status: 200 };
  await send(site);
  await send(site);
  const [first, second, ...others] = spansOf(collector);
  expect(others).toEqual([]);
  expect(second).toEqual(first);
});

test('a long list of runs is sent in several bodies, and none is lost where time is short', async () => {
  const site = await makeSite();
  const { collector, log } = site;
  await log.addRun('hourly/a', start);
  const rows = Array.from(
    { length: 1_199 },
    (_, index) => `(1, 1, 1, 'succeeded', ${start + index}, ${start + index}, 1)`,
  );
  log.change(
    `insert into runs (job_id, script_id, attempt, outcome, started_at, finished_at, duration_ms)
     values ${rows.join(', ')}`,
  );
  const soon = AbortSignal.abort();
  expect(await send(site, {}, soon)).toMatchObject({ ok: false });
  await send(site);
  expect(collector.requests.map(({ body }) => body.resourceSpans.length > 0)).toHaveLength(3);
  expect(new Set(spansOf(collector).map(({ spanId }) => spanId)).size).toBe(1_200);
});

test('what a collector will never take is not sent for ever', async () => {
  const site = await makeSite();
  const { collector, log } = site;
  await log.addRun('hourly/a', start);
  collector.answer = { status: 400, text: 'no such field' };
  expect(await send(site)).toMatchObject({ ok: false, reason: expect.stringContaining('no such field') });
  await log.addRun('hourly/b', start + 1);
  collector.answer = { status: 200, text: '{"partialSuccess":{"rejectedSpans":"1","errorMessage":"too old"}}' };
  expect(await send(site)).toMatchObject({ ok: false, reason: expect.stringContaining('took all but 1: too old') });
  expect(await send(site)).toMatchObject({ ok: true });
  expect(spansOf(collector).map(({ name }) => name)).toEqual(['hourly/a', 'hourly/b']);
});

test('the variables of OpenTelemetry are honoured', async () => {
  const site = await makeSite();
  const { collector, log } = site;
  await log.addRun('hourly/a', start);
  expect(await send(site, { OTEL_SDK_DISABLED: 'true' })).toMatchObject({ ok: true });
  expect(await send(site, { OTEL_TRACES_EXPORTER: 'none' })).toMatchObject({ ok: true });
  expect(collector.requests).toEqual([]);
  await send(site, {
    OTEL_EXPORTER_OTLP_HEADERS: 'authorization=Bearer%20abc, x-scope=site',
    OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: `${collector.url}/mine`,
    OTEL_EXPORTER_OTLP_COMPRESSION: 'gzip',
    OTEL_SERVICE_NAME: 'shop',
  });
  expect(collector.requests).toMatchObject([
    { path: '/mine', headers: { authorization: 'Bearer abc', 'x-scope': 'site', 'content-encoding': 'gzip' } },
  ]);
  checkAgainstSchema({ path: '/v1/traces', body: collector.requests[0]?.body });
});

test.each([
  ['OTEL_EXPORTER_OTLP_ENDPOINT', 'collector:4318'],
  ['OTEL_EXPORTER_OTLP_PROTOCOL', 'grpc'],
  ['OTEL_EXPORTER_OTLP_HEADERS', 'Bearer s3cret'],
  ['OTEL_EXPORTER_OTLP_TIMEOUT', 'soon'],
  ['OTEL_RESOURCE_ATTRIBUTES', 'a=%zz'],
])('a wrong %s is told in a sentence without a secret', async (name, value) => {
  const site = await makeSite();
  await site.log.addRun('hourly/a', start);
  const sent = await send(site, { [name]: value });
  expect(sent).toMatchObject({ ok: false, isPermanent: false, reason: expect.stringContaining(name) });
  expect(JSON.stringify(sent)).not.toContain('s3cret');
  expect(site.collector.requests).toEqual([]);
});

test.each([
  { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://192.0.2.1:4318', OTEL_EXPORTER_OTLP_HEADERS: 'authorization=s3cret' },
  { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://me:s3cret@192.0.2.1:4318' },
])('no header or password leaves this host without TLS: %j', async (variables) => {
  const site = await makeSite();
  await site.log.addRun('hourly/a', start);
  const sent = await send(site, variables);
  expect(sent).toMatchObject({ ok: false, reason: expect.stringContaining('must begin with https://') });
  expect(JSON.stringify(sent)).not.toContain('s3cret');
});

test('a collector that does not answer is left within the time that the variables give', async () => {
  const site = await makeSite();
  site.collector.answer = null;
  await site.log.addRun('hourly/a', start);
  const sent = await send(site, { OTEL_EXPORTER_OTLP_TIMEOUT: '50' });
  expect(sent).toMatchObject({ ok: false, reason: expect.stringContaining('no answer in time') });
});
