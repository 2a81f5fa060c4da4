// biome-ignore-all lint/a11y/noRedundantRoles: on a phone these are no boxes of a table, and would lose their roles

import type { ComponentChildren } from 'preact';
import { place, setQuery } from '../router.ts';
import { Icon } from './state.tsx';

export interface TableColumn<Row> {
  readonly title: string;
  /** It is for screen readers only. */
  readonly isTitleHidden?: boolean;
  readonly cell: (row: Row) => ComponentChildren;
  /** Makes the header a button that sorts by these values; unknown ones (null) come last. */
  readonly sortBy?: (row: Row) => string | number | null;
  /** Stands to the right, and is first sorted from the highest. */
  readonly isNumber?: boolean;
  /** So short that it stays on one line. */
  readonly isShort?: boolean;
  /** A name: its column has room for 14 letters at least. */
  readonly isName?: boolean;
  /** Columns of the lowest rank go first where room is short; a column without a rank always stays. */
  readonly rank?: 0 | 1 | 2 | 3;
  /** On a phone each row is a card: its heading, without the column's title, over its whole width, left out. */
  readonly onPhone?: 'title' | 'bare' | 'wide' | 'none';
}

/** A column of figures, by which its header sorts. */
export function figureColumn<Row, Value extends number | null>(
  title: string,
  read: (row: Row) => Value,
  format: (value: Value) => string,
  rank?: TableColumn<Row>['rank'],
): TableColumn<Row> {
  const cell = (row: Row) => format(read(row));
  return { title, cell, sortBy: read, isNumber: true, ...(rank === undefined ? {} : { rank }) };
}

interface Sorting {
  readonly title: string;
  readonly isDescending: boolean;
}

interface TableProps<Row> {
  /** For screen readers: what is in it. */
  readonly caption: string;
  readonly columns: readonly TableColumn<Row>[];
  readonly rows: readonly Row[];
  readonly keyOf: (row: Row) => string | number;
  /** A further line below a row, over its whole width; null: none. */
  readonly below?: (row: Row) => ComponentChildren;
  /** First order of the rows. Default: as they come. */
  readonly sorting?: Sorting;
  /** The name in the address for the order that the viewer chooses: each table of a page has its own. Default `sort`. */
  readonly sortName?: string;
  /** Maximum number of rows shown. Default: all. */
  readonly most?: number;
}

/** Rows in columns; where there is little room, cards. Headers are buttons that sort. */
export function Table<Row>({ caption, columns, rows, keyOf, below, ...more }: TableProps<Row>) {
  const { sorting = null, sortName = 'sort', most } = more;
  const sorted = readSorting(place.value.query[sortName], columns) ?? sorting;
  const sort = (chosen: Sorting): void => setQuery({ [sortName]: writeSorting(chosen) });
  const sortBy = columns.find(({ title }) => title === sorted?.title)?.sortBy;
  const ordered = sortBy && sorted ? rows.toSorted(compareBy(sortBy, sorted.isDescending)) : rows;
  return (
    <div class="table-frame">
      <table role="table">
        <caption class="hidden">{caption}</caption>
        <thead role="rowgroup">
          <tr role="row">
            {columns.map((column) => (
              <Header key={column.title} column={column} sorted={sorted} onSort={sort} />
            ))}
          </tr>
        </thead>
        <tbody role="rowgroup">
          {ordered.slice(0, most).map((row) => (
            <TableRow key={keyOf(row)} row={row} columns={columns} note={below?.(row) ?? null} />
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** `last-run`, and from the highest value on `-last-run`. */
function writeSorting({ title, isDescending }: Sorting): string {
  return `${isDescending ? '-' : ''}${nameInAddress(title)}`;
}

export function nameInAddress(title: string): string {
  return title.toLowerCase().replaceAll(' ', '-');
}

/** Null: the address names no column that sorts. */
function readSorting<Row>(text: string | undefined, columns: readonly TableColumn<Row>[]): Sorting | null {
  const orders = columns.flatMap(({ title, sortBy }) =>
    sortBy === undefined ? [] : [false, true].map((isDescending) => ({ title, isDescending })),
  );
  return orders.find((order) => writeSorting(order) === text) ?? null;
}

interface RowProps<Row> {
  readonly row: Row;
  readonly columns: readonly TableColumn<Row>[];
  readonly note: ComponentChildren;
}

function TableRow<Row>({ row, columns, note }: RowProps<Row>) {
  return (
    <>
      <tr role="row" class={note === null ? '' : 'has-note'}>
        {columns.map((column) => (
          <td
            key={column.title}
            role="cell"
            class={`${classOf(column)} phone-${column.onPhone ?? 'line'}`}
            data-title={column.isTitleHidden ? '' : column.title}
          >
            {column.cell(row)}
          </td>
        ))}
      </tr>
      {note !== null && (
        <tr role="row" class="note">
          <td role="cell" colSpan={columns.length}>
            {note}
          </td>
        </tr>
      )}
    </>
  );
}

function classOf<Row>({ isNumber, isShort, isName, rank }: TableColumn<Row>): string {
  const words = [isNumber && 'number', isShort && 'one-line', isName && 'name', rank !== undefined && `rank-${rank}`];
  return words.filter(Boolean).join(' ');
}

interface HeaderProps<Row> {
  readonly column: TableColumn<Row>;
  readonly sorted: Sorting | null;
  readonly onSort: (sorting: Sorting) => void;
}

function Header<Row>({ column, sorted, onSort }: HeaderProps<Row>) {
  const { title, isTitleHidden = false, sortBy, isNumber = false } = column;
  const isSorted = sorted?.title === title;
  const sort = () => onSort({ title, isDescending: isSorted ? !sorted.isDescending : isNumber });
  const order = isSorted ? (sorted.isDescending ? 'descending' : 'ascending') : sortBy ? 'none' : undefined;
  return (
    <th scope="col" role="columnheader" aria-sort={order} class={classOf(column)}>
      {sortBy === undefined ? (
        <span class={isTitleHidden ? 'hidden' : ''}>{title}</span>
      ) : (
        <button type="button" class="sort" onClick={sort}>
          {title}
          {isSorted && <Icon name={sorted.isDescending ? 'falling' : 'rising'} />}
        </button>
      )}
    </th>
  );
}

const collator = new Intl.Collator('en', { numeric: true });

function compareBy<Row>(sortBy: (row: Row) => string | number | null, isDescending: boolean) {
  return (one: Row, other: Row): number => {
    const [a, b] = [sortBy(one), sortBy(other)];
    if (a === null || b === null) return Number(a === null) - Number(b === null);
    const order = typeof a === 'number' && typeof b === 'number' ? a - b : collator.compare(String(a), String(b));
    return isDescending ? -order : order;
  };
}
