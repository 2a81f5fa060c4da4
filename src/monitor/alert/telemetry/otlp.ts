import { createHash } from 'node:crypto';
import type { EndedRunFacts } from '../../../store/statements/monitor/telemetry.ts';
import { isFailure } from '../../../store/words.ts';
import type { MetricFamily, MetricPoint } from '../../telemetry/families.ts';

/** Who sends. */
export interface Sender {
  readonly resource: Readonly<Record<string, string>>;
  /** The runner's. */
  readonly version: string;
  readonly root: string;
}

const SPAN_KIND_INTERNAL = 1;
const SPAN_KIND_CONSUMER = 5;
const STATUS_UNSET = 0;
const STATUS_ERROR = 2;

/** An `ExportTraceServiceRequest`: one span for each run. */
export function spansBody(runs: readonly EndedRunFacts[], sender: Sender): string {
  const byHost = Map.groupBy(runs, ({ host }) => host);
  const resourceSpans = [...byHost].map(([host, ofHost]) => ({
    resource: { attributes: attributesOf({ ...sender.resource, 'host.name': host }) },
    scopeSpans: [{ scope: scope(sender), spans: ofHost.map((run) => spanOf(run, sender)) }],
  }));
  return JSON.stringify({ resourceSpans });
}

/** A run that is sent once more is the same span: its numbers follow from what the run is. */
function spanOf(run: EndedRunFacts, sender: Sender) {
  const digest = createHash('sha256')
    .update(JSON.stringify([sender.root, run.host, run.id, run.startedAt]))
    .digest('hex');
  const end = endOf(run);
  return {
    traceId: digest.slice(0, 32),
    spanId: digest.slice(32, 48),
    name: run.script,
    kind: isOfQueue(run) ? SPAN_KIND_CONSUMER : SPAN_KIND_INTERNAL,
    startTimeUnixNano: toNanoseconds(run.startedAt),
    endTimeUnixNano: toNanoseconds(end),
    attributes: describeRun(run),
    events: describeError(run, end),
    status: isFailure(run.outcome)
      ? { code: STATUS_ERROR, message: run.reason ?? run.outcome }
      : { code: STATUS_UNSET },
  };
}

/** By the monotonic clock, where it is known: the other one may have been set meanwhile. */
function endOf({ startedAt, finishedAt, durationMs }: EndedRunFacts): number {
  return durationMs === null ? Math.max(startedAt, finishedAt ?? startedAt) : startedAt + durationMs;
}

function isOfQueue({ script }: EndedRunFacts): boolean {
  return script.startsWith('queue/');
}

function describeRun(run: EndedRunFacts): Attribute[] {
  return attributesOf({
    'runner.run.id': run.id,
    'runner.script': run.script,
    'runner.tier': run.script.slice(0, run.script.indexOf('/')),
    'runner.outcome': run.outcome,
    'runner.attempt': run.attempt,
    'runner.trigger': run.trigger,
    'runner.job.id': isOfQueue(run) ? run.jobId : null,
    'runner.lateness': run.scheduledFor === null ? null : Math.max(0, run.startedAt - run.scheduledFor) / 1000,
    'runner.reason': run.reason,
    'runner.signal': run.signal,
    'runner.cpu.user': seconds(run.userCpuMs),
    'runner.cpu.system': seconds(run.systemCpuMs),
    'runner.memory.peak': run.maxRssBytes,
    'runner.measured_by': run.measuredBy,
    'process.pid': run.pid,
    'process.exit.code': run.exitCode,
  });
}

function seconds(ms: number | null): number | null {
  return ms === null ? null : ms / 1000;
}

/** As OpenTelemetry records what was thrown. */
function describeError({ errorName, errorMessage, errorStack }: EndedRunFacts, end: number) {
  if (errorName === null && errorMessage === null) return [];
  const attributes = attributesOf({
    'exception.type': errorName,
    'exception.message': errorMessage,
    'exception.stacktrace': errorStack,
  });
  return [{ name: 'exception', timeUnixNano: toNanoseconds(end), attributes }];
}

/** They count from the log's beginning, however often they are sent: what is lost or comes twice changes nothing. */
const CUMULATIVE = 2;

/** When what grows was 0, and when it was looked at. */
interface Counting {
  readonly since: number;
  readonly at: number;
}

/** An `ExportMetricsServiceRequest`. */
export function metricsBody(families: readonly MetricFamily[], sender: Sender, counting: Counting): string {
  const metrics = families.filter(({ points }) => points.length > 0).map((family) => metricOf(family, counting));
  const resource = { attributes: attributesOf({ ...sender.resource, 'runner.root': sender.root }) };
  return JSON.stringify({ resourceMetrics: [{ resource, scopeMetrics: [{ scope: scope(sender), metrics }] }] });
}

function metricOf({ name, help, unit, kind, points }: MetricFamily, counting: Counting) {
  const described = { name, description: help, unit };
  if (kind === 'gauge') {
    const dataPoints = points.map((point) => ({
      attributes: attributesOf(point.labels),
      timeUnixNano: toNanoseconds(counting.at),
      asDouble: point.value,
    }));
    return { ...described, gauge: { dataPoints } };
  }
  if (kind === 'summary')
    return { ...described, summary: { dataPoints: points.map((each) => toSummary(each, counting)) } };
  const dataPoints = points.map((point) => ({ ...whenOf(point, counting), asDouble: point.value }));
  return { ...described, sum: { aggregationTemporality: CUMULATIVE, isMonotonic: true, dataPoints } };
}

function whenOf({ labels }: MetricPoint, { since, at }: Counting) {
  return {
    attributes: attributesOf(labels),
    startTimeUnixNano: toNanoseconds(since),
    timeUnixNano: toNanoseconds(at),
  };
}

function toSummary(point: MetricPoint, counting: Counting) {
  return {
    ...whenOf(point, counting),
    count: String(point.count ?? 0),
    sum: point.value,
    quantileValues: (point.quantiles ?? []).map(([quantile, value]) => ({ quantile, value })),
  };
}

interface Attribute {
  readonly key: string;
  readonly value: AttributeValue;
}

type AttributeValue =
  | { readonly stringValue: string }
  | { readonly intValue: string }
  | { readonly doubleValue: number }
  | { readonly boolValue: boolean };

/** What is null is unknown, and left out. */
function attributesOf(values: Readonly<Record<string, string | number | boolean | null>>): Attribute[] {
  return Object.entries(values).flatMap(([key, value]) => (value === null ? [] : { key, value: toValue(value) }));
}

function toValue(value: string | number | boolean): AttributeValue {
  if (typeof value === 'boolean') return { boolValue: value };
  if (typeof value === 'string') return { stringValue: value };
  // 64 bits are written as text: not every reader of JSON has numbers of that size.
  return Number.isInteger(value) ? { intValue: String(value) } : { doubleValue: value };
}

/** What is known of who has measured. */
function scope({ version }: Sender) {
  return { name: 'folder-runner', version };
}

/** As text: a number of JavaScript does not hold so many digits. */
function toNanoseconds(ms: number): string {
  const whole = Math.floor(ms);
  return String(BigInt(whole) * 1_000_000n + BigInt(Math.round((ms - whole) * 1_000_000)));
}
