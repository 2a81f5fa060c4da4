import uPlot from 'uplot';
import { formatTick, type TickUnit, tickSteps, timeTicks } from './ticks.ts';

/** How values look: `dots` are single runs, `steps` are figures of whole periods. */
export type Look = 'line' | 'area' | 'dots' | 'bars';

export interface ChartSeries {
  readonly label: string;
  /** A colour of the style: `--chart-1`. */
  readonly color: `--${string}`;
  readonly look: Look;
  /** Null: unknown, a gap. */
  readonly values: readonly (number | null)[];
}

/** A point that is told from others by its shape: a cross has failed, a triangle is unusual. */
export interface Mark {
  readonly index: number;
  readonly kind: 'failed' | 'unusual';
}

/** Something that happened between points: a vertical line. */
export interface ChartEvent {
  readonly atMs: number;
  readonly label: string;
}

/** UTC epoch milliseconds. */
export interface TimeRange {
  readonly fromMs: number;
  readonly untilMs: number;
}

export interface ChartSpec {
  readonly unit: TickUnit;
  /** UTC epoch milliseconds, ascending. */
  readonly times: readonly number[];
  readonly series: readonly ChartSeries[];
  readonly marks: readonly Mark[];
  readonly events: readonly ChartEvent[];
  readonly range: TimeRange;
}

export interface ChartListeners {
  /** The point under the cursor; null: none is. */
  readonly point: (index: number | null, left: number) => void;
  readonly zoom: (range: TimeRange | null) => void;
  readonly open: (index: number) => void;
}

interface Place {
  readonly width: number;
  readonly height: number;
  /** Charts of one group share their cursor. */
  readonly group: string | undefined;
}

/** What uPlot is told; asked anew for the spec whenever something is drawn. */
export function chartOptions(spec: () => ChartSpec, listeners: ChartListeners, place: Place): uPlot.Options {
  const { series, unit } = spec();
  const { width, height, group } = place;
  return {
    ...{ width, height, ms: 1, legend: { show: false }, padding: [14, 8, 0, 0] },
    scales: {
      x: { time: true, range: () => toPair(spec().range) },
      y: { range: (_, __, max) => [0, max === null || max <= 0 ? 1 : max * 1.12] },
    },
    series: [{}, ...series.map((each, index) => seriesOptions(each, index))],
    axes: axes(unit),
    cursor: {
      drag: { x: true, y: false, setScale: false },
      points: { size: 8 },
      // Listened to together with the single click.
      bind: { dblclick: () => null },
      ...(group === undefined ? {} : { sync: { key: group, setSeries: false } }),
    },
    hooks: {
      draw: [(u) => drawEvents(u, spec()), (u) => drawMarks(u, spec())],
      setCursor: [(u) => listeners.point(u.cursor.idx ?? null, u.cursor.left ?? 0)],
      setSelect: [(u) => readSelection(u, listeners)],
      ready: [(u) => listenToClicks(u, listeners)],
    },
  };
}

/** What uPlot draws: times, then each series. */
export function chartData({ times, series }: ChartSpec): uPlot.AlignedData {
  return [times, ...series.map(({ values }) => values)] as unknown as uPlot.AlignedData;
}

/** A colour of the style as it is now: another one in the dark. */
function colorOf(u: uPlot, name: string): string {
  return getComputedStyle(u.root).getPropertyValue(name).trim() || '#888';
}

/** Lines of one chart are told apart by more than their colour. */
const dashes = [[], [7, 4], [2, 3]] as const;

function seriesOptions({ label, color, look }: ChartSeries, index: number): uPlot.Series {
  const stroke = (u: uPlot) => colorOf(u, color);
  const dash = [...(dashes[index] ?? [])];
  const base: uPlot.Series = { label, stroke, width: 1.5, spanGaps: false, dash };
  if (look === 'dots') return { ...base, width: 1, points: { show: isSparse, size: 5, fill: stroke } };
  const fill = (u: uPlot) => `color-mix(in srgb, ${colorOf(u, color)} ${look === 'bars' ? 70 : 22}%, transparent)`;
  if (look === 'bars') return { ...base, width: 0, fill, points: { show: false }, paths: drawBars };
  return { ...base, ...(look === 'area' ? { fill } : {}), points: { show: isSparse, size: 4, fill: stroke } };
}

/** Dots are drawn where they can be told apart. */
function isSparse(u: uPlot, _series: number, from: number, until: number): boolean {
  return (until - from) * 5 < u.bbox.width / devicePixelRatio;
}

const drawBars = uPlot.paths.bars?.({ align: 1, size: [0.8, 40] }) as uPlot.Series.PathBuilder;

function axes(unit: TickUnit): uPlot.Axis[] {
  const look = { stroke: (u: uPlot) => colorOf(u, '--chart-text'), font: '12px system-ui, sans-serif' };
  const line = { stroke: (u: uPlot) => colorOf(u, '--chart-grid'), width: 1 };
  const lines = { grid: line, ticks: { ...line, size: 5 } };
  return [
    {
      ...look,
      ...lines,
      space: 72,
      size: (_, at) => (at?.some((text) => text?.includes('\n')) ? 46 : 32),
      values: (_, at, __, ___, step) => timeTicks(at, step),
    },
    {
      ...look,
      ...lines,
      size: 64,
      space: 36,
      incrs: tickSteps(unit),
      values: (_, at) => at.map((value) => formatTick(unit, value)),
    },
  ];
}

function toPair({ fromMs, untilMs }: TimeRange): [number, number] {
  return [fromMs, Math.max(untilMs, fromMs + 1)];
}

/** What was dragged over is shown alone; the selection has done its work then. */
function readSelection(u: uPlot, { zoom }: ChartListeners): void {
  const { left, width } = u.select;
  if (width < 4) return;
  const range = { fromMs: Math.round(u.posToVal(left, 'x')), untilMs: Math.round(u.posToVal(left + width, 'x')) };
  u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
  zoom(range);
}

/** So long a click may become a double click. */
const DOUBLE_MS = 300;

/** One click opens a point, two show everything again. uPlot keeps those clicks back that end a drag. */
function listenToClicks(u: uPlot, { open, zoom }: ChartListeners): void {
  let clicked: ReturnType<typeof setTimeout> | undefined;
  u.over.addEventListener('click', () => {
    clearTimeout(clicked);
    const { idx } = u.cursor;
    if (typeof idx === 'number') clicked = setTimeout(() => open(idx), DOUBLE_MS);
  });
  u.over.addEventListener('dblclick', () => {
    clearTimeout(clicked);
    zoom(null);
  });
}

/** A line from top to bottom; its label where there is room for it. */
function drawEvents(u: uPlot, { events, range }: ChartSpec): void {
  const { ctx, bbox } = u;
  const scale = devicePixelRatio;
  ctx.save();
  ctx.strokeStyle = ctx.fillStyle = colorOf(u, '--chart-event');
  ctx.font = `${11 * scale}px system-ui, sans-serif`;
  ctx.setLineDash([4 * scale, 3 * scale]);
  ctx.lineWidth = scale;
  let labelledUntil = Number.NEGATIVE_INFINITY;
  for (const { atMs, label } of events) {
    if (atMs < range.fromMs || atMs > range.untilMs) continue;
    const x = Math.round(u.valToPos(atMs, 'x', true));
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
    const { width } = ctx.measureText(label);
    const left = Math.min(x, bbox.left + bbox.width - width);
    if (left < labelledUntil) continue;
    ctx.fillText(label, left, bbox.top - 4 * scale);
    labelledUntil = left + width + 8 * scale;
  }
  ctx.restore();
}

const markColors = { failed: '--chart-failed', unusual: '--chart-unusual' } as const;

/** A mark stands on its point; on the ground where nothing was measured. */
function drawMarks(u: uPlot, { marks, times, series, range }: ChartSpec): void {
  const { ctx } = u;
  const size = 5 * devicePixelRatio;
  ctx.save();
  ctx.lineWidth = 2 * devicePixelRatio;
  for (const { index, kind } of marks) {
    const at = times[index] as number;
    if (at < range.fromMs || at > range.untilMs) continue;
    const x = u.valToPos(at, 'x', true);
    const y = u.valToPos(series[0]?.values[index] ?? 0, 'y', true);
    ctx.strokeStyle = ctx.fillStyle = colorOf(u, markColors[kind]);
    ctx.beginPath();
    if (kind === 'failed') drawCross(ctx, x, y, size);
    else drawTriangle(ctx, x, y, size);
  }
  ctx.restore();
}

function drawCross(ctx: CanvasRenderingContext2D, x: number, y: number, size: number): void {
  ctx.moveTo(x - size, y - size);
  ctx.lineTo(x + size, y + size);
  ctx.moveTo(x + size, y - size);
  ctx.lineTo(x - size, y + size);
  ctx.stroke();
}

function drawTriangle(ctx: CanvasRenderingContext2D, x: number, y: number, size: number): void {
  ctx.moveTo(x, y - size * 1.2);
  ctx.lineTo(x + size * 1.2, y + size);
  ctx.lineTo(x - size * 1.2, y + size);
  ctx.closePath();
  ctx.fill();
}
