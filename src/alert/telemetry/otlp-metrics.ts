import type { MetricFamily, MetricPoint } from '../../monitor/telemetry/families.ts';
import { attributesOf, type Sender, scope, toNanoseconds } from './otlp.ts';

/** They count from the log's beginning, however often they are sent: what is lost or comes twice changes nothing. */
const CUMULATIVE = 2;

/** When what grows was 0, and when it was looked at. */
export interface Period {
  readonly since: number;
  readonly at: number;
}

/** An `ExportMetricsServiceRequest`. */
export function metricsBody(families: readonly MetricFamily[], sender: Sender, period: Period): string {
  const metrics = families.filter(({ points }) => points.length > 0).map((family) => metricOf(family, period));
  const resource = { attributes: attributesOf({ ...sender.resource, 'runner.root': sender.root }) };
  return JSON.stringify({ resourceMetrics: [{ resource, scopeMetrics: [{ scope: scope(sender), metrics }] }] });
}

function metricOf({ name, help, unit, kind, points }: MetricFamily, period: Period) {
  const described = { name, description: help, unit };
  if (kind === 'gauge') {
    const dataPoints = points.map((point) => ({
      attributes: attributesOf(point.labels),
      timeUnixNano: toNanoseconds(period.at),
      asDouble: point.value,
    }));
    return { ...described, gauge: { dataPoints } };
  }
  if (kind === 'summary')
    return { ...described, summary: { dataPoints: points.map((each) => toSummary(each, period)) } };
  const dataPoints = points.map((point) => ({ ...whenOf(point, period), asDouble: point.value }));
  return { ...described, sum: { aggregationTemporality: CUMULATIVE, isMonotonic: true, dataPoints } };
}

function whenOf({ labels }: MetricPoint, { since, at }: Period) {
  return {
    attributes: attributesOf(labels),
    startTimeUnixNano: toNanoseconds(since),
    timeUnixNano: toNanoseconds(at),
  };
}

function toSummary(point: MetricPoint, period: Period) {
  return {
    ...whenOf(point, period),
    count: String(point.count ?? 0),
    sum: point.value,
    quantileValues: (point.quantiles ?? []).map(([quantile, value]) => ({ quantile, value })),
  };
}
