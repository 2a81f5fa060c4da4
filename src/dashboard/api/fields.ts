import { z } from '@hono/zod-openapi';
import type { Context, TypedResponse } from 'hono';
import { HTTPException } from 'hono/http-exception';
import type { Site } from '../../discovery/site.ts';
import { formatJsonLine } from '../../report/json.ts';
import { EXPECTED_TIME, type OpenWindow, readTimeSpan } from '../../report/text/filters.ts';
import { type Fields, type RecordOf, record, shown } from '../../system/base/record.ts';
import { isZone } from '../../system/base/zone.ts';
import type { LiveSite } from '../site.ts';
import { InvalidParameter } from './route.ts';

/** Answer of every list. Pass `next` as `cursor` to get the following items; null: there are none. */
export const pageOf = <F extends Fields>(items: RecordOf<F>) =>
  record(null, { items: shown.list(shown.one(items)), next: shown.text.like('hourly').orNull });

/** Answer of every list that is read piece by piece: `pageFields` has its parameters. */
export const pagedOf = <F extends Fields>(items: RecordOf<F>) =>
  record(null, {
    ...pageOf(items).fields,
    total: shown.integer.orNull.about(
      'The number of all that fit; null: it was not asked for, or a search is too slow to count',
    ),
  });

/** The values of models in the form of schemas. */
type Plain<T> = T extends readonly (infer Item)[]
  ? Plain<Item>[]
  : T extends object
    ? { -readonly [Key in keyof T]: Plain<T[Key]> }
    : T;

/** JSON as `--json` writes it: data is passed on letter by letter, and nothing in it can harm a terminal. */
export function answer<T, Status extends 200 | 201 | 202 = 200>(
  c: Context,
  body: T,
  status: Status = 200 as Status,
): Response & TypedResponse<Plain<T>, Status, 'json'> {
  const text = formatJsonLine(body);
  return c.body(text, status, { 'content-type': 'application/json' }) as never;
}

const oneText = z.string({ error: 'must be one value' });

/** A number among a query's or a path's words. */
export function wholeNumber(least: number, most: number) {
  return oneText
    .transform((text, ctx) => {
      const number = /^\d{1,16}$/.test(text) ? Number(text) : Number.NaN;
      if (number >= least && number <= most) return number;
      ctx.addIssue(`must be a whole number from ${least} to ${most}, found ${JSON.stringify(text)}`);
      return z.NEVER;
    })
    .openapi({ type: 'integer', minimum: least, maximum: most });
}

/** The number of a run, a job, a worker or an incident. */
export const idSchema = wholeNumber(1, Number.MAX_SAFE_INTEGER).openapi({ example: 1 });

export const textSchema = oneText.min(1, 'must be some text').max(1000, 'must be at most 1000 characters');

/** A text to look for. */
export const searchSchema = textSchema.max(200, 'must be at most 200 characters').optional();

/** When: a duration back from now, or a local time. */
export const timeSchema = textSchema.refine((text) => readTimeSpan(text, Date.now()) !== null, {
  error: ({ input }) => `must be ${EXPECTED_TIME}, found ${JSON.stringify(input)}`,
});

/** A list of words that are known, separated by commas. */
export function anyOf<Word extends string>(words: readonly Word[]) {
  return oneText
    .transform((text, ctx) => {
      const found = text.split(',').map((word) => word.trim());
      const wrong = found.find((word) => !words.includes(word as Word));
      if (wrong === undefined) return found as Word[];
      ctx.addIssue(`must be one or more of ${words.join(', ')}, separated by commas; found ${JSON.stringify(wrong)}`);
      return z.NEVER;
    })
    .openapi({ type: 'string', example: words.slice(0, 2).join(',') });
}

export function oneOf<const Words extends readonly [string, ...string[]]>(words: Words) {
  return z.enum(words, { error: ({ input }) => `must be one of ${words.join(', ')}, found ${JSON.stringify(input)}` });
}

/** @param what the times or days that it is of */
export function zoneField(what: string) {
  return textSchema
    .refine(isZone, { error: ({ input }) => `must be a time zone, found ${JSON.stringify(input)}` })
    .optional()
    .openapi({ example: 'Europe/Berlin', description: `Time zone of the ${what}. Default: that of the server` });
}

/** From when on and before when; a day given to `until` is included. */
export const windowFields = {
  since: timeSchema.optional().openapi({ example: '24h', description: `From then on: ${EXPECTED_TIME}` }),
  until: timeSchema.optional().openapi({ description: 'Before this time; a day is included' }),
};

export type WindowWords = z.infer<z.ZodObject<typeof windowFields>>;

/** @throws {InvalidParameter} for a window that ends before it begins */
export function readWindow({ since, until }: WindowWords, nowMs: number): OpenWindow {
  const window = {
    sinceMs: since === undefined ? undefined : readTimeSpan(since, nowMs)?.startMs,
    untilMs: until === undefined ? undefined : readTimeSpan(until, nowMs)?.endMs,
  };
  if ((window.sinceMs ?? 0) < (window.untilMs ?? Number.MAX_SAFE_INTEGER)) return window;
  throw new InvalidParameter('since', `${since} is not before ${until}, so there can be nothing between them`);
}

/** The same with an end and a beginning: without them, so far back from now. */
export function readClosedWindow(words: WindowWords, nowMs: number, backMs: number) {
  const { sinceMs, untilMs = nowMs + 1 } = readWindow(words, nowMs);
  return { sinceMs: sinceMs ?? Math.min(nowMs, untilMs - 1) - backMs, untilMs };
}

/** Asks for what takes longer than the rest of an answer. */
export const flagField = (description: string) => z.enum(['true']).optional().openapi({ description });

/**
 * How lists are read piece by piece.
 *
 * @param length how many numbers name the place of an item
 */
export const pageFields = (length: number) => ({
  limit: wholeNumber(1, 500).default(50).openapi({ default: 50 }),
  cursor: oneText
    .max(200)
    .transform((text, ctx) => {
      const place = readCursor(text, length);
      if (place !== null) return place;
      ctx.addIssue('must be `next` of an answer to the same question');
      return z.NEVER;
    })
    .optional()
    .openapi({ type: 'string', description: '`next` of the previous answer' }),
  count: flagField('Also count all that fit, as `total`'),
});

/** The server answers no other request during a search. */
export const LONGEST_SEARCH_MS = 200;

/** For `total` of a page: all that fit are counted on request alone. */
export async function readTotal(count: 'true' | undefined, read: () => Promise<number | null>): Promise<number | null> {
  return count === undefined ? null : await read();
}

/** A page of a list, of which one item more is read than was asked for: that tells whether there are more. */
export async function readPage<T>(
  limit: number,
  select: (limit: number) => Promise<readonly T[]>,
  placeOf: (last: T) => readonly number[],
) {
  const found = await select(limit + 1);
  const last = found.length > limit ? found[limit - 1] : undefined;
  return { items: found.slice(0, limit), next: last === undefined ? null : writeCursor(...placeOf(last)) };
}

/** The start of the next page: numbers of the last item, opaque to callers. */
export function writeCursor(...place: readonly number[]): string {
  return Buffer.from(JSON.stringify(place)).toString('base64url');
}

/** Null: no answer has given it. */
function readCursor(cursor: string, length: number): number[] | null {
  const place = parse(Buffer.from(cursor, 'base64url').toString());
  return Array.isArray(place) && place.length === length && place.every(Number.isSafeInteger) ? place : null;
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

/**
 * Reads the log for an answer that needs it. If nothing was ever recorded, the log is empty.
 *
 * @throws {HTTPException} 503, with the reason, if the log exists and cannot be read
 */
export async function readLog<T>(site: LiveSite, use: (site: Site) => Promise<T>): Promise<T> {
  return await site.read(async (found) => {
    if (found.problem !== null) throw new HTTPException(503, { message: found.problem });
    return await use(found);
  });
}
