import uPlot from 'uplot';
import { formatBytes, formatDuration, formatRate } from '../../../system/base/format.ts';

/** How values look: `dots` are single runs, `steps` are figures of whole periods. */
type Look = 'line' | 'area' | 'dots' | 'bars';

export interface ChartSeries {
  readonly label: string;
  /** A colour of the style: `--accent`. */
  readonly color: `--${string}`;
  readonly look: Look;
  /** Null: unknown, a gap. */
  readonly values: readonly (number | null)[];
}

/** A letter on a point: a cross for a failed run, a triangle for an unusual one. */
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
  readonly marks?: readonly Mark[];
  readonly events?: readonly ChartEvent[];
  /** The last point stands for a period that is not over: what it has so far is drawn unlike the others. */
  readonly isOpenEnded?: boolean;
  readonly range: TimeRange;
}

interface ChartListeners {
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

/** The kind of pointer that was used last. */
interface Pointer {
  isFinger: boolean;
}

/** Options of uPlot; they read the spec again at each drawing. */
export function chartOptions(spec: () => ChartSpec, listeners: ChartListeners, place: Place): uPlot.Options {
  const { series, unit } = spec();
  const { width, height, group } = place;
  const pointer: Pointer = { isFinger: false };
  return {
    ...{ width, height, ms: 1, legend: { show: false }, padding: [14, 16, 0, 0] },
    scales: {
      x: { time: true, range: () => toPair(spec().range) },
      // At least one step of its unit, or the ground would be the only value with a label.
      y: { range: (_, __, max) => [0, Math.max((max ?? 0) * 1.12, tickSteps[unit][0] as number)] },
    },
    series: [{}, ...series.map((each, index) => seriesOptions(each, index, spec))],
    axes: axes(unit),
    cursor: {
      drag: { x: true, y: false, setScale: false },
      points: { size: 8 },
      bind: {
        // Listened to together with the single click.
        dblclick: () => null,
        // A tap leaves its tooltip open.
        mouseleave: (_, __, leave) => (event) => (pointer.isFinger ? null : leave(event)),
      },
      ...(group === undefined ? {} : { sync: { key: group, setSeries: false } }),
    },
    hooks: {
      draw: [(u) => drawOpenEnd(u, spec()), (u) => drawEvents(u, spec()), (u) => drawMarks(u, spec())],
      setCursor: [(u) => listeners.point(u.cursor.idx ?? null, u.cursor.left ?? 0)],
      setSelect: [(u) => readSelection(u, listeners)],
      ready: [(u) => listenToClicks(u, listeners, pointer)],
    },
  };
}

/** Data of uPlot: times, then the values of each series. */
export function chartData({ times, series }: ChartSpec): uPlot.AlignedData {
  return [times, ...series.map(({ values }) => values)] as unknown as uPlot.AlignedData;
}

/** A colour of the style as it is now: another one in the dark. Drawing knows no `light-dark()`, so it is computed. */
function colorOf({ root }: uPlot, name: string): string {
  root.style.color = `var(${name})`;
  return getComputedStyle(root).color;
}

/** Lines of one chart differ in more than their colour. */
const dashes = [[], [7, 4], [2, 3]] as const;

function seriesOptions({ label, color, look }: ChartSeries, index: number, spec: () => ChartSpec): uPlot.Series {
  const stroke = (u: uPlot) => colorOf(u, color);
  const dash = [...(dashes[index] ?? [])];
  const gaps: uPlot.Series.GapsRefiner = (u, _, __, ___, found) => [...found, ...openGap(u, spec())];
  const base: uPlot.Series = { label, stroke, width: 1.5, spanGaps: false, dash, gaps };
  if (look === 'dots') return { ...base, width: 1, points: { show: isSparse, size: 5, fill: stroke } };
  const fill = (u: uPlot) => `color-mix(in srgb, ${colorOf(u, color)} ${look === 'bars' ? 70 : 22}%, transparent)`;
  if (look === 'bars') return { ...base, width: 0, fill, points: { show: false }, paths: drawBars };
  return { ...base, ...(look === 'area' ? { fill } : {}), points: { show: isSparse, size: 4, fill: stroke } };
}

/** Draws dots only where they do not touch one another. */
function isSparse(u: uPlot, _series: number, from: number, until: number): boolean {
  return (until - from) * 5 < u.bbox.width / devicePixelRatio;
}

/** The line does not fall to what an unfinished period has so far: pixels from the last whole one on. */
function openGap(u: uPlot, { times, isOpenEnded = false }: ChartSpec): [number, number][] {
  const [from, until] = times.slice(-2);
  if (!isOpenEnded || from === undefined || until === undefined) return [];
  return [[u.valToPos(from, 'x', true), u.valToPos(until, 'x', true)]];
}

const drawBars = uPlot.paths.bars?.({ align: 1, size: [0.8, 40] }) as uPlot.Series.PathBuilder;

function axes(unit: TickUnit): uPlot.Axis[] {
  const look = { stroke: (u: uPlot) => colorOf(u, '--quiet'), font: '12px system-ui, sans-serif' };
  const line = { stroke: (u: uPlot) => colorOf(u, '--line'), width: 1 };
  const lines = { grid: line, ticks: { ...line, size: 5 } };
  return [
    {
      ...look,
      ...lines,
      space: (_, __, ___, ____, width) => Math.min(72, width / 4),
      size: (_, at) => (at?.some((text) => text?.includes('\n')) ? 46 : 32),
      values: (_, at, __, ___, step) => timeTicks(at, step),
    },
    {
      ...look,
      ...lines,
      size: 64,
      space: 36,
      incrs: tickSteps[unit],
      values: (_, at) => at.map(tickFormats[unit]),
    },
  ];
}

function toPair({ fromMs, untilMs }: TimeRange): [number, number] {
  return [fromMs, Math.max(untilMs, fromMs + 1)];
}

/** Zooms to the part that was dragged over, and removes the selection. */
function readSelection(u: uPlot, { zoom }: ChartListeners): void {
  const { left, width } = u.select;
  if (width < 4) return;
  const range = { fromMs: Math.round(u.posToVal(left, 'x')), untilMs: Math.round(u.posToVal(left + width, 'x')) };
  u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
  zoom(range);
}

/** Longest time between the clicks of a double click. */
const DOUBLE_MS = 300;

/**
 * One click opens a point, two show everything again. A finger cannot point without a tap: its first one reads a point,
 * another one at that point opens it. uPlot keeps those clicks back that end a drag.
 */
function listenToClicks(u: uPlot, { open, zoom }: ChartListeners, pointer: Pointer): void {
  let clicked: ReturnType<typeof setTimeout> | undefined;
  let read: number | null = null;
  u.over.addEventListener('pointerover', ({ pointerType }) => {
    pointer.isFinger = pointerType === 'touch';
  });
  u.over.addEventListener('click', () => {
    clearTimeout(clicked);
    const { idx } = u.cursor;
    if (typeof idx !== 'number') return;
    if (!pointer.isFinger) clicked = setTimeout(() => open(idx), DOUBLE_MS);
    else if (idx === read) open(idx);
    read = pointer.isFinger ? idx : null;
  });
  u.over.addEventListener('dblclick', () => {
    clearTimeout(clicked);
    if (!pointer.isFinger) zoom(null);
  });
}

/** Hatches the period that is not over, and leads to what it has so far by dots. */
function drawOpenEnd(u: uPlot, spec: ChartSpec): void {
  const { times, series, isOpenEnded = false, range } = spec;
  const begun = times.at(-1);
  if (!isOpenEnded || begun === undefined || begun > range.untilMs) return;
  const { ctx, bbox } = u;
  const scale = devicePixelRatio;
  const bottom = bbox.top + bbox.height;
  const left = Math.max(bbox.left, u.valToPos(begun, 'x', true));
  ctx.save();
  ctx.beginPath();
  ctx.rect(left, bbox.top, bbox.left + bbox.width - left, bbox.height);
  ctx.clip();
  ctx.strokeStyle = colorOf(u, '--frame');
  ctx.lineWidth = scale / 2;
  ctx.beginPath();
  for (let x = left - bbox.height; x < bbox.left + bbox.width; x += 7 * scale) {
    ctx.moveTo(x, bottom);
    ctx.lineTo(x + bbox.height, bbox.top);
  }
  ctx.stroke();
  ctx.restore();
  for (const each of series) drawLastPart(u, each, times);
}

function drawLastPart(u: uPlot, { look, color, values }: ChartSeries, times: readonly number[]): void {
  const points = [-2, -1].map((at) => [times.at(at), values.at(at) ?? null] as const);
  if (look === 'bars' || points.some(([at, value]) => at === undefined || value === null)) return;
  const { ctx, bbox } = u;
  ctx.save();
  ctx.beginPath();
  ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
  ctx.clip();
  ctx.strokeStyle = colorOf(u, color);
  ctx.setLineDash([2 * devicePixelRatio, 4 * devicePixelRatio]);
  ctx.lineWidth = 1.5 * devicePixelRatio;
  ctx.beginPath();
  for (const [at, value] of points)
    ctx.lineTo(u.valToPos(at as number, 'x', true), u.valToPos(value as number, 'y', true));
  ctx.stroke();
  ctx.restore();
}

/** A line from top to bottom; its label where there is room for it. */
function drawEvents(u: uPlot, { events = [], range }: ChartSpec): void {
  const { ctx, bbox } = u;
  const scale = devicePixelRatio;
  ctx.save();
  ctx.strokeStyle = ctx.fillStyle = colorOf(u, '--quiet');
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

const markLooks = { failed: ['✕', '--bad'], unusual: ['▲', '--warning'] } as const;

/** A mark stands on its point; on the ground where nothing was measured. */
function drawMarks(u: uPlot, { marks = [], times, series, range }: ChartSpec): void {
  const { ctx } = u;
  ctx.save();
  ctx.font = `bold ${14 * devicePixelRatio}px system-ui, sans-serif`;
  [ctx.textAlign, ctx.textBaseline] = ['center', 'middle'];
  for (const { index, kind } of marks) {
    const at = times[index] as number;
    if (at < range.fromMs || at > range.untilMs) continue;
    const [letter, color] = markLooks[kind];
    ctx.fillStyle = colorOf(u, color);
    ctx.fillText(letter, u.valToPos(at, 'x', true), u.valToPos(series[0]?.values[index] ?? 0, 'y', true));
  }
  ctx.restore();
}

/** The unit of a chart's values. */
export type TickUnit = 'ms' | 'bytes' | 'count' | 'share';

const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

const decimals = Array.from({ length: 10 }, (_, power) => [1, 2, 5].map((step) => step * 10 ** power)).flat();

/** From one line of the grid to the next: steps that one can count in. */
const tickSteps: Readonly<Record<TickUnit, number[]>> = {
  ms: [
    ...decimals.filter((step) => step < SECOND),
    ...[SECOND, MINUTE].flatMap((unit) => [1, 2, 5, 10, 15, 30].map((step) => step * unit)),
    ...[1, 2, 3, 6, 12].map((step) => step * HOUR),
    ...[1, 2, 5, 10, 20, 50].map((step) => step * DAY),
  ],
  bytes: Array.from({ length: 40 }, (_, power) => 2 ** power),
  count: decimals,
  share: [0.01, 0.02, 0.05, 0.1, 0.2, 0.25, 0.5, 1, 2],
};

/** Short enough for the edge of a chart. */
const tickFormats: Readonly<Record<TickUnit, (value: number) => string>> = {
  ms: (value) => (value === 0 ? '0' : formatDuration(value)),
  bytes: (value) => (value === 0 ? '0' : formatBytes(value)),
  count: (value) => value.toLocaleString('en', { notation: 'compact' }),
  share: formatRate,
};

/** Times in the viewer's zone: hours with the day where it begins, days, or months. */
function timeTicks(at: readonly number[], stepMs: number): string[] {
  return at.map((atMs, index) => {
    const date = new Date(atMs);
    if (stepMs >= 28 * DAY) return date.toLocaleDateString(undefined, { month: 'short', year: 'numeric' });
    const day = date.toLocaleDateString(undefined, { day: 'numeric', month: 'short' });
    if (stepMs >= DAY) return day;
    const time = date.toLocaleTimeString(undefined, { timeStyle: stepMs < MINUTE ? 'medium' : 'short' });
    const before = at[index - 1];
    const isNewDay = before === undefined || new Date(before).getDate() !== date.getDate();
    return isNewDay ? `${time}\n${day}` : time;
  });
}
