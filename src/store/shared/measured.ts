import type { ActivityLog } from '../schema.ts';

/** A run, or what counts like one, as far as metrics are made of it. */
export type MeasuredRow = ActivityLog['uncounted'];

/** Rows that come one page after the other, as there may be a million. */
export interface MeasuredPage {
  readonly rows: readonly MeasuredRow[];
  /** By which the next page is asked for; null: there is none. */
  readonly next: PagePlace | null;
}

/** The end of a page; only the store knows its meaning. */
export type PagePlace = readonly number[];

/** From the first instant on, before the second one. */
export interface Span {
  readonly from: number;
  readonly until: number;
}

/** A statement that gives some of the rows that are asked for, in an order of its own. */
export interface MeasuredPart {
  /** The limit stands in it: a server that does not know it when it plans reads whole tables. */
  readonly text: (limit: number) => string;
  readonly values: (key: readonly number[]) => readonly unknown[];
  /** The key that comes before any row's. */
  readonly first: readonly number[];
  /** The key that rows are ordered by, after which the next page begins; null: there are few rows, and one page. */
  readonly keyOf: ((row: MeasuredRow) => readonly number[]) | null;
}

/** The statement of a page, one part after the other, and what is made of its rows. */
export function askPage(parts: readonly MeasuredPart[], after: PagePlace | null, limit: number) {
  const [index = 0, ...key] = after ?? [];
  const { text, values, first, keyOf } = parts[index] as MeasuredPart;
  const toPage = (rows: readonly MeasuredRow[]): MeasuredPage => {
    const last = rows.at(-1);
    if (keyOf !== null && last !== undefined && rows.length >= limit) return { rows, next: [index, ...keyOf(last)] };
    return { rows, next: index + 1 < parts.length ? [index + 1] : null };
  };
  return { text: text(limit), values: values(key.length > 0 ? key : first), toPage };
}

/** A part that never has many rows, and so is one page. */
export const wholePart = { first: [], keyOf: null } satisfies Partial<MeasuredPart>;

/** A statement with further columns, by which its rows are ordered. */
export const withKey = (text: string, columns: string): string => text.replace('select', `select ${columns},`);

/** Jobs that failed without a run. */
export function failedPart(measuredEvents: (events: string) => string, { from, until }: Span): MeasuredPart {
  const isNext = 'events.at >= ? and (events.at > ? or events.id > ?) and events.at < ?';
  return {
    text: (limit) =>
      `${withKey(measuredEvents(isNext), 'events.id as id')} order by events.at, events.id limit ${limit}`,
    values: ([at, id]) => [at, at, id, until],
    first: [from, 0],
    keyOf: ({ finished_at, id }) => [finished_at as number, id],
  };
}

/** Figures whose rows are gone, or came too late. */
export const uncountedPart = (before: number): MeasuredPart => ({
  text: (limit) => `select * from uncounted where id > ?
    and ((counts_start = 1 and started_at < ?) or (counts_end = 1 and finished_at < ?)) order by id limit ${limit}`,
  values: ([id]) => [id, before, before],
  first: [0],
  keyOf: ({ id }) => [id],
});

const HOUR_MS = 3_600_000;

/** How many jobs were added in each hour of some time, which is the two values. */
export const addedText = (handlerOf: (name: string) => string): string =>
  `select 'queue/' || ${handlerOf('name')} as name,
     created_at - ((created_at % ${HOUR_MS}) + ${HOUR_MS}) % ${HOUR_MS} as "hour", count(*) as jobs
   from jobs where tier is null and created_at >= ? and created_at < ? group by 1, 2`;
