import type { Palette } from './screen.ts';
import { truncate, widthOf } from './table.ts';

/** The content of a whole screen. */
export interface ScreenFrame {
  /** The views by their keys, and which one is shown. */
  readonly tabs: readonly Tab[];
  readonly lines: readonly string[];
  /** Whether lines can be selected. */
  readonly isList: boolean;
  /** Which of them is; null: none. */
  readonly selected: number | null;
  /** The first line to be shown. */
  readonly top: number;
  /** The keys, in the last line. */
  readonly help: string;
  /** Stands at the right of the tabs. */
  readonly note: string;
}

interface Tab {
  readonly key: string;
  readonly name: string;
  readonly isShown: boolean;
}

interface Size {
  readonly columns: number;
  readonly rows: number;
}

/** Tabs, how many lines are above, how many are below, the keys. */
const ROWS_AROUND = 4;

/** How many lines there is room for. */
export function roomOf({ rows }: Size): number {
  return Math.max(1, rows - ROWS_AROUND);
}

/** Just as many lines as the screen has, none of them wider. */
export function drawFrame(frame: ScreenFrame, size: Size, palette: Palette): string[] {
  const room = roomOf(size);
  const top = topOf(frame, room);
  const body = frame.lines.slice(top, top + room).map((line, index) => {
    if (!frame.isList) return line;
    return top + index === frame.selected ? palette.bold(`${MARK}${line}`) : `${NO_MARK}${line}`;
  });
  const rest = Array.from({ length: Math.max(0, room - body.length) }, () => '');
  const hidden = (arrow: string, count: number): string => (count > 0 ? palette.dim(`${arrow} ${count} more`) : '');
  const [above, below] = [hidden('↑', top), hidden('↓', frame.lines.length - top - room)];
  const lines = [drawTabs(frame, size, palette), above, ...body, ...rest, below, palette.dim(frame.help)];
  return lines.slice(0, size.rows).map((line) => cut(line, size.columns));
}

/** Without colours, too, it is seen which line is selected. */
export const MARK = '› ';
const NO_MARK = '  ';

/** The first line to be shown: as wanted, unless the selected line would be out of sight; then that is in the middle. */
export function topOf({ lines, selected, top }: Pick<ScreenFrame, 'lines' | 'selected' | 'top'>, room: number): number {
  const isInSight = selected === null || (selected >= top && selected < top + room);
  return Math.max(0, Math.min(isInSight ? top : selected - Math.floor(room / 2), lines.length - room));
}

function drawTabs({ tabs, note }: ScreenFrame, { columns }: Size, { bold, dim }: Palette): string {
  const names = tabs
    .map(({ key, name, isShown }) => (isShown ? bold(`[${key} ${name}]`) : ` ${key} ${name} `))
    .join('');
  const width = tabs.reduce((sum, { key, name }) => sum + key.length + name.length + 3, 0);
  const gap = columns - width - widthOf(note);
  return gap < 1 ? names : names + ' '.repeat(gap) + dim(note);
}

const STYLES_OFF = '\x1b[0m';

function cut(line: string, columns: number): string {
  const short = truncate(line, columns);
  return short === line || !short.includes('\x1b') ? short : short + STYLES_OFF;
}
