import fastStringWidth from 'fast-string-width';
import { countOf } from '../../system/base/format.ts';
import type { Palette, Screen } from './screen.ts';

/** A column of a table that gives up what a narrow terminal has no room for. */
export interface Column<Row> {
  readonly title: string;
  readonly text: (row: Row) => string;
  /** Called with the text as it is shown, cut where it had to be. */
  readonly paint?: (text: string, row: Row) => string;
  readonly align?: 'right';
  /** The lowest rank is the first to go; without a rank it stays. */
  readonly rank?: number;
  /** May be cut down to `first` columns before others go, and to `last` once none can go. */
  readonly shrinks?: { readonly first: number; readonly last: number };
  /** Cut in the middle, as names are that differ at their ends. */
  readonly isName?: true;
}

/** A column with the width it gets. */
export interface FittedColumn<Row> extends Column<Row> {
  readonly width: number;
}

const GAP = 2;

/** Drops and then shrinks columns until a line fits; all tables of one report can share these. */
export function fitColumns<Row>(
  columns: readonly Column<Row>[],
  rows: readonly Row[],
  available: number,
): FittedColumn<Row>[] {
  let kept = columns.map((column) => ({ ...column, width: naturalWidth(column, rows) }));
  while (lineWidth(shrinkToFit(kept, available, 'first')) > available) {
    const next = withoutLowest(kept);
    if (next.length === kept.length) break;
    kept = next;
  }
  return shrinkToFit(shrinkToFit(kept, available, 'first'), available, 'last');
}

/** A table as wide as the screen; where columns had to go, the last line names them. */
export function drawTable<Row>(
  columns: readonly Column<Row>[],
  rows: readonly Row[],
  screen: Pick<Screen, 'columns' | 'palette' | 'isWatched'>,
): string[] {
  const fitted = fitColumns(columns, rows, screen.columns);
  const table = renderTable(fitted, rows, { palette: screen.palette, indent: '' });
  return [...table, ...noteHidden(columns, fitted, rows, screen)];
}

/** `2 columns hidden (max, cpu): widen to 104 columns or use --json`; nothing where none is. */
export function noteHidden<Row>(
  columns: readonly Column<Row>[],
  fitted: readonly FittedColumn<Row>[],
  rows: readonly Row[],
  screen: Pick<Screen, 'columns' | 'palette' | 'isWatched'>,
  indent = '',
): string[] {
  if (screen.isWatched) return [];
  const hidden = columns.filter(({ title }) => title !== '' && fitted.every((shown) => shown.title !== title));
  if (hidden.length === 0) return [];
  const all = columns.map((column) => ({ ...column, width: naturalWidth(column, rows) }));
  const needed = indent.length + lineWidth(shrinkToFit(all, 0, 'first'));
  const names = hidden.map(({ title }) => title).join(', ');
  const note = `${countOf(hidden.length, 'column')} hidden (${names}): widen to ${needed} columns or use --json`;
  return wrap(note, screen.columns).map(screen.palette.dim);
}

interface TableLayout<Row> {
  readonly palette: Palette;
  readonly indent: string;
  /** Lines under a row, as wide as the table may be. */
  readonly below?: (row: Row) => readonly string[];
}

/** The lines of a table without borders. */
export function renderTable<Row>(
  columns: readonly FittedColumn<Row>[],
  rows: readonly Row[],
  { palette, indent, below }: TableLayout<Row>,
): string[] {
  const head = drawLine(columns, ({ title }) => [title, palette.dim(title)]);
  const drawRow = (row: Row): string =>
    drawLine(columns, (column) => {
      const text = (column.isName ? truncateMiddle : truncate)(column.text(row), column.width);
      return [text, column.paint?.(text, row) ?? text];
    });
  const body = rows.flatMap((row) => [drawRow(row), ...(below?.(row) ?? [])]);
  return [head, ...body].map((line) => `${indent}${line}`.trimEnd());
}

function drawLine<Row>(
  columns: readonly FittedColumn<Row>[],
  drawCell: (column: FittedColumn<Row>) => readonly [text: string, painted: string],
): string {
  const cells = columns.map((column) => {
    const [text, painted] = drawCell(column);
    const padding = ' '.repeat(Math.max(0, column.width - widthOf(text)));
    return column.align === 'right' ? padding + painted : painted + padding;
  });
  return cells.join(' '.repeat(GAP)).trimEnd();
}

function naturalWidth<Row>(column: Column<Row>, rows: readonly Row[]): number {
  const widest = (width: number, row: Row): number => Math.max(width, widthOf(column.text(row)));
  return rows.reduce(widest, widthOf(column.title));
}

function lineWidth(columns: readonly { readonly width: number }[]): number {
  return columns.reduce((sum, column) => sum + column.width + GAP, -GAP);
}

function withoutLowest<Row>(columns: readonly FittedColumn<Row>[]): FittedColumn<Row>[] {
  const lowest = Math.min(...columns.map((column) => column.rank ?? Infinity));
  return columns.filter((column) => column.rank === undefined || column.rank > lowest);
}

function shrinkToFit<Row>(
  columns: readonly FittedColumn<Row>[],
  available: number,
  stage: 'first' | 'last',
): FittedColumn<Row>[] {
  let excess = lineWidth(columns) - available;
  return columns.map((column) => {
    const least = Math.min(column.width, column.shrinks?.[stage] ?? column.width);
    const width = Math.max(least, column.width - Math.max(0, excess));
    excess -= column.width - width;
    return { ...column, width };
  });
}

/** Letters of Latin and signs that each take one column: most text there is, and quickly known. */
const narrow = /^[ -~\xa0-\xff–—’…→▁-█✔✖]*$/;

/** A fact with its label; null: unknown, and not shown. */
export type Fact = readonly [label: string, value: string | null];

const LABEL_COLUMNS = 14;

/** A line for each fact, more where it does not fit. */
export function drawFacts(facts: readonly Fact[], { columns, palette }: Pick<Screen, 'columns' | 'palette'>): string[] {
  return facts.flatMap(([label, value]) => {
    if (value === null) return [];
    const [first = '', ...more] = wrap(value, columns - LABEL_COLUMNS);
    const indent = ' '.repeat(LABEL_COLUMNS);
    return [`${palette.dim(label.padEnd(LABEL_COLUMNS - 1))} ${first}`, ...more.map((line) => indent + line)];
  });
}

/** How many columns a terminal gives to it. */
export function widthOf(text: string): number {
  if (narrow.test(text)) return text.length;
  const shown = text.normalize('NFC').replace(ignorable, '').replace(loneJoiner, '');
  return fastStringWidth(shown) + (shown.match(spacing)?.length ?? 0);
}

/** Vowel signs with a column of their own, in the scripts of India and South-East Asia, which the library leaves out. */
const spacing = /\p{Spacing_Mark}/gu;

/** Characters without room of their own, which the library counts; joiners, selectors and tags of emoji it needs. */
const ignorable = /(?![\u200d\ufe0f\u{e0020}-\u{e007f}])\p{Default_Ignorable_Code_Point}/gu;

/** Joiners that are between no two pictures. */
const loneJoiner =
  /(?<!\p{Extended_Pictographic}\ufe0f?|\p{Emoji_Modifier})\u200d|\u200d(?!\p{Extended_Pictographic})/gu;

const ELLIPSIS = '…';

/** Cuts text at the end to at most this many columns; an ellipsis marks the cut. */
export function truncate(text: string, columns: number): string {
  return widthOf(text) <= columns ? text : takeStart(text, columns - 1) + ELLIPSIS;
}

/** The same in the middle, so that names that differ only at their ends stay different. */
export function truncateMiddle(text: string, columns: number): string {
  if (widthOf(text) <= columns) return text;
  const tail = takeEnd(text, Math.floor((columns - 1) / 2));
  return takeStart(text, columns - 1 - widthOf(tail)) + ELLIPSIS + tail;
}

/** The first characters, as people count them, that fit. */
function takeStart(text: string, columns: number): string {
  let end = 0;
  let width = 0;
  for (const { segment, index } of new Intl.Segmenter().segment(text)) {
    width += widthOf(segment);
    if (width > columns) break;
    end = index + segment.length;
  }
  return text.slice(0, end);
}

/** The last ones. */
function takeEnd(text: string, columns: number): string {
  let start = text.length;
  let width = 0;
  for (const { segment, index } of [...new Intl.Segmenter().segment(text)].reverse()) {
    width += widthOf(segment);
    if (width > columns) break;
    start = index;
  }
  return text.slice(start);
}

/** Blocks of lines as a text, an empty line between them; blocks without lines are left out. */
export function joinBlocks(blocks: readonly (readonly string[])[]): string {
  const filled = blocks.filter((lines) => lines.length > 0);
  return `${filled.map((lines) => lines.join('\n')).join('\n\n')}\n`;
}

/** Joins parts with ` · `, beginning a new line before a part that would not fit any more. */
export function joinFitting(parts: readonly string[], columns: number): string[] {
  const lines: string[] = [];
  for (const part of parts) {
    const joined = [lines.at(-1), part].filter((each) => each !== undefined).join(' · ');
    if (lines.length > 0 && widthOf(joined) <= columns) lines[lines.length - 1] = joined;
    else lines.push(...wrap(part, columns));
  }
  return lines;
}

/** Breaks text between words into lines of at most this many columns; a longer word is broken, too. */
export function wrap(text: string, columns: number): string[] {
  const lines: string[] = [];
  for (const word of text.split(' ')) {
    const last = lines.at(-1);
    const joined = last === undefined ? word : `${last} ${word}`;
    if (last !== undefined && widthOf(joined) <= columns) lines[lines.length - 1] = joined;
    else lines.push(...breakWord(word, columns));
  }
  return lines;
}

/** A character that is wider than the screen stands alone. */
function breakWord(word: string, columns: number): string[] {
  if (widthOf(word) <= columns) return [word];
  const pieces: string[] = [];
  let piece = '';
  let width = 0;
  // Each character once: measuring all that is left for each piece takes as long as the square of the word's length.
  for (const { segment } of new Intl.Segmenter().segment(word)) {
    const more = widthOf(segment);
    if (piece !== '' && width + more > columns) {
      pieces.push(piece);
      piece = '';
      width = 0;
    }
    piece += segment;
    width += more;
  }
  return [...pieces, piece];
}
