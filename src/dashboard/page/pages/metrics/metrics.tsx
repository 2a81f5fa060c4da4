import './metrics.css';
import { useMemo, useState } from 'preact/hooks';
import { formatBytes, formatCount, formatDuration } from '../../../../system/base/format.ts';
import type { components } from '../../../client/paths.ts';
import type { ChartSeries, ChartSpec, TimeRange } from '../../charts/chart-options.ts';
import { RangeButtons } from '../../charts/range-buttons.tsx';
import type { TickUnit } from '../../charts/ticks.ts';
import { TimeChart } from '../../charts/time-chart.tsx';
import { Choice } from '../../components/fields.tsx';
import { Answered, Empty } from '../../components/notice.tsx';
import { FigureItem, FigureList, Page, Section } from '../../components/page.tsx';
import { Table, type TableColumn } from '../../components/table.tsx';
import { writeInstant } from '../../components/time.tsx';
import { useAnswer } from '../../data.ts';
import { hrefOf, place, setQuery } from '../../router.ts';
import { type Plot, plotAll } from './plots.ts';

type Metrics = components['schemas']['Metrics'];

type MetricBucket = components['schemas']['MetricBucket'];

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;

/** How far back, and in periods of which length. */
const spans = {
  '6h': { words: '6 hours', period: '1h', lengthMs: HOUR_MS },
  '24h': { words: 'Day', period: '1h', lengthMs: HOUR_MS },
  '7d': { words: 'Week', period: '6h', lengthMs: 6 * HOUR_MS },
  '30d': { words: 'Month', period: '1d', lengthMs: DAY_MS },
  '90d': { words: '3 months', period: '1d', lengthMs: DAY_MS },
  '365d': { words: 'Year', period: '1w', lengthMs: 7 * DAY_MS },
} as const;

type SpanName = keyof typeof spans;

const ranges = Object.entries(spans).map(([name, { words }]) => [name as SpanName, words] as const);

/** What happened by hour, day or week: of everything, a tier, the queue or a script. */
export function MetricsPage() {
  const { since = '', of = '*' } = place.value.query;
  const name: SpanName = since in spans ? (since as SpanName) : '7d';
  const { period, lengthMs } = spans[name];
  const asked = useAnswer('/api/metrics/{period}', { params: { path: { period }, query: { since: name } } });
  return (
    <Page title="Metrics">
      <div class="bar">
        <RangeButtons ranges={ranges} chosen={name} onChoose={(since) => setQuery({ since })} />
        <SubjectChoice metrics={asked.data} of={of} />
      </div>
      <Answered asked={asked}>{(metrics) => <Told metrics={metrics} of={of} lengthMs={lengthMs} />}</Answered>
      <JobStates />
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
              {...{ unit, times, series }}
              {...{ marks: none, events: none, group: 'metrics', height: 160 }}
              range={zoom ?? whole}
              describe={(index) => [
                writeInstant(times[index] as number),
                ...series.map((each) => say(each, unit, index)),
              ]}
              onZoom={setZoom}
            />
            <Values {...{ title, unit, series, times }} />
          </figure>
        ))}
      </div>
    </Section>
  );
}

/** The same for those who read rather than look, the newest first. */
function Values({ title, unit, series, times }: Pick<Plot, 'title' | 'unit' | 'series'> & Pick<ChartSpec, 'times'>) {
  const [isOpen, setOpen] = useState(false);
  const columns: TableColumn<number>[] = [
    {
      title: 'From',
      cell: (index) => writeInstant(times[index] as number),
      sortBy: (index) => index,
      onPhone: 'title',
    },
    ...series.map(({ label, values }) => ({
      title: label,
      cell: (index: number) => formats[unit](values[index] ?? null),
      sortBy: (index: number) => values[index] ?? null,
      isNumber: true,
    })),
  ];
  return (
    <details onToggle={({ currentTarget }) => setOpen(currentTarget.open)}>
      <summary>As a table</summary>
      {isOpen && (
        <Table caption={title} columns={columns} rows={[...times.keys()].reverse()} keyOf={(index) => index} />
      )}
    </details>
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

const none: readonly never[] = [];

const formats: Readonly<Record<TickUnit, (value: number | null) => string>> = {
  ms: formatDuration,
  bytes: formatBytes,
  count: (value) => (value === null ? '–' : String(Math.round(value * 100) / 100)),
  share: (value) => (value === null ? '–' : `${Math.round(value * 100)} %`),
};

function say({ label, values }: ChartSeries, unit: TickUnit, index: number): string {
  return `${label}: ${formats[unit](values[index] ?? null)}`;
}

const states = ['ready', 'delayed', 'running', 'retrying', 'paused', 'failed', 'finished', 'cancelled'] as const;

/** How many jobs of the queue are in which state now. */
function JobStates() {
  const { data } = useAnswer('/api/jobs/counts', {});
  const counts = states.map((state) => {
    const count = (data?.items ?? []).reduce((sum, each) => sum + (each[state] ?? 0), 0);
    return { state, count };
  });
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
                <meter min={0} max={most} value={count} aria-hidden="true" />
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
      title: 'Script',
      isName: true,
      cell: ({ subject }) => (
        <a href={hrefOf('/scripts', subject)}>
          <bdi>{subject}</bdi>
        </a>
      ),
      sortBy: ({ subject }) => subject,
      onPhone: 'title',
    },
    number('CPU time', ({ total }) => total.cpuMs, formatDuration),
    number('Share', shareOf, (share) => (share === null ? '–' : `${Math.round(share * 100)} %`)),
    number('Runs', ({ total }) => total.ended, formatCount),
    number('Failed', ({ total }) => total.failed, formatCount),
    number('Warned', ({ total }) => total.warned, formatCount),
    number('Median', ({ total }) => total.runMs.p50, formatDuration),
    number('p95', ({ total }) => total.runMs.p95, formatDuration),
    number('Memory', ({ total }) => total.maxRssBytes, formatBytes),
  ];
}

/** Of a figure that is always known, the type says so: its format needs no word for what is not. */
function number<V extends number | null>(title: string, read: (series: Series) => V, format: (value: V) => string) {
  return { title, cell: (series: Series) => format(read(series)), sortBy: read, isNumber: true };
}
