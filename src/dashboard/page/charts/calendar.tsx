import { useEffect, useRef, useState } from 'preact/hooks';
import { countOf } from '../../../report/text/format.ts';

export interface DayCell {
  /** `2026-11-03`, in the zone of the viewer. */
  readonly date: string;
  readonly runs: number;
  readonly failed: number;
}

interface CalendarProps {
  readonly year: number;
  /** Days without runs may be missing. */
  readonly days: readonly DayCell[];
  /** What it is a calendar of. */
  readonly of: string;
  readonly onOpen: (day: string) => void;
}

const CELL = 14;
const LEFT = 30;
const TOP = 18;
const DAY_MS = 86_400_000;

/** A year, one cell for each day: the more runs, the fuller; a cross: some failed. Arrow keys go from day to day. */
export function Calendar({ year, days, of, onOpen }: CalendarProps) {
  const cells = layOut(year, days);
  const [pointed, setPointed] = useState<string | null>(null);
  const scroller = useNewestInView(year, days);
  const index = cells.findIndex(({ date }) => date === pointed);
  const walk = (event: KeyboardEvent) => {
    const step = steps[event.key];
    if (event.key === 'Enter' && pointed !== null) onOpen(pointed);
    if (step === undefined) return;
    event.preventDefault();
    const from = index === -1 ? cells.findLastIndex(({ runs }) => runs > 0) : index + step;
    setPointed(cells[Math.min(cells.length - 1, Math.max(0, from))]?.date ?? null);
  };
  const width = LEFT + 54 * CELL;
  return (
    <figure class="calendar">
      <section
        class="scrolls"
        ref={scroller}
        // biome-ignore lint/a11y/noNoninteractiveTabindex: arrow keys go through its days
        tabIndex={0}
        aria-label={`Days of ${year}. Arrow keys go from day to day, Enter shows the day's runs.`}
        onKeyDown={walk}
      >
        <svg width={width} height={TOP + 7 * CELL + 2} role="img" aria-label={summarize(year, cells, of)}>
          <Labels year={year} />
          {cells.map((cell) => (
            <Cell key={cell.date} cell={cell} isPointed={cell.date === pointed} onPoint={setPointed} onOpen={onOpen} />
          ))}
        </svg>
      </section>
      <p class="calendar-day" role="status">
        {describeDay(cells[index])}
      </p>
      <figcaption>
        {summarize(year, cells, of)} <Levels />
      </figcaption>
    </figure>
  );
}

const steps: Readonly<Record<string, number>> = { ArrowUp: -1, ArrowDown: 1, ArrowLeft: -7, ArrowRight: 7 };

/** On a narrow screen the last days that anything happened on are seen first. */
function useNewestInView(year: number, days: readonly DayCell[]) {
  const scroller = useRef<HTMLElement>(null);
  const last = days.at(-1)?.date;
  useEffect(() => {
    const element = scroller.current;
    if (element === null || last === undefined) return;
    const column = columnOf(Date.parse(last), year);
    element.scrollLeft = LEFT + (column + 2) * CELL - element.clientWidth;
  }, [year, last]);
  return scroller;
}

interface CalendarCell extends DayCell {
  readonly column: number;
  /** 0: Monday. */
  readonly row: number;
  /** From 0, no runs, to 4, as many as on the fullest days. */
  readonly level: number;
}

function layOut(year: number, days: readonly DayCell[]): CalendarCell[] {
  const known = new Map(days.map((day) => [day.date, day]));
  const most = Math.max(1, ...days.map(({ runs }) => runs));
  const first = Date.UTC(year, 0, 1);
  const count = (Date.UTC(year + 1, 0, 1) - first) / DAY_MS;
  return Array.from({ length: count }, (_, index) => {
    const atMs = first + index * DAY_MS;
    const date = new Date(atMs).toISOString().slice(0, 10);
    const { runs, failed } = known.get(date) ?? { runs: 0, failed: 0 };
    const level = Math.ceil((runs / most) * 4);
    return { date, runs, failed, level, column: columnOf(atMs, year), row: weekdayOf(atMs) };
  });
}

function weekdayOf(atMs: number): number {
  return (new Date(atMs).getUTCDay() + 6) % 7;
}

function columnOf(atMs: number, year: number): number {
  const first = Date.UTC(year, 0, 1);
  return Math.floor(((atMs - first) / DAY_MS + weekdayOf(first)) / 7);
}

interface CellProps {
  readonly cell: CalendarCell;
  readonly isPointed: boolean;
  readonly onPoint: (day: string) => void;
  readonly onOpen: (day: string) => void;
}

function Cell({ cell, isPointed, onPoint, onOpen }: CellProps) {
  const x = LEFT + cell.column * CELL + 1;
  const y = TOP + cell.row * CELL + 1;
  return (
    // biome-ignore lint/a11y/noStaticElementInteractions: the keyboard has its way through the days on the whole
    <g
      class={`day level-${cell.level} ${cell.failed > 0 ? 'has-failed' : ''} ${isPointed ? 'pointed' : ''}`}
      onMouseEnter={() => onPoint(cell.date)}
      onClick={() => cell.runs > 0 && onOpen(cell.date)}
    >
      <title>{describeDay(cell)}</title>
      <rect x={x} y={y} width={CELL - 3} height={CELL - 3} rx={2} />
      {cell.failed > 0 && <path d={`M${x + 2} ${y + 2}l7 7m0 -7l-7 7`} />}
    </g>
  );
}

function Labels({ year }: { readonly year: number }) {
  const months = Array.from({ length: 12 }, (_, month) => Date.UTC(year, month, 1));
  return (
    <g class="calendar-labels">
      {months.map((atMs) => (
        <text key={atMs} x={LEFT + columnOf(atMs + 6 * DAY_MS, year) * CELL} y={12}>
          {new Date(atMs).toLocaleDateString(undefined, { month: 'short', timeZone: 'UTC' })}
        </text>
      ))}
      {[0, 2, 4].map((row) => (
        <text key={row} x={0} y={TOP + row * CELL + 10}>
          {new Date(Date.UTC(2024, 0, 1 + row)).toLocaleDateString(undefined, { weekday: 'short', timeZone: 'UTC' })}
        </text>
      ))}
    </g>
  );
}

function Levels() {
  return (
    <span class="calendar-levels">
      no run
      <svg width={5 * CELL} height={CELL} aria-hidden="true">
        {[0, 1, 2, 3, 4].map((level) => (
          <g key={level} class={`day level-${level}`}>
            <rect x={level * CELL + 1} y={1} width={CELL - 3} height={CELL - 3} rx={2} />
          </g>
        ))}
      </svg>
      many ·
      <svg width={CELL} height={CELL} aria-hidden="true">
        <g class="day level-2 has-failed">
          <rect x={1} y={1} width={CELL - 3} height={CELL - 3} rx={2} />
          <path d="M3 3l7 7m0 -7l-7 7" />
        </g>
      </svg>
      a run failed
    </span>
  );
}

function describeDay(cell: DayCell | undefined): string {
  if (cell === undefined) return '';
  const day = nameOfDay(cell.date, { weekday: 'long', day: 'numeric', month: 'long' });
  if (cell.runs === 0) return `${day}: no runs`;
  return `${day}: ${countOf(cell.runs, 'run')}, ${cell.failed === 0 ? 'none' : cell.failed} failed`;
}

/** A date is the same in every zone. */
function nameOfDay(day: string, format: Intl.DateTimeFormatOptions): string {
  return new Date(day).toLocaleDateString(undefined, { ...format, timeZone: 'UTC' });
}

function summarize(year: number, cells: readonly DayCell[], of: string): string {
  const active = cells.filter(({ runs }) => runs > 0);
  if (active.length === 0) return `${of} has no runs in ${year}.`;
  const runs = active.reduce((sum, day) => sum + day.runs, 0);
  const bad = active.filter(({ failed }) => failed > 0);
  const start = `${year}: ${countOf(runs, 'run')} on ${countOf(active.length, 'day')}`;
  const last = bad.at(-1);
  if (last === undefined) return `${start}, none failed.`;
  const newest = nameOfDay(last.date, { day: 'numeric', month: 'long' });
  return `${start}; runs failed on ${countOf(bad.length, 'day')}, most recently on ${newest}.`;
}
