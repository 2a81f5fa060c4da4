import { useMemo, useState } from 'preact/hooks';
import { formatBytes, formatCount, formatDuration, formatRate } from '../../../system/base/format.ts';
import type { components } from '../../client/paths.ts';
import type { ChartSeries, ChartSpec, TickUnit, TimeRange } from '../charts/chart-options.ts';
import { TimeChart } from '../charts/time-chart.tsx';
import { Choice, SpanButtons, type TimeSpan, timeSpans } from '../components/fields.tsx';
import { Answered, Empty, FigureItem, FigureList, Page, Section, Unfolded } from '../components/page.tsx';
import { toneOfState } from '../components/state.tsx';
import { figureColumn, nameInAddress, Table, type TableColumn } from '../components/table.tsx';
import { ScriptLink } from '../components/text.tsx';
import { serverNow, writeInstant } from '../components/time.tsx';
import { isStatic, useQuery } from '../data.ts';
import { place, setQuery } from '../router.ts';
import { stateKeys } from './queue/counts.tsx';

type Metrics = components['schemas']['Metrics'];

type MetricBucket = components['schemas']['MetricBucket'];

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;

/** Lengths of the periods that figures are summed up in. */
const periods = {
  '1h': HOUR_MS,
  '6h': 6 * HOUR_MS,
  '1d': DAY_MS,
  '1w': 7 * DAY_MS,
} as const;

const periodOf: Readonly<Record<TimeSpan, keyof typeof periods>> = {
  '6h': '1h',
  '24h': '1h',
  '7d': '6h',
  '30d': '1d',
  '90d': '1d',
  '365d': '1w',
};

/** Figures by hour, day or week: of everything, a tier, the queue or a script. */
export function MetricsPage() {
  const { since = '', of = '*' } = place.value.query;
  const span: TimeSpan = since in timeSpans ? (since as TimeSpan) : '7d';
  const period = periodOf[span];
  // A report was asked for the periods of each.
  const query = { since: span, ...(!isStatic && { buckets: of }) };
  const asked = useQuery('/api/metrics/{period}', { params: { path: { period }, query } });
  return (
    <Page title="Metrics">
      <div class="bar">
        <SpanButtons chosen={span} onChoose={(chosen) => setQuery({ since: chosen })} />
        <SubjectChoice metrics={asked.data} of={of} />
      </div>
      <Answered asked={asked}>{(metrics) => <Told metrics={metrics} of={of} lengthMs={periods[period]} />}</Answered>
      {asked.data !== null && <JobStates jobs={asked.data.jobs} />}
    </Page>
  );
}

function SubjectChoice({ metrics, of }: { readonly metrics: Metrics | null; readonly of: string }) {
  const subjects = (metrics?.series ?? []).map(({ subject }) => subject).filter((subject) => subject !== '*');
  const known = subjects.includes(of) || of === '*' ? subjects : [of, ...subjects];
  const options = [['*', 'everything'] as const, ...known.map((subject) => [subject, subject] as const)];
  return (
    <Choice
      label="Of"
      value={of}
      options={options}
      onChange={(value) => setQuery({ of: value === '*' ? null : value })}
    />
  );
}

interface ToldProps {
  readonly metrics: Metrics;
  readonly of: string;
  readonly lengthMs: number;
}

function Told({ metrics, of, lengthMs }: ToldProps) {
  const series = metrics.series.find(({ subject }) => subject === of);
  if (series === undefined) return <Empty title="Nothing happened in this time." />;
  return (
    <>
      <Totals total={series.total} />
      <Charts metrics={metrics} of={of} lengthMs={lengthMs} />
      {of === '*' && <Costs metrics={metrics} />}
    </>
  );
}

function Totals({ total }: { readonly total: MetricBucket }) {
  return (
    <FigureList>
      <FigureItem label="Runs">{formatCount(total.ended)}</FigureItem>
      <FigureItem label="Failed for good">{formatCount(total.failed)}</FigureItem>
      {total.warned > 0 && <FigureItem label="With a warning">{formatCount(total.warned)}</FigureItem>}
      <FigureItem label="Run time, p95">{formatDuration(total.runMs.p95)}</FigureItem>
      <FigureItem label="CPU time">{formatDuration(total.cpuMs)}</FigureItem>
      <FigureItem label="Most memory">{formatBytes(total.maxRssBytes)}</FigureItem>
      {total.added > 0 && <FigureItem label="Jobs added">{formatCount(total.added)}</FigureItem>}
      {total.serviceMs.count > 0 && (
        <FigureItem label="Service time, mean">{formatDuration(total.serviceMs.mean)}</FigureItem>
      )}
    </FigureList>
  );
}

/** Several small charts with one cursor; what one of them is zoomed to, all are. */
function Charts({ metrics, of, lengthMs }: ToldProps) {
  const [zoom, setZoom] = useState<TimeRange | null>(null);
  const { times, plots } = useMemo(() => plotAll(metrics, of, lengthMs), [metrics, of, lengthMs]);
  const whole = { fromMs: Date.parse(metrics.since ?? ''), untilMs: Date.parse(metrics.until ?? '') };
  const isOpenEnded = whole.untilMs > serverNow.peek();
  const nameOf = (index: number) =>
    `${writeInstant(times[index] as number)}${isOpenEnded && index === times.length - 1 ? ', so far' : ''}`;
  return (
    <Section
      title={zoom === null ? 'Over time' : 'A part of the time'}
      aside={
        zoom !== null && (
          <button type="button" onClick={() => setZoom(null)}>
            Show all again
          </button>
        )
      }
    >
      <div class="small-charts">
        {plots.map(({ title, what, unit, series }) => (
          <figure key={title} class="card">
            <figcaption>
              <h3>{title}</h3>
              <p class="quiet small">{what}</p>
              {series.length > 1 && <Keys series={series} />}
            </figcaption>
            <TimeChart
              label={`${title}: ${what}`}
              {...{ unit, times, series, isOpenEnded }}
              {...{ range: zoom ?? whole, group: 'metrics', height: 160 }}
              describe={(index) => [nameOf(index), ...series.map((each) => say(each, unit, index))]}
              onZoom={setZoom}
            />
            <Values {...{ title, unit, series, times, nameOf }} />
          </figure>
        ))}
      </div>
    </Section>
  );
}

interface ValuesProps extends Omit<Plot, 'what'>, Pick<ChartSpec, 'times'> {
  /** When a period began, and whether it is over. */
  readonly nameOf: (index: number) => string;
}

/** The same for those who read rather than look, the newest first. */
function Values({ title, unit, series, times, nameOf }: ValuesProps) {
  const from: TableColumn<number> = {
    ...{ title: 'From', onPhone: 'title' },
    cell: nameOf,
    sortBy: (index) => index,
  };
  const columns = [
    from,
    ...series.map(({ label, values }) => figureColumn(label, (at: number) => values[at] ?? null, formats[unit])),
  ];
  return (
    <Unfolded summary="As a table">
      {() => (
        <Table
          caption={title}
          columns={columns}
          rows={[...times.keys()].reverse()}
          keyOf={(index) => index}
          sortName={`sort-${nameInAddress(title)}`}
        />
      )}
    </Unfolded>
  );
}

/** Which line is which: by its colour, and by how it is drawn. */
function Keys({ series }: Pick<Plot, 'series'>) {
  return (
    <p class="chart-keys small">
      {series.map(({ label, color, look }, index) => (
        <span key={label}>
          <i class={look === 'bars' ? 'key-bar' : `key-line key-line-${index}`} style={{ '--key': `var(${color})` }} />
          {label}
        </span>
      ))}
    </p>
  );
}

const formats: Readonly<Record<TickUnit, (value: number | null) => string>> = {
  ms: formatDuration,
  bytes: formatBytes,
  count: (value) => (value === null ? '–' : String(Math.round(value * 100) / 100)),
  share: formatRate,
};

function say({ label, values }: ChartSeries, unit: TickUnit, index: number): string {
  return `${label}: ${formats[unit](values[index] ?? null)}`;
}

/** How many jobs of the queue are in which state now. */
function JobStates({ jobs }: Pick<Metrics, 'jobs'>) {
  const counts = stateKeys.map((state) => ({ state, count: jobs[state] }));
  const most = Math.max(...counts.map(({ count }) => count));
  if (most === 0) return null;
  return (
    <Section title="Jobs by state, now">
      <table class="job-states">
        <tbody>
          {counts.map(({ state, count }) => (
            <tr key={state}>
              <th scope="row">{state}</th>
              <td>
                <meter class={toneOfState(state)} min={0} max={most} value={count} aria-hidden="true" />
              </td>
              <td class="number">{formatCount(count)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </Section>
  );
}

type Series = Metrics['series'][number];

/** Which scripts need most of the machine. */
function Costs({ metrics }: { readonly metrics: Metrics }) {
  const scripts = metrics.series.filter(({ kind }) => kind === 'script');
  const allMs = metrics.series.find(({ subject }) => subject === '*')?.total.cpuMs ?? null;
  if (scripts.length === 0) return null;
  return (
    <Section title="What costs most">
      <Table
        caption="Scripts and handlers with what they cost"
        columns={columnsOf(allMs)}
        rows={scripts}
        keyOf={({ subject }) => subject}
        sorting={{ title: 'CPU time', isDescending: true }}
      />
    </Section>
  );
}

function columnsOf(allMs: number | null): readonly TableColumn<Series>[] {
  const shareOf = ({ total: { cpuMs } }: Series): number | null => (cpuMs === null || !allMs ? null : cpuMs / allMs);
  return [
    {
      ...{ title: 'Script', isName: true, onPhone: 'title' },
      cell: ({ subject }) => <ScriptLink name={subject} />,
      sortBy: ({ subject }) => subject,
    },
    figureColumn('CPU time', ({ total }) => total.cpuMs, formatDuration),
    figureColumn('Share', shareOf, formats.share),
    figureColumn('Runs', ({ total }) => total.ended, formatCount),
    figureColumn('Failed', ({ total }) => total.failed, formatCount),
    figureColumn('Warned', ({ total }) => total.warned, formatCount, 3),
    figureColumn('Median', ({ total }) => total.runMs.p50, formatDuration),
    figureColumn('p95', ({ total }) => total.runMs.p95, formatDuration),
    figureColumn('Memory', ({ total }) => total.maxRssBytes, formatBytes),
  ];
}

type WorkerBucket = components['schemas']['WorkerBucket'];

/** One small chart. */
interface Plot {
  readonly title: string;
  readonly what: string;
  readonly unit: TickUnit;
  readonly series: readonly ChartSeries[];
}

/** Each period in order; undefined: nothing happened in it. */
type Found<Bucket> = readonly (Bucket | undefined)[];

/** All periods of the time, also those in which nothing happened: a count is 0 then, all else is a gap. */
function plotAll({ since, until, series, workers }: Metrics, of: string, lengthMs: number) {
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
    counts('ended', '--accent', ({ ended }) => ended),
    counts('failed for good', '--bad', ({ failed }) => failed),
  ];
  const runTime = [
    line('median', '--accent', ({ runMs }) => runMs.p50),
    line('95th percentile', '--warning', ({ runMs }) => runMs.p95),
  ];
  const lateness = [
    line('mean', '--accent', ({ lateMs }) => lateMs.mean),
    line('longest', '--warning', ({ lateMs }) => lateMs.max),
  ];
  const cpu = bars('CPU time', '--good', ({ cpuMs }) => cpuMs);
  const memory = bars('highest peak', '--paused', ({ maxRssBytes }) => maxRssBytes);
  return [
    plot('Throughput', 'runs that ended, and jobs that failed for good', 'count', ...throughput),
    plot('Run time', 'median and 95th percentile of each period', 'ms', ...runTime),
    plot('CPU time', 'of all runs together', 'ms', cpu),
    plot('Memory', 'the highest peak of a run', 'bytes', memory),
    plot('Lateness', 'from when runs were due until they began', 'ms', ...lateness),
  ];
}

/** Plots for jobs of the queue only. */
function plotService(found: Found<MetricBucket>): Plot[] {
  if (!found.some((bucket) => bucket !== undefined && bucket.serviceMs.count > 0)) return [];
  const line = reader(found, 'line', null);
  const service = [
    line('mean', '--accent', ({ serviceMs }) => serviceMs.mean),
    line('shortest', '--good', ({ serviceMs }) => serviceMs.min),
    line('longest', '--warning', ({ serviceMs }) => serviceMs.max),
  ];
  const waiting = reader(found, 'area', null)('waiting', '--warning', (bucket) => bucket.waiting);
  return [
    plot('Service time', 'of jobs, from when they were added until they were done', 'ms', ...service),
    plot('Waiting jobs', 'that were due at the end of an hour, at most', 'count', waiting),
  ];
}

/** Plots the highest figure of any of several tiers. */
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
    plot('Utilization', busy, 'share', { label: 'utilization', color: '--paused', look: 'area', values: utilization }),
    plot(
      'Jobs of a worker',
      'finished or failed in an hour: on average, and the most',
      'count',
      { label: 'mean', color: '--accent', look: 'line', values: mean },
      { label: 'most', color: '--warning', look: 'line', values: most },
    ),
  ];
}
