import { z } from '@hono/zod-openapi';
import type { Context } from 'hono';
import { HTTPException } from 'hono/http-exception';
import { type ExactJson, itemsOf, memberOf, parseExactly } from '../../../system/base/exact-json.ts';

/** Of a caller that leaves out what is null, and of one that does not. */
export const optional = <S extends z.ZodType>(schema: S) => schema.nullish();

/** Any JSON. It is passed on as it is written: long numbers keep their digits, objects their order. */
export const anyJson = z.unknown().openapi({ description: 'Any JSON, kept unchanged' });

export const durationSchema = z.string().max(100).openapi({ example: '10m' });
export const whenSchema = z
  .union([z.string().max(100), z.int()])
  .openapi({ description: 'Epoch milliseconds, or words: `+10 minutes`, `2026-12-24 18:00`', example: '+10 minutes' });
export const prioritySchema = z.int().openapi({ description: 'Higher ones are claimed first. Default: 500' });
export const reasonSchema = z.string().max(65_536);
/** Checked by the queue, which says what a name may be. */
export const jobNameSchema = z.string().max(1000).openapi({ example: 'mail/welcome' });
export const tokenSchema = z
  .string()
  .max(200)
  .openapi({ description: 'Token of the claim: the request only works while it is valid' });

export function jsonBody<S extends z.ZodType>(schema: S) {
  return { body: { required: true, content: { 'application/json': { schema } } } } as const;
}

/** One that may be left out, where nothing in it must be said. */
export function optionalJsonBody<S extends z.ZodType>(schema: S) {
  return { body: { required: false, content: { 'application/json': { schema } } } } as const;
}

/**
 * Reads the body once, as text of the right encoding, so that it can be passed on letter by letter.
 *
 * @throws {HTTPException} for one that is none
 */
export async function receiveBody(c: Context, next: () => Promise<void>): Promise<void> {
  const bytes = await c.req.arrayBuffer();
  try {
    new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    throw new HTTPException(400, { message: 'The body is not UTF-8.' });
  }
  await next();
}

type Written = Readonly<Record<string, unknown>>;

/** What was said in a body, without what is null or left out, with these members of it as they are written. */
export async function readExactly<T extends Written>(c: Context, body: T, ...members: string[]): Promise<Said<T>> {
  const text = await c.req.text();
  return said(body, parseExactly(text === '' ? '{}' : text) as ExactJson, members);
}

/** The same of a list of them. */
export async function readListExactly<T extends Written>(
  c: Context,
  bodies: readonly T[],
  ...members: string[]
): Promise<Said<T>[]> {
  const texts = itemsOf(parseExactly(await c.req.text()) as ExactJson);
  return bodies.map((body, index) => said(body, texts[index] as ExactJson, members));
}

/** Whatever may be left out is not there. */
type Said<T> = { readonly [Key in keyof T]: Exclude<T[Key], null | undefined> };

function said<T extends Written>(body: T, json: ExactJson, members: readonly string[]): Said<T> {
  const plain = Object.entries(body).filter(
    ([key, value]) => value !== null && value !== undefined && !members.includes(key),
  );
  const exact = members.filter((key) => Object.hasOwn(body, key)).map((key) => [key, memberOf(json, key)]);
  return Object.fromEntries([...plain, ...exact]) as Said<T>;
}
