import { formatDuration } from '../../../../system/base/format.ts';
import type { TimeRange } from '../../charts/chart-options.ts';
import { Name } from '../../components/text.tsx';
import { formatShort, serverNow } from '../../components/time.tsx';
import { isStatic } from '../../data.ts';
import { hrefOfItem, type Item, ItemName, type NextAnswer } from './item.tsx';

/** More rows are read in the table. */
const MOST_ROWS = 30;

/**
 * Coming runs as bars of their usual length, a row for each tier, script and name of jobs. It serves the pointer alone;
 * the table below says the same to screen readers and keyboards.
 */
export function Timeline({ next: { from, until, items } }: { readonly next: NextAnswer }) {
  const window: TimeRange = { fromMs: Date.parse(from ?? ''), untilMs: Date.parse(until ?? '') };
  const rows = [...Map.groupBy(items, ({ kind, name }) => `${kind} ${name}`)];
  const rest = rows.length - MOST_ROWS;
  return (
    <div class="next-line" aria-hidden="true">
      <div class="next-axis">
        {ticksOf(window)
          .filter((atMs) => isRoomFor(atMs, window))
          .map((atMs) => (
            <span key={atMs} class="next-tick" style={{ left: share(atMs, window) }}>
              {labelOf(atMs, window)}
            </span>
          ))}
      </div>
      {rows.slice(0, MOST_ROWS).map(([key, ofRow]) => (
        <Row key={key} items={ofRow} window={window} />
      ))}
      {rest > 0 && <p class="quiet small">{rest} more rows stand in the table alone</p>}
      {!isStatic && <Now window={window} />}
    </div>
  );
}

function Row({ items, window }: { readonly items: readonly Item[]; readonly window: TimeRange }) {
  const [first] = items as readonly [Item];
  return (
    <div class="next-row">
      <span class="next-name">
        <Name text={first.name} />
      </span>
      <div class="next-track">
        {items.map((item) => (
          <Bar key={`${item.at} ${item.reason} ${item.job}`} item={item} window={window} />
        ))}
      </div>
    </div>
  );
}

function Bar({ item, window }: { readonly item: Item; readonly window: TimeRange }) {
  const { at, end, kind, name, count, usualMs, isPaused } = item;
  const atMs = Math.max(Date.parse(at ?? ''), window.fromMs);
  const endMs = end === null ? atMs : Math.min(Math.max(Date.parse(end), atMs), window.untilMs);
  const long = (endMs - atMs) / (window.untilMs - window.fromMs);
  const words = [
    formatShort(Date.parse(at ?? ''), serverNow.peek()),
    count > 1 ? `${count} × ${name}` : name,
    usualMs === null ? 'nobody knows for how long' : `usually ${formatDuration(usualMs)}`,
    isPaused ? 'paused' : '',
  ];
  return (
    <a
      class={`next-bar ${kind}`}
      data-paused={isPaused}
      tabIndex={-1}
      href={hrefOfItem(item)}
      title={words.filter(Boolean).join(' · ')}
      style={{ left: share(atMs, window), width: `${long * 100}%` }}
    >
      <span class="hidden">
        <ItemName {...item} />
      </span>
    </a>
  );
}

function Now({ window }: { readonly window: TimeRange }) {
  return (
    <div class="next-now">
      <span class="next-hand" style={{ left: share(Math.min(serverNow.value, window.untilMs), window) }} />
    </div>
  );
}

function share(atMs: number, { fromMs, untilMs }: TimeRange): string {
  return `${((atMs - fromMs) / (untilMs - fromMs)) * 100}%`;
}

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;

/** Up to windows of this length, in milliseconds, the distance of two ticks in minutes. */
const steps = [
  [2 * HOUR_MS, 10],
  [12 * HOUR_MS, 60],
  [48 * HOUR_MS, 180],
  [Number.POSITIVE_INFINITY, 1440],
] as const;

/** Round times of the viewer's clock, also where that changes. */
function ticksOf({ fromMs, untilMs }: TimeRange): number[] {
  const [, stepMinutes] = steps.find(([longestMs]) => untilMs - fromMs <= longestMs) ?? steps[3];
  const start = new Date(fromMs);
  start.setHours(0, 0, 0, 0);
  const ticks: number[] = [];
  for (let count = 0; ; count += 1) {
    const atMs = new Date(start).setMinutes(count * stepMinutes);
    if (atMs >= untilMs) return ticks;
    if (atMs > fromMs) ticks.push(atMs);
  }
}

/** The label of a tick stands right of it, and a last one would be cut. */
function isRoomFor(atMs: number, { fromMs, untilMs }: TimeRange): boolean {
  return (untilMs - atMs) / (untilMs - fromMs) > 0.17;
}

const hourFormat = new Intl.DateTimeFormat('en-GB', { hour: '2-digit', minute: '2-digit' });
const dayFormat = new Intl.DateTimeFormat('en-GB', { weekday: 'short', day: 'numeric', month: 'short' });

function labelOf(atMs: number, { fromMs, untilMs }: TimeRange): string {
  const isMidnight = new Date(atMs).getHours() === 0 && new Date(atMs).getMinutes() === 0;
  return untilMs - fromMs > 48 * HOUR_MS || isMidnight ? dayFormat.format(atMs) : hourFormat.format(atMs);
}
