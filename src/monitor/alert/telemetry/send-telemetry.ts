import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import { isInClear } from '../../../settings/channels.ts';
import type { Runner } from '../../../settings/settings.ts';
import type { DeliveryRow } from '../../../store/statements/monitor/alerts.ts';
import { telemetryOf } from '../../../store/statements/monitor/telemetry.ts';
import type { Store } from '../../../store/store.ts';
import { firstLine } from '../../../system/base/text.ts';
import { readFamilies } from '../../telemetry/read-families.ts';
import { type HttpAnswer, judgeAnswer, sendHttp } from '../channels/http.ts';
import { failed, type SendPlace, type Sent } from '../channels/sent.ts';
import { metricsBody, type Sender, spansBody } from './otlp.ts';

/** Half a megabyte: less than any collector refuses. */
const SPANS_PER_BODY = 500;

const hourMs = 60 * 60_000;

/** Of a log of which nothing was told so far. */
const FIRST_MS = hourMs;

/** Nobody looks for it after that, and most collectors refuse it. */
const OLDEST_MS = 72 * hourMs;

const compress = promisify(gzip);

/** Sends what there is to be sent: the row only asks for it. */
export async function deliverTelemetry(
  { runner, store }: { readonly runner: Runner; readonly store: Store },
  _row: DeliveryRow,
  signal: AbortSignal,
): Promise<Sent> {
  const { root, version, environment } = runner;
  return await sendTelemetry(store, { root, version, environment, signal }, runner.now);
}

/**
 * Sends a span for each run that has ended since the last time, and all metrics, as the variables of the environment
 * ask for. What has arrived is noted before more is sent; a run that arrives twice all the same is the same span.
 *
 * @returns what is wrong otherwise: what did not arrive is still in the log, and sent the next time
 */
export async function sendTelemetry(store: Store, place: SendPlace, now: () => number): Promise<Sent> {
  try {
    const collector = readCollector(place.environment);
    if (collector === null) return { ok: true, answer: 'nothing to send' };
    const sender = { resource: collector.resource, version: place.version, root: place.root };
    const { traces, metrics } = collector;
    const spans = traces === null ? null : await sendSpans(store, { place, endpoint: traces, sender, now });
    // Where one kind is refused, the other is sent all the same.
    const figures = metrics === null ? null : await sendMetrics(store, { place, endpoint: metrics, sender, now });
    return spans ?? figures ?? { ok: true, answer: 'all was sent' };
  } catch (error) {
    if (error instanceof CollectorProblem) return failed(error.message);
    throw error;
  }
}

interface Line {
  readonly place: SendPlace;
  readonly endpoint: Endpoint;
  readonly sender: Sender;
  readonly now: () => number;
}

/** @returns null: all has arrived */
async function sendSpans(store: Store, line: Line): Promise<Sent | null> {
  const { place, sender, now } = line;
  for (;;) {
    const at = now();
    const query = { firstSince: at - FIRST_MS, since: at - OLDEST_MS, limit: SPANS_PER_BODY };
    const { runs, told, hasMore } = await telemetryOf(store.statements).untold(query);
    const answer = runs.length === 0 ? null : await post(line, spansBody(runs, sender));
    const refused = answer === null ? null : judge(answer, line.endpoint.url);
    if (refused === null || refused.isOfData) {
      // What a collector will never take must not keep it from what comes after.
      await store.transaction((session) => telemetryOf(session.statements).keepTold(told));
    }
    if (refused !== null) return failed(refused.reason);
    if (!hasMore) return null;
    if (place.signal.aborted) return failed('the time ran out before all of it was sent');
  }
}

/** Everything as it is now: what did not arrive the last time needs not be sent once more. */
async function sendMetrics(store: Store, line: Line): Promise<Sent | null> {
  const { place, sender, endpoint, now } = line;
  const at = now();
  const families = await readFamilies(store, at, place.version);
  const since = (await telemetryOf(store.statements).beganAt()) ?? at;
  const refused = judge(
    await post(line, metricsBody(families, sender, { since: Math.min(since, at), at })),
    endpoint.url,
  );
  return refused === null ? null : failed(refused.reason);
}

async function post({ place, endpoint }: Line, body: string): Promise<HttpAnswer | Error> {
  const { url, headers, timeoutMs, isCompressed } = endpoint;
  const encoding = isCompressed ? { 'content-encoding': 'gzip' } : {};
  try {
    return await sendHttp({
      url,
      method: 'POST',
      headers: { 'content-type': 'application/json', ...encoding, ...headers },
      body: isCompressed ? await compress(body) : body,
      signal: AbortSignal.any([place.signal, AbortSignal.timeout(timeoutMs)]),
      environment: place.environment,
      followsRedirects: false,
    });
  } catch (error) {
    return error as Error;
  }
}

interface Refusal {
  readonly reason: string;
  /** The same again would be refused again. */
  readonly isOfData: boolean;
}

/** As OTLP says it: with a 400, and within what it takes with a 200, it means the data. */
function judge(answer: HttpAnswer | Error, url: string): Refusal | null {
  if (answer instanceof Error) return { reason: answer.message, isOfData: false };
  const sent = judgeAnswer(url, answer);
  if (!sent.ok) return { reason: sent.reason, isOfData: [400, 413, 422].includes(answer.status) };
  const rejected = readRejected(answer.text);
  return rejected === null ? null : { reason: `${new URL(url).host} ${rejected}`, isOfData: true };
}

interface PartialAnswer {
  readonly partialSuccess?: {
    readonly rejectedSpans?: string | number;
    readonly rejectedDataPoints?: string | number;
    readonly errorMessage?: string;
  };
}

/** Null: it took everything. Not every collector answers with JSON, though it was asked with it. */
function readRejected(text: string): string | null {
  if (!text.trimStart().startsWith('{')) return null;
  try {
    const { partialSuccess } = JSON.parse(text) as PartialAnswer;
    const count = Number(partialSuccess?.rejectedSpans ?? partialSuccess?.rejectedDataPoints ?? 0);
    if (!(count > 0)) return null;
    return `took all but ${count}: ${firstLine(partialSuccess?.errorMessage ?? '') || 'it does not say why'}`;
  } catch {
    return null;
  }
}

/** Where one kind of telemetry goes. */
interface Endpoint {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly timeoutMs: number;
  readonly isCompressed: boolean;
}

/** What the `OTEL_…` variables of the runner's environment ask for. */
interface CollectorSettings {
  /** Null: spans are not sent. */
  readonly traces: Endpoint | null;
  /** Null: metrics are not sent. */
  readonly metrics: Endpoint | null;
  /** What sends: `service.name`, and what else is said of it. */
  readonly resource: Readonly<Record<string, string>>;
}

/** What is wrong with the variables: one sentence, which names the variable and never its value where that is a secret. */
class CollectorProblem extends Error {
  override readonly name = 'CollectorProblem';
}

const DEFAULT_TIMEOUT_MS = 10_000;

type Environment = NodeJS.ProcessEnv;

/**
 * Reads the variables that OpenTelemetry defines for exporters. Those of a kind (`OTEL_EXPORTER_OTLP_TRACES_…`,
 * `OTEL_EXPORTER_OTLP_METRICS_…`) win over those of all.
 *
 * @returns null where nothing is to be sent
 * @throws {CollectorProblem} where a variable says what cannot be done
 */
function readCollector(env: Environment): CollectorSettings | null {
  if (read(env, 'OTEL_SDK_DISABLED')?.toLowerCase() === 'true') return null;
  const traces = readEndpoint(env, 'TRACES', 'v1/traces');
  const metrics = readEndpoint(env, 'METRICS', 'v1/metrics');
  return traces === null && metrics === null ? null : { traces, metrics, resource: readResource(env) };
}

/** An empty variable is one that is not set. */
function read(env: Environment, name: string): string | undefined {
  const value = env[name]?.trim();
  return value === '' ? undefined : value;
}

interface Variable {
  readonly name: string;
  readonly value: string;
}

function variableOf(env: Environment, kind: string, what: string): Variable | undefined {
  return [`OTEL_EXPORTER_OTLP_${kind}_${what}`, `OTEL_EXPORTER_OTLP_${what}`]
    .map((name) => ({ name, value: read(env, name) ?? '' }))
    .find(({ value }) => value !== '');
}

function readEndpoint(env: Environment, kind: 'TRACES' | 'METRICS', path: string): Endpoint | null {
  if (read(env, `OTEL_${kind}_EXPORTER`) === 'none') return null;
  const address = variableOf(env, kind, 'ENDPOINT');
  if (address === undefined) return null;
  checkProtocol(variableOf(env, kind, 'PROTOCOL'));
  const url = readUrl(address);
  // Only the address of a kind is taken as it is.
  if (address.name === 'OTEL_EXPORTER_OTLP_ENDPOINT') url.pathname = `${url.pathname.replace(/\/$/, '')}/${path}`;
  const headers = readHeaders(variableOf(env, kind, 'HEADERS'));
  if (isInClear(url) && (Object.keys(headers).length > 0 || url.username + url.password !== '')) {
    throw new CollectorProblem(
      `${address.name} must begin with https://, as headers or a password would be sent in the clear.`,
    );
  }
  return {
    url: url.href,
    headers,
    timeoutMs: readTimeout(variableOf(env, kind, 'TIMEOUT')),
    isCompressed: variableOf(env, kind, 'COMPRESSION')?.value.toLowerCase() === 'gzip',
  };
}

function readUrl({ name, value }: Variable): URL {
  const url = URL.parse(value);
  if (url !== null && /^https?:$/.test(url.protocol)) return url;
  throw new CollectorProblem(`${name} must be a URL such as https://collector.example.org:4318.`);
}

/** Whoever takes binary bodies over HTTP takes JSON at the same address. */
function checkProtocol(variable: Variable | undefined): void {
  if (variable === undefined || /^http\//.test(variable.value)) return;
  throw new CollectorProblem(
    `${variable.name} is ${JSON.stringify(variable.value)}, but the runner speaks OTLP over HTTP only: ` +
      'set it to http/json, and the endpoint to the collector’s port for HTTP (usually 4318).',
  );
}

function readTimeout(variable: Variable | undefined): number {
  if (variable === undefined) return DEFAULT_TIMEOUT_MS;
  if (/^\d{1,9}$/.test(variable.value) && Number(variable.value) > 0) return Number(variable.value);
  throw new CollectorProblem(`${variable.name} must be milliseconds, such as 10000.`);
}

/** Their values are secrets, mostly. */
function readHeaders(variable: Variable | undefined): Record<string, string> {
  const wrong = (name: string) =>
    new CollectorProblem(`${name} must be headers such as authorization=Bearer%20abc, separated by commas.`);
  if (variable === undefined) return {};
  const headers = readPairs(variable, wrong);
  const isFine = Object.entries(headers).every(
    ([name, value]) => /^[!#$%&'*+.^_`|~\w-]+$/.test(name) && /^[\t\x20-\x7e\x80-\xff]*$/.test(value),
  );
  if (!isFine) throw wrong(variable.name);
  return headers;
}

function readResource(env: Environment): Record<string, string> {
  const wrong = (name: string) =>
    new CollectorProblem(`${name} must be attributes such as deployment.environment=production, separated by commas.`);
  const name = 'OTEL_RESOURCE_ATTRIBUTES';
  const attributes = readPairs({ name, value: read(env, name) ?? '' }, wrong);
  const service = read(env, 'OTEL_SERVICE_NAME') ?? attributes['service.name'] ?? 'folder-runner';
  return { ...attributes, 'service.name': service };
}

/** `key=value,key2=value2`, percent-encoded as in W3C Baggage. */
function readPairs({ name, value }: Variable, wrong: (name: string) => Error): Record<string, string> {
  const pairs: [string, string][] = [];
  for (const part of value.split(',').filter((each) => each.trim() !== '')) {
    const [, key = '', text = ''] = /^\s*([^=\s]+)\s*=\s*(.*?)\s*$/.exec(part) ?? [];
    if (key === '') throw wrong(name);
    try {
      pairs.push([decodeURIComponent(key), decodeURIComponent(text)]);
    } catch {
      throw wrong(name);
    }
  }
  return Object.fromEntries(pairs);
}
