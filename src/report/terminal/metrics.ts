import type { MetricBucket, MetricSeries, Metrics, WorkerBucket } from '../../monitor/metrics/read-metrics.ts';
import { formatBytes, formatCount, formatDuration, formatRate, UNKNOWN } from '../../system/base/format.ts';
import { printableLine } from '../../system/base/text.ts';
import { HOUR_MS } from '../../system/base/values.ts';
import type { Screen } from './screen.ts';
import { type Column, drawTable, joinFitting, wrap } from './table.ts';

const WEEK_MS = 7 * 24 * 3_600_000;
/** A log of less tells no week; a script that runs once a day may leave out the first one. */
const NEARLY_A_WEEK_MS = 6 * 24 * HOUR_MS;

/** Renders every script with its CPU time, the most expensive first. */
export function renderCosts(metrics: Metrics, cpuLimit: number | null, screen: Screen): string {
  const all = metrics.series.find(({ kind }) => kind === 'all');
  const scripts = metrics.series.filter(({ kind }) => kind === 'script').sort(byCost);
  if (all === undefined || scripts.length === 0) return renderEmpty(metrics, null, screen);
  const first = Math.min(...all.buckets.map(({ fromMs }) => Math.max(fromMs, metrics.sinceMs)));
  const lastsMs = Math.max(Math.min(screen.nowMs, metrics.untilMs) - first, HOUR_MS);
  const costs: Costs = { totalMs: all.total.cpuMs, lastsMs, cpuLimit };
  const rows = [...scripts, all];
  const table = drawTable(costColumns(rows, costs, screen), rows, screen);
  const limit = cpuLimit === null ? 'CPU limit of the host: unknown' : `CPU limit: ${cpuLimit} processors`;
  return toText([...renderHead(metrics, [limit], screen), '', ...table]);
}

interface Costs {
  readonly totalMs: number | null;
  /** Length of the time that is shown, from its first run on; an hour or more. */
  readonly lastsMs: number;
  readonly cpuLimit: number | null;
}

function costColumns(
  rows: readonly MetricSeries[],
  { totalMs, lastsMs, cpuLimit }: Costs,
  { palette }: Screen,
): Column<MetricSeries>[] {
  const shareOf = ({ total }: MetricSeries): number | null =>
    total.cpuMs === null || !totalMs ? null : total.cpuMs / totalMs;
  const isOfWeek = lastsMs >= NEARLY_A_WEEK_MS;
  const cpuOf = ({ total }: MetricSeries): number | null =>
    total.cpuMs === null ? null : isOfWeek ? (total.cpuMs / lastsMs) * WEEK_MS : total.cpuMs;
  const ofLimit = ({ total }: MetricSeries): number | null =>
    total.cpuMs === null || cpuLimit === null ? null : total.cpuMs / (cpuLimit * lastsMs);
  const limit: Column<MetricSeries> = { title: 'of limit', text: (each) => formatRate(ofLimit(each)), align: 'right' };
  return [
    {
      title: 'script',
      text: ({ subject, kind }) => (kind === 'all' ? 'all' : printableLine(subject)),
      shrinks: { first: 20, last: 8 },
      isName: true,
    },
    ...figureColumns(rows, ({ total }) => total, palette),
    { title: isOfWeek ? 'cpu/week' : 'cpu', text: (each) => minutes(cpuOf(each)), align: 'right' },
    { title: 'share', text: (each) => formatRate(shareOf(each)), align: 'right', rank: 8 },
    ...(cpuLimit === null ? [] : [{ ...limit, rank: 6 }]),
    { title: '', text: (each) => (each.kind === 'all' ? '' : drawBar(shareOf(each))), paint: palette.live, rank: 1 },
  ];
}

/** One subject, period by period. */
export function renderPeriods(metrics: Metrics, subject: string, screen: Screen): string {
  const series = metrics.series.find((each) => each.subject === subject);
  const workers = metrics.workers.find(({ tier }) => tier === subject)?.buckets ?? [];
  const rows = joinPeriods(series?.buckets ?? [], workers);
  if (rows.length === 0) return renderEmpty(metrics, subject, screen);
  const table = drawTable(periodColumns(rows, metrics, screen), rows, screen);
  return toText([screen.palette.bold(printableLine(subject)), ...renderHead(metrics, [], screen), '', ...table]);
}

interface PeriodRow {
  readonly fromMs: number;
  readonly bucket: MetricBucket | null;
  readonly workers: WorkerBucket | null;
}

function joinPeriods(buckets: readonly MetricBucket[], workers: readonly WorkerBucket[]): PeriodRow[] {
  const begins = new Set([...buckets, ...workers].map(({ fromMs }) => fromMs));
  return [...begins]
    .sort((one, other) => one - other)
    .map((fromMs) => ({
      fromMs,
      bucket: buckets.find((each) => each.fromMs === fromMs) ?? null,
      workers: workers.find((each) => each.fromMs === fromMs) ?? null,
    }));
}

function periodColumns(rows: readonly PeriodRow[], { period }: Metrics, screen: Screen): Column<PeriodRow>[] {
  const { palette } = screen;
  const longest = Math.max(...rows.map(({ bucket }) => bucket?.runMs.sum ?? 0));
  const shareOf = ({ bucket }: PeriodRow) => (longest === 0 ? null : (bucket?.runMs.sum ?? 0) / longest);
  const isQueue = rows.some(({ bucket }) => (bucket?.added ?? 0) > 0 || bucket?.serviceMs.count);
  const hasWorkers = rows.some(({ workers }) => workers !== null);
  const queue: Column<PeriodRow>[] = [
    { title: 'added', text: ({ bucket }) => count(bucket?.added), align: 'right', rank: 7 },
    {
      title: 'service p95',
      text: ({ bucket }) => formatDuration(bucket?.serviceMs.p95 ?? null),
      align: 'right',
      rank: 5,
    },
    { title: 'waiting', text: ({ bucket }) => count(bucket?.waiting), align: 'right', rank: 6 },
  ];
  const used: Column<PeriodRow> = {
    ...{ title: 'used', text: ({ workers }) => formatRate(workers?.utilization ?? null), align: 'right', rank: 4 },
  };
  return [
    { title: period.endsWith('h') ? 'from (UTC)' : 'from', text: ({ fromMs }) => utcTime(fromMs, period) },
    ...figureColumns(rows, ({ bucket }) => bucket, palette),
    { title: 'cpu', text: ({ bucket }) => formatDuration(bucket?.cpuMs ?? null), align: 'right', rank: 9 },
    { title: 'memory', text: ({ bucket }) => formatBytes(bucket?.maxRssBytes ?? null), align: 'right', rank: 3 },
    { title: 'late', text: ({ bucket }) => formatDuration(bucket?.lateMs.max ?? null), align: 'right', rank: 2 },
    ...(isQueue ? queue : []),
    ...(hasWorkers ? [used] : []),
    { title: '', text: (each) => drawBar(shareOf(each)), paint: palette.live, rank: 1 },
  ];
}

function figureColumns<Row>(
  rows: readonly Row[],
  of: (row: Row) => MetricBucket | null,
  palette: Screen['palette'],
): Column<Row>[] {
  const warned: Column<Row> = {
    title: 'warned',
    text: (row) => count(of(row)?.warned),
    paint: (text, row) => ((of(row)?.warned ?? 0) > 0 ? palette.warning(text) : text),
    align: 'right',
  };
  return [
    { title: 'runs', text: (row) => count(of(row)?.ended), align: 'right' },
    {
      title: 'failed',
      text: (row) => count(of(row)?.failed),
      paint: (text, row) => ((of(row)?.failed ?? 0) > 0 ? palette.bad(text) : text),
      align: 'right',
    },
    ...(rows.some((row) => of(row)?.warned) ? [warned] : []),
    { title: 'p50', text: (row) => formatDuration(of(row)?.runMs.p50 ?? null), align: 'right', rank: 8 },
    { title: 'p95', text: (row) => formatDuration(of(row)?.runMs.p95 ?? null), align: 'right', rank: 9 },
    { title: 'max', text: (row) => formatDuration(of(row)?.runMs.max ?? null), align: 'right', rank: 7 },
  ];
}

function renderHead({ sinceMs, untilMs, period }: Metrics, more: readonly string[], screen: Screen): string[] {
  const until = untilMs > screen.nowMs ? 'now' : utcTime(untilMs, '1h');
  const parts = [`${utcTime(sinceMs, '1h')} to ${until}`, `by ${period}`, 'times in UTC', ...more];
  return joinFitting(parts, screen.columns).map(screen.palette.dim);
}

function renderEmpty(metrics: Metrics, subject: string | null, screen: Screen): string {
  const what = subject === null ? 'Nothing' : `Nothing of ${printableLine(subject)}`;
  const hint = '`--since 90d` looks further back; `npx folder-runner list` shows all scripts.';
  const said = `${what} has run since ${utcTime(metrics.sinceMs, '1h')} UTC.`;
  return toText([...wrap(said, screen.columns), ...wrap(hint, screen.columns).map(screen.palette.dim)]);
}

function byCost(one: MetricSeries, other: MetricSeries): number {
  const cost = ({ total }: MetricSeries) => total.cpuMs ?? -1;
  return cost(other) - cost(one) || (other.total.runMs.sum ?? 0) - (one.total.runMs.sum ?? 0);
}

/** In the zone in which periods begin. */
function utcTime(atMs: number, period: Metrics['period']): string {
  const text = new Date(atMs).toISOString();
  return period.endsWith('h') ? text.slice(0, 16).replace('T', ' ') : text.slice(0, 10);
}

const BAR_COLUMNS = 12;

/** Anything above zero is visible. */
function drawBar(share: number | null): string {
  if (!share) return '';
  return '█'.repeat(Math.max(1, Math.round(share * BAR_COLUMNS)));
}

function count(value: number | null | undefined): string {
  return value === null || value === undefined ? UNKNOWN : formatCount(value);
}

/** `12.5 min`, as hosts count it; what is less than one, in seconds. */
function minutes(ms: number | null): string {
  return ms === null || ms < 60_000 ? formatDuration(ms) : `${(ms / 60_000).toFixed(1)} min`;
}

function toText(lines: readonly string[]): string {
  return `${lines.join('\n')}\n`;
}
