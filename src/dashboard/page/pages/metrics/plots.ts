import type { components } from '../../../client/paths.ts';
import type { ChartSeries } from '../../charts/chart-options.ts';
import type { TickUnit } from '../../charts/ticks.ts';

type Metrics = components['schemas']['Metrics'];
type MetricBucket = components['schemas']['MetricBucket'];
type WorkerBucket = components['schemas']['WorkerBucket'];

/** One small chart. */
export interface Plot {
  readonly title: string;
  readonly what: string;
  readonly unit: TickUnit;
  readonly series: readonly ChartSeries[];
}

/** Each period in order; undefined: nothing happened in it. */
type Found<Bucket> = readonly (Bucket | undefined)[];

/** All periods of the time, also those in which nothing happened: a count is 0 then, all else is a gap. */
export function plotAll({ since, until, series, workers }: Metrics, of: string, lengthMs: number) {
  const [from, end] = [Date.parse(since ?? ''), Date.parse(until ?? '')];
  const count = Math.max(1, Math.round((end - from) / lengthMs));
  const times = Array.from({ length: count }, (_, index) => from + index * lengthMs);
  const byTime = <B extends { readonly from: string | null }>(buckets: readonly B[]): Found<B> => {
    const known = new Map(buckets.map((bucket) => [Date.parse(bucket.from ?? ''), bucket]));
    return times.map((at) => known.get(at));
  };
  const found = byTime(series.find(({ subject }) => subject === of)?.buckets ?? []);
  const tiers = workers.filter(({ tier }) => tier === of || of === '*').map(({ buckets }) => byTime(buckets));
  const plots = [...plotRuns(found), ...plotService(found), ...plotWorkers(tiers, count)];
  const isKnown = (values: ChartSeries['values']) => values.some((value) => value !== null);
  return { times, plots: plots.filter((each) => each.series.some(({ values }) => isKnown(values))) };
}

function plot(title: string, what: string, unit: TickUnit, ...series: readonly ChartSeries[]): Plot {
  return { title, what, unit, series };
}

/** Shows a figure of each period. */
function reader(found: Found<MetricBucket>, look: ChartSeries['look'], missing: 0 | null) {
  return (label: string, color: ChartSeries['color'], read: (bucket: MetricBucket) => number | null): ChartSeries => ({
    ...{ label, color, look },
    values: found.map((bucket) => (bucket === undefined ? missing : read(bucket))),
  });
}

function plotRuns(found: Found<MetricBucket>): Plot[] {
  const line = reader(found, 'line', null);
  const bars = reader(found, 'bars', null);
  const counts = reader(found, 'bars', 0);
  const throughput = [
    counts('ended', '--chart-1', ({ ended }) => ended),
    counts('failed for good', '--chart-failed', ({ failed }) => failed),
  ];
  const runTime = [
    line('median', '--chart-1', ({ runMs }) => runMs.p50),
    line('95th percentile', '--chart-4', ({ runMs }) => runMs.p95),
  ];
  const lateness = [
    line('mean', '--chart-1', ({ lateMs }) => lateMs.mean),
    line('longest', '--chart-4', ({ lateMs }) => lateMs.max),
  ];
  const cpu = bars('CPU time', '--chart-3', ({ cpuMs }) => cpuMs);
  const memory = bars('highest peak', '--chart-2', ({ maxRssBytes }) => maxRssBytes);
  return [
    plot('Throughput', 'runs that ended, and jobs that failed for good', 'count', ...throughput),
    plot('Run time', 'median and 95th percentile of each period', 'ms', ...runTime),
    plot('CPU time', 'of all runs together', 'ms', cpu),
    plot('Memory', 'the highest peak of a run', 'bytes', memory),
    plot('Lateness', 'from when runs were due until they began', 'ms', ...lateness),
  ];
}

/** Of jobs of the queue alone. */
function plotService(found: Found<MetricBucket>): Plot[] {
  if (!found.some((bucket) => bucket !== undefined && bucket.serviceMs.count > 0)) return [];
  const line = reader(found, 'line', null);
  const service = [
    line('mean', '--chart-1', ({ serviceMs }) => serviceMs.mean),
    line('shortest', '--chart-3', ({ serviceMs }) => serviceMs.min),
    line('longest', '--chart-4', ({ serviceMs }) => serviceMs.max),
  ];
  const waiting = reader(found, 'area', null)('waiting', '--chart-4', (bucket) => bucket.waiting);
  return [
    plot('Service time', 'of jobs, from when they were added until they were done', 'ms', ...service),
    plot('Waiting jobs', 'that were due at the end of an hour, at most', 'count', waiting),
  ];
}

/** Of several tiers, the highest figure of any. */
function plotWorkers(tiers: readonly Found<WorkerBucket>[], count: number): Plot[] {
  if (tiers.length === 0) return [];
  const highest = (read: (bucket: WorkerBucket) => number | null): (number | null)[] =>
    Array.from({ length: count }, (_, index) => {
      const known = tiers.flatMap((tier) => (tier[index] === undefined ? [] : (read(tier[index]) ?? [])));
      return known.length === 0 ? null : Math.max(...known);
    });
  const busy = tiers.length === 1 ? 'how busy its workers were' : 'how busy the workers of the busiest tier were';
  const utilization = highest((bucket) => bucket.utilization);
  const mean = highest(({ throughputMean }) => throughputMean);
  const most = highest(({ throughputMax }) => throughputMax);
  return [
    plot('Utilization', busy, 'share', { label: 'utilization', color: '--chart-2', look: 'area', values: utilization }),
    plot(
      'Jobs of a worker',
      'finished or failed in an hour: on average, and the most',
      'count',
      { label: 'mean', color: '--chart-1', look: 'line', values: mean },
      { label: 'most', color: '--chart-4', look: 'line', values: most },
    ),
  ];
}
