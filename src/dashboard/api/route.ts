import { createRoute, type OpenAPIHono, type RouteConfig, z } from '@hono/zod-openapi';
import type { Site } from '../site.ts';

/** What a caller may do: look, or also change something. */
export type Permission = 'read' | 'manage';

/** Who asks. */
export interface Caller {
  /** Recorded with what they change: `token laptop`, `user 1000`. */
  readonly name: string;
  readonly permission: Permission;
}

/** What each handler finds in its context: `c.var.site`. */
export interface ApiEnv {
  readonly Variables: { readonly site: Site; readonly caller: Caller };
}

export type Api = OpenAPIHono<ApiEnv>;

/** RFC 9457; `errors` names each value that was refused. */
export const problemSchema = z
  .object({
    type: z.string(),
    title: z.string(),
    status: z.int(),
    detail: z.string().optional(),
    errors: z.array(z.object({ in: z.string(), name: z.string(), detail: z.string() })).optional(),
  })
  .openapi('Problem');

export type Problem = z.infer<typeof problemSchema>;

const problemResponse = {
  description: 'What is wrong, and how to cure it',
  content: { 'application/problem+json': { schema: problemSchema } },
} as const;

/** A route that wants this permission. Whatever goes wrong is answered by a problem. */
export function defineRoute<const R extends RouteConfig>(permission: Permission, route: R) {
  const problems = { '4XX': problemResponse, '5XX': problemResponse } as const;
  return createRoute({
    ...route,
    security: [{ token: [permission] }],
    responses: { ...route.responses, ...problems } as R['responses'],
  });
}

/** Of a successful answer. */
export function jsonResponse<S extends z.ZodType>(description: string, schema: S) {
  return { description, content: { 'application/json': { schema } } } as const;
}

/** An instant, UTC: `2026-11-01T10:00:00.000Z`. */
export const instantSchema = z.iso.datetime();
