/** Where one kind of telemetry goes. */
export interface Endpoint {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly timeoutMs: number;
  readonly isCompressed: boolean;
}

/** What the `OTEL_…` variables of the runner's environment ask for. */
export interface Collector {
  /** Null: spans are not sent. */
  readonly traces: Endpoint | null;
  /** Null: metrics are not sent. */
  readonly metrics: Endpoint | null;
  /** What sends: `service.name`, and what else is said of it. */
  readonly resource: Readonly<Record<string, string>>;
}

/** What is wrong with the variables: one sentence, which names the variable and never its value where that is a secret. */
export class CollectorProblem extends Error {
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
export function readCollector(env: Environment): Collector | null {
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
  return {
    url: url.href,
    headers: readHeaders(variableOf(env, kind, 'HEADERS')),
    timeoutMs: readTimeout(variableOf(env, kind, 'TIMEOUT')),
    isCompressed: variableOf(env, kind, 'COMPRESSION')?.value.toLowerCase() === 'gzip',
  };
}

function readUrl({ name, value }: Variable): URL {
  const url = URL.parse(value);
  if (url !== null && /^https?:$/.test(url.protocol)) return url;
  throw new CollectorProblem(`${name} expects a URL such as https://collector.example.org:4318.`);
}

/** Whoever takes binary bodies over HTTP takes JSON at the same address. */
function checkProtocol(variable: Variable | undefined): void {
  if (variable === undefined || /^http\//.test(variable.value)) return;
  throw new CollectorProblem(
    `${variable.name} is ${JSON.stringify(variable.value)}, but the runner speaks OTLP over HTTP only: ` +
      'set it to http/json, and the endpoint to the collector’s port for HTTP (mostly 4318).',
  );
}

function readTimeout(variable: Variable | undefined): number {
  if (variable === undefined) return DEFAULT_TIMEOUT_MS;
  if (/^\d{1,9}$/.test(variable.value) && Number(variable.value) > 0) return Number(variable.value);
  throw new CollectorProblem(`${variable.name} expects milliseconds, such as 10000.`);
}

/** Their values are secrets, mostly. */
function readHeaders(variable: Variable | undefined): Record<string, string> {
  const wrong = (name: string) =>
    new CollectorProblem(`${name} expects headers such as authorization=Bearer%20abc, separated by commas.`);
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
    new CollectorProblem(`${name} expects attributes such as deployment.environment=production, separated by commas.`);
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
