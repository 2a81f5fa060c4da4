import { z } from '@hono/zod-openapi';
import type { Context } from 'hono';
import { HTTPException } from 'hono/http-exception';
import type { QueueOption } from '../../../queue/add/options.ts';
import { ExactJson, parseExactly } from '../../../system/base/exact-json.ts';

/** Callers may leave out null values or send them. */
export const optional = <S extends z.ZodType>(schema: S) => schema.nullish();

/** Any JSON. It is passed on as it is written: long numbers keep their digits, objects their order. */
const anyJson = z.unknown().openapi({ description: 'Any JSON, kept unchanged' });

export const durationSchema = z.string().max(100).openapi({ example: '10m' });
const whenSchema = z
  .union([z.string().max(100), z.int()])
  .openapi({ description: 'Epoch milliseconds, or words: `+10 minutes`, `2026-12-24 18:00`', example: '+10 minutes' });
export const prioritySchema = z.int().openapi({ description: 'Higher ones are claimed first. Default: 500' });
/** Checked by the queue, which says what a name may be. */
export const jobNameSchema = z.string().max(1000).openapi({ example: 'mail/welcome' });
export const tokenSchema = z
  .string()
  .max(200)
  .openapi({ description: 'Token of the claim: the request only works while it is valid' });

/** By what an option takes; the queue checks the rest. */
const schemas = {
  json: anyJson,
  name: jobNameSchema,
  when: whenSchema,
  duration: durationSchema,
  delay: z.string().max(100).openapi({ example: 'exponential 30s 6h' }),
  rule: z.string().max(1000).openapi({ example: 'SCHEDULED, +1 HOUR' }),
  priority: prioritySchema,
  retries: z.int().min(0).max(100),
  id: z.int().min(1),
  key: z.string().max(255),
  reason: z.string().max(65_536),
  yes: z.boolean(),
} as const;

/** The fields of a body with these options of the queue. */
export function optionFields(options: Readonly<Record<string, QueueOption>>): Record<string, z.ZodType> {
  return Object.fromEntries(Object.entries(options).map(([name, option]) => [name, optionField(option)]));
}

function optionField({ takes, note }: QueueOption): z.ZodType {
  if (takes === 'json') return anyJson.optional();
  const schema = optional(typeof takes === 'string' ? schemas[takes] : z.enum(takes));
  return note === undefined ? schema : schema.openapi({ description: note });
}

export function jsonBody<S extends z.ZodType>(schema: S) {
  return { body: { required: true, content: { 'application/json': { schema } } } } as const;
}

/** One that may be left out, where nothing in it must be said. */
export function optionalJsonBody<S extends z.ZodType>(schema: S) {
  return { body: { required: false, content: { 'application/json': { schema } } } } as const;
}

/**
 * Reads the body of a change once, as text of the right encoding, so that it can be passed on letter by letter.
 *
 * @throws {HTTPException} for one that is none
 */
export async function receiveBody(c: Context, next: () => Promise<void>): Promise<void> {
  if (['POST', 'PUT', 'PATCH'].includes(c.req.method)) {
    const bytes = await c.req.arrayBuffer();
    try {
      new TextDecoder('utf-8', { fatal: true }).decode(bytes);
    } catch {
      throw new HTTPException(400, { message: 'The body is not UTF-8.' });
    }
  }
  await next();
}

type Written = Readonly<Record<string, unknown>>;

/** The fields of a body that are neither null nor left out. */
export function said<T extends Written>(body: T): { readonly [Key in keyof T]: Exclude<T[Key], null | undefined> } {
  const given = Object.entries(body).filter(([, value]) => value !== null && value !== undefined);
  return Object.fromEntries(given) as ReturnType<typeof said<T>>;
}

/** The request's body as it is written. */
export async function readBodyText(c: Context): Promise<ExactJson> {
  const text = await c.req.text();
  return parseExactly(text === '' ? '{}' : text) ?? new ExactJson('null');
}
