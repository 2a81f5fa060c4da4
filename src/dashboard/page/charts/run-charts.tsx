import { useMemo, useState } from 'preact/hooks';
import { countOf, formatBytes, formatDuration } from '../../../system/base/format.ts';
import type { components } from '../../client/paths.ts';
import { isFailedRun, State } from '../components/state.tsx';
import { Table, type TableColumn } from '../components/table.tsx';
import { Time, writeInstant } from '../components/time.tsx';
import { hrefOf } from '../router.ts';
import type { ChartEvent, Mark, TimeRange } from './chart-options.ts';
import { TimeChart } from './time-chart.tsx';

/** What the charts tell of a run. */
export interface ChartRun {
  readonly id: number;
  readonly outcome: components['schemas']['Outcome'];
  readonly startedAt: string | null;
  readonly durationMs: number | null;
  readonly maxRssBytes: number | null;
  readonly contentHash: string | null;
  /** In what it was unusual. */
  readonly unusual: readonly string[];
}

interface RunChartsProps {
  /** In any order. */
  readonly runs: readonly ChartRun[];
  readonly range: TimeRange;
  /** Null: none of it was chosen, all is shown. */
  readonly zoom: TimeRange | null;
  readonly onZoom: (range: TimeRange | null) => void;
  readonly onOpen: (run: number) => void;
}

/** How long runs took and how much memory they had: failed and unusual ones marked, and when the script changed. */
export function RunCharts({ runs, range, zoom, onZoom, onOpen }: RunChartsProps) {
  const shown = zoom ?? range;
  const points = useMemo(() => readPoints(runs), [runs]);
  const durations = useSeries('Duration', '--chart-1', points, 'durationMs');
  const memory = useSeries('Memory', '--chart-2', points, 'maxRssBytes');
  const open = (index: number) => onOpen((points.runs[index] as ChartRun).id);
  const shared = {
    ...{ times: points.times, marks: points.marks, events: points.events, range: shown, group: 'runs' },
    ...{ onZoom, onOpen: open, describe: (index: number) => describeRun(points.runs[index]) },
  };
  return (
    <div class="run-charts">
      <h3>Duration</h3>
      <TimeChart {...shared} label="How long each run took" unit="ms" series={durations} />
      <h3>Memory</h3>
      <TimeChart {...shared} label="The most memory that each run had" unit="bytes" series={memory} height={150} />
      <Legend points={points} range={shown} />
      {zoom !== null && (
        <button type="button" onClick={() => onZoom(null)}>
          Show all again
        </button>
      )}
      <RunTable runs={points.runs.filter(isWithin(shown))} />
    </div>
  );
}

interface Points {
  readonly runs: readonly ChartRun[];
  readonly times: readonly number[];
  readonly marks: readonly Mark[];
  readonly events: readonly ChartEvent[];
}

function readPoints(all: readonly ChartRun[]): Points {
  const runs = all.filter(({ startedAt }) => startedAt !== null).sort((one, other) => timeOf(one) - timeOf(other));
  const marks = runs.flatMap((run, index): Mark[] => {
    if (isFailedRun(run.outcome)) return [{ index, kind: 'failed' }];
    return run.unusual.length > 0 ? [{ index, kind: 'unusual' }] : [];
  });
  return { runs, times: runs.map(timeOf), marks, events: findChanges(runs) };
}

/** Those runs that were the first with another content. */
function findChanges(runs: readonly ChartRun[]): ChartEvent[] {
  let known: string | null = null;
  const changes: ChartEvent[] = [];
  for (const run of runs) {
    if (run.contentHash === null) continue;
    if (known !== null && known !== run.contentHash) {
      changes.push({ atMs: timeOf(run), label: `changed ${run.contentHash.slice(0, 7)}` });
    }
    known = run.contentHash;
  }
  return changes;
}

function timeOf({ startedAt }: ChartRun): number {
  return Date.parse(startedAt ?? '');
}

function isWithin({ fromMs, untilMs }: TimeRange): (run: ChartRun) => boolean {
  return (run) => timeOf(run) >= fromMs && timeOf(run) <= untilMs;
}

function useSeries(label: string, color: `--${string}`, { runs }: Points, key: 'durationMs' | 'maxRssBytes') {
  return useMemo(() => [{ label, color, look: 'dots', values: runs.map((run) => run[key]) } as const], [runs]);
}

function describeRun(run: ChartRun | undefined): string[] {
  if (run === undefined) return [];
  const figures = `${formatDuration(run.durationMs)} · ${formatBytes(run.maxRssBytes)}`;
  return [`Run ${run.id} · ${run.outcome}`, writeInstant(timeOf(run)), figures, ...run.unusual];
}

/** What the marks mean, with how many of them are shown. */
function Legend({ points, range }: { readonly points: Points; readonly range: TimeRange }) {
  const isShown = isWithin(range);
  const countMarks = (kind: Mark['kind']) =>
    points.marks.filter((mark) => mark.kind === kind && isShown(points.runs[mark.index] as ChartRun)).length;
  const changed = points.events.filter(({ atMs }) => atMs >= range.fromMs && atMs <= range.untilMs).length;
  return (
    <p class="chart-legend" role="status">
      <span>
        <i class="key key-run" /> {countOf(points.runs.filter(isShown).length, 'run')}
      </span>
      <span>
        <i class="key key-failed">✕</i> {countMarks('failed')} failed
      </span>
      <span>
        <i class="key key-unusual">▲</i> {countMarks('unusual')} unusual
      </span>
      <span>
        <i class="key key-event">┆</i> {countOf(changed, 'change of the script', 'changes of the script')}
      </span>
    </p>
  );
}

const MOST_ROWS = 500;

const columns: readonly TableColumn<ChartRun>[] = [
  {
    title: 'Run',
    cell: ({ id }) => <a href={hrefOf('/runs', id)}>{id}</a>,
    sortBy: ({ id }) => id,
    isNumber: true,
    onPhone: 'title',
  },
  { title: 'Started', cell: ({ startedAt }) => <Time at={startedAt} as="whole" />, sortBy: timeOf },
  { title: 'Outcome', cell: ({ outcome }) => <State state={outcome} />, sortBy: ({ outcome }) => outcome },
  {
    title: 'Duration',
    cell: ({ durationMs }) => formatDuration(durationMs),
    sortBy: ({ durationMs }) => durationMs,
    isNumber: true,
  },
  {
    title: 'Memory',
    cell: ({ maxRssBytes }) => formatBytes(maxRssBytes),
    sortBy: ({ maxRssBytes }) => maxRssBytes,
    isNumber: true,
  },
  { title: 'Unusual', cell: ({ unusual }) => unusual.join('; ') },
];

/** The same for those who read rather than look. */
function RunTable({ runs }: { readonly runs: readonly ChartRun[] }) {
  const [isOpen, setOpen] = useState(false);
  return (
    <details onToggle={({ currentTarget }) => setOpen(currentTarget.open)}>
      <summary>These runs as a table</summary>
      {isOpen && (
        <Table
          caption="The runs that the charts show"
          columns={columns}
          rows={runs.slice(-MOST_ROWS).reverse()}
          keyOf={({ id }) => id}
        />
      )}
      {isOpen && runs.length > MOST_ROWS && <p>The newest {MOST_ROWS} of them.</p>}
    </details>
  );
}
