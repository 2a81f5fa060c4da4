import { useEffect, useMemo, useState } from 'preact/hooks';
import { countOf, formatBytes, formatDuration } from '../../../../system/base/format.ts';
import type { components } from '../../../client/paths.ts';
import type { ChartEvent, Mark, TimeRange } from '../../charts/chart-options.ts';
import { TimeChart } from '../../charts/time-chart.tsx';
import { SpanButtons, type TimeSpan, timeSpans } from '../../components/fields.tsx';
import { Loading, Notice, Unfolded } from '../../components/page.tsx';
import { isFailedRun, State, wordsOfState } from '../../components/state.tsx';
import { figureColumn, Table, type TableColumn } from '../../components/table.tsx';
import { RunLink } from '../../components/text.tsx';
import { serverNow, Time, writeInstant } from '../../components/time.tsx';
import { useList } from '../../data.ts';
import { hrefOf, place, setQuery } from '../../router.ts';

/** More runs than that nobody tells apart on a screen. */
const MOST_RUNS = 3000;

/** How its runs did, over as much time as is asked for. */
export function HistorySection({ script }: { readonly script: string }) {
  const { charts = '' } = place.value.query;
  const since: TimeSpan = charts in timeSpans ? (charts as TimeSpan) : '30d';
  const [zoom, setZoom] = useState<TimeRange | null>(null);
  const { items: runs, problem, more } = useList('/api/runs', { script, since, limit: 500 }, true);
  const count = runs?.length ?? 0;
  useEffect(() => {
    if (more !== null && count < MOST_RUNS) more();
  }, [count, more === null]);
  const range = useRange(runs, timeSpans[since].lengthMs);
  const choose = (chosen: TimeSpan) => {
    setQuery({ charts: chosen });
    setZoom(null);
  };
  return (
    <>
      <div class="bar">
        <SpanButtons chosen={since} onChoose={choose} />
        {(runs?.length ?? 0) >= 2 && (
          <span class="quiet small">Drag over a part to see it alone; a double click shows all again.</span>
        )}
      </div>
      {problem !== null && <Notice tone="bad" title={problem} />}
      {runs === null && problem === null && <Loading />}
      {runs !== null && runs.length < 2 && <p class="quiet">There are too few runs in this time for a chart.</p>}
      {runs !== null && runs.length >= 2 && <RunCharts runs={runs} range={range} zoom={zoom} onZoom={setZoom} />}
      {more !== null && count >= MOST_RUNS && <p>Only its newest {countOf(count, 'run')} of that time are shown.</p>}
    </>
  );
}

/** A range that few runs fill, too; it does not move with each second. */
function useRange(runs: readonly { readonly startedAt: string | null }[] | null, lengthMs: number): TimeRange {
  return useMemo(() => {
    const times = (runs ?? []).flatMap(({ startedAt }) => (startedAt === null ? [] : [Date.parse(startedAt)]));
    const untilMs = serverNow.peek();
    const first = Math.min(...times, untilMs);
    const fromMs = Math.max(untilMs - lengthMs, Math.min(first, untilMs - 60_000));
    // Ticks fall on whole milliseconds: a fraction would put midnight into the day before.
    const margin = Math.round((untilMs - fromMs) * 0.02);
    return { fromMs: fromMs - margin, untilMs: untilMs + margin };
  }, [runs, lengthMs]);
}

type ChartRun = components['schemas']['ToldRun'];

interface RunChartsProps {
  /** In any order. */
  readonly runs: readonly ChartRun[];
  readonly range: TimeRange;
  /** Null: none of it was chosen, all is shown. */
  readonly zoom: TimeRange | null;
  readonly onZoom: (range: TimeRange | null) => void;
}

/** How long runs took and how much memory they had: failed and unusual ones marked, and when the script changed. */
function RunCharts({ runs, range, zoom, onZoom }: RunChartsProps) {
  const shown = zoom ?? range;
  const points = useMemo(() => readPoints(runs), [runs]);
  const durations = useSeries('Duration', '--accent', points, 'durationMs');
  const memory = useSeries('Memory', '--paused', points, 'maxRssBytes');
  const open = (index: number) => location.assign(hrefOf('/runs', points.runs[index]?.id));
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
  return [`Run ${run.id} · ${wordsOfState(run.outcome)}`, writeInstant(timeOf(run)), figures, ...run.unusual];
}

/** Explains the marks, and counts those that are shown. */
function Legend({ points, range }: { readonly points: Points; readonly range: TimeRange }) {
  const isShown = isWithin(range);
  const countMarks = (kind: Mark['kind']) =>
    points.marks.filter((mark) => mark.kind === kind && isShown(points.runs[mark.index] as ChartRun)).length;
  const changed = points.events.filter(({ atMs }) => atMs >= range.fromMs && atMs <= range.untilMs).length;
  const keys = [
    ['●', '--accent', countOf(points.runs.filter(isShown).length, 'run')],
    ['✕', '--bad', `${countMarks('failed')} failed`],
    ['▲', '--warning', `${countMarks('unusual')} unusual`],
    ['┆', '--quiet', countOf(changed, 'change of the script', 'changes of the script')],
  ] as const;
  return (
    <p class="chart-legend" role="status">
      {keys.map(([mark, color, words]) => (
        <span key={mark}>
          <i class="mark" style={{ '--key': `var(${color})` }}>
            {mark}
          </i>{' '}
          {words}
        </span>
      ))}
    </p>
  );
}

const MOST_ROWS = 500;

const columns: readonly TableColumn<ChartRun>[] = [
  {
    ...{ title: 'Run', isNumber: true, onPhone: 'title' },
    cell: ({ id }) => <RunLink id={id}>{id}</RunLink>,
    sortBy: ({ id }) => id,
  },
  { title: 'Started', cell: ({ startedAt }) => <Time at={startedAt} as="whole" />, sortBy: timeOf },
  { title: 'Outcome', cell: ({ outcome }) => <State state={outcome} />, sortBy: ({ outcome }) => outcome },
  figureColumn('Duration', ({ durationMs }) => durationMs, formatDuration),
  figureColumn('Memory', ({ maxRssBytes }) => maxRssBytes, formatBytes),
  { title: 'Unusual', cell: ({ unusual }) => unusual.join('; ') },
];

/** The same for those who read rather than look. */
function RunTable({ runs }: { readonly runs: readonly ChartRun[] }) {
  return (
    <Unfolded summary="These runs as a table">
      {() => (
        <>
          <Table
            caption="The runs that the charts show"
            columns={columns}
            rows={runs.slice(-MOST_ROWS).reverse()}
            keyOf={({ id }) => id}
            sortName="sort-charts"
          />
          {runs.length > MOST_ROWS && <p>The newest {MOST_ROWS} of them.</p>}
        </>
      )}
    </Unfolded>
  );
}
