import 'uplot/dist/uPlot.min.css';
import './charts.css';
import { useEffect, useRef, useState } from 'preact/hooks';
import uPlot from 'uplot';
import { type ChartSpec, chartData, chartOptions, type TimeRange } from './chart-options.ts';

interface TimeChartProps extends ChartSpec {
  /** Describes the chart for screen readers. */
  readonly label: string;
  /** Lines about a point: what it is first. */
  readonly describe: (index: number) => readonly string[];
  /** A part was chosen; null: all of it. */
  readonly onZoom: (range: TimeRange | null) => void;
  /** A point was clicked. Default: a click does nothing. */
  readonly onOpen?: ((index: number) => void) | undefined;
  /** Charts of one group share their cursor. */
  readonly group?: string;
  /** CSS pixels. Default: 200. */
  readonly height?: number;
}

interface Pointed {
  readonly index: number;
  readonly left: number;
}

/**
 * A chart over time. Dragging over a part shows it alone, a double click everything; arrow keys go from point to
 * point, Enter opens one. A tap reads a point, a second one opens it.
 */
export function TimeChart(props: TimeChartProps) {
  const place = useRef<HTMLDivElement>(null);
  const [pointed, setPointed] = useState<Pointed | null>(null);
  const chart = useChart(props, place, setPointed);
  const shown = pointed !== null && pointed.index < props.times.length ? pointed : null;
  return (
    <section
      class={`chart ${props.onOpen ? 'opens' : ''}`}
      // biome-ignore lint/a11y/noNoninteractiveTabindex: arrow keys go through its points
      tabIndex={0}
      aria-label={`${props.label}. Arrow keys go through its points.`}
      onKeyDown={(event) => walk(event, chart.current, props)}
      onBlur={() => setPointed(null)}
    >
      <div ref={place} class="chart-place" aria-hidden="true" />
      <div
        class={`chart-tip ${shown === null ? 'hidden' : ''}`}
        role="status"
        style={{ transform: `translateX(${tipLeft(shown?.left ?? 0, place.current)}px)` }}
      >
        {shown !== null && props.describe(shown.index).map((line) => <div key={line}>{line}</div>)}
      </div>
    </section>
  );
}

const TIP_WIDTH = 220;

/** Beside the cursor, on that side where there is room, and never outside of the chart. */
function tipLeft(left: number, place: HTMLElement | null): number {
  const axis = 64;
  const room = place?.clientWidth ?? 0;
  const beside = left > room / 2 ? axis + left - TIP_WIDTH - 16 : axis + left + 16;
  return Math.max(0, Math.min(beside, room - TIP_WIDTH));
}

/** One uPlot for as long as the chart has these series; what else changes is drawn into it. */
function useChart(
  props: TimeChartProps,
  place: { readonly current: HTMLDivElement | null },
  setPointed: (pointed: Pointed | null) => void,
) {
  const { times, series, marks, events, range, unit, group, height = 200 } = props;
  const latest = useRef(props);
  latest.current = props;
  const chart = useRef<uPlot | null>(null);
  const looks = series.map(({ label, look, color }) => `${label} ${look} ${color}`).join();
  useEffect(() => {
    const element = place.current as HTMLDivElement;
    const listeners = {
      point: (index: number | null, left: number) => setPointed(index === null || left < 0 ? null : { index, left }),
      zoom: (zoomed: TimeRange | null) => latest.current.onZoom(zoomed),
      open: (index: number) => latest.current.onOpen?.(index),
    };
    const options = chartOptions(() => latest.current, listeners, { width: element.clientWidth, height, group });
    const made = new uPlot(options, chartData(latest.current), element);
    chart.current = made;
    const resized = new ResizeObserver(() => made.setSize({ width: element.clientWidth, height }));
    resized.observe(element);
    const stopWatching = watchColors(() => made.redraw(false));
    return () => {
      stopWatching();
      resized.disconnect();
      made.destroy();
      chart.current = null;
    };
  }, [looks, unit, group, height]);
  useEffect(
    () => chart.current?.setData(chartData(props)),
    [times, series, marks, events, range.fromMs, range.untilMs],
  );
  return chart;
}

/** Light or dark: as the system has it, or as the page was told. */
function watchColors(changed: () => void): () => void {
  const scheme = matchMedia('(prefers-color-scheme: dark)');
  scheme.addEventListener('change', changed);
  const told = new MutationObserver(changed);
  told.observe(document.documentElement, { attributes: true });
  return () => {
    scheme.removeEventListener('change', changed);
    told.disconnect();
  };
}

const steps: Readonly<Record<string, number>> = { ArrowLeft: -1, ArrowRight: 1 };

function walk(event: KeyboardEvent, chart: uPlot | null, { times, range, onOpen, onZoom }: TimeChartProps): void {
  if (chart === null) return;
  const { idx } = chart.cursor;
  if (event.key === 'Escape') onZoom(null);
  else if (event.key === 'Enter' && typeof idx === 'number') onOpen?.(idx);
  const step = steps[event.key];
  if (step === undefined) return;
  event.preventDefault();
  const shown = times.flatMap((at, index) => (at >= range.fromMs && at <= range.untilMs ? [index] : []));
  const now = typeof idx === 'number' ? shown.indexOf(idx) : -1;
  const next = shown[now === -1 ? shown.length - 1 : Math.min(shown.length - 1, Math.max(0, now + step))];
  if (next === undefined) return;
  chart.setCursor({ left: chart.valToPos(times[next] as number, 'x'), top: chart.over.clientHeight / 2 });
}
