import type { IncomingMessage, ServerResponse } from 'node:http';
import { createRoute, type OpenAPIHono, type RouteConfig, z } from '@hono/zod-openapi';
import type { Context, MiddlewareHandler } from 'hono';
import { matchedRoutes } from 'hono/route';
import type { ContentfulStatusCode } from 'hono/utils/http-status';
import { permissionsWithin, type TokenPermission, tokenPermissions } from '../../store/words.ts';
import type { Fields, RecordOf } from '../../system/base/record.ts';
import type { LiveSite } from '../site.ts';
import { type AnswerRecord, leaveOut } from './left-out.ts';
import { recordOf, schemaOf } from './schema-of.ts';

/** The client of a request. */
export interface Caller {
  /** Recorded with what they change: `token laptop`, `user 1000`. */
  readonly name: string;
  readonly permission: TokenPermission;
  /** True: answers leave out the fields that not everybody may see. */
  readonly isAnybody?: boolean;
}

/** Why somebody is not let in. */
export interface Refusal {
  readonly status: ContentfulStatusCode;
  readonly detail: string;
  /** A credential was sent that is not valid. */
  readonly isWrongCredential?: boolean;
  /** After how many seconds it may be tried again. */
  readonly retryAfterS?: number;
}

/** Facts about the viewer that the page needs. */
export interface SessionInfo extends Caller {
  /** To be sent as `X-CSRF-Token` with whatever changes something; null: not needed. */
  readonly csrf: string | null;
  /** UTC epoch milliseconds; null: it does not end. */
  readonly expiresAt: number | null;
}

/** Decides which requests are let in. */
export interface Access {
  /** Asked before each route; null: it has not said whom it is for. */
  admit(c: Context<ApiEnv>, demanded: Demand | null): Promise<Caller | Refusal>;
  login(c: Context<ApiEnv>, token: string): Promise<SessionInfo | Refusal>;
  logout(c: Context<ApiEnv>): void;
  session(c: Context<ApiEnv>): SessionInfo;
}

/** The context of each handler: `c.var.site`. */
export interface ApiEnv {
  readonly Variables: {
    readonly site: LiveSite;
    readonly caller: Caller;
    readonly access: Access;
    /** At which version of the log it is answered; absent: nobody follows it. */
    readonly version?: string;
  };
  /** Absent where the API is asked within this process. */
  readonly Bindings: { readonly incoming?: IncomingMessage; readonly outgoing?: ServerResponse };
}

export type Api = OpenAPIHono<ApiEnv>;

/** RFC 9457; `errors` names each value that was refused. */
const problemSchema = z
  .object({
    type: z.string().openapi({ example: 'about:blank' }),
    title: z.string().openapi({ example: 'Bad request' }),
    status: z.int().openapi({ example: 400 }),
    detail: z.string().optional().openapi({ example: 'Some values of the request are not valid.' }),
    errors: z
      .array(z.object({ in: z.string(), name: z.string(), detail: z.string() }))
      .optional()
      .openapi({
        example: [{ in: 'query', name: 'limit', detail: 'must be a whole number from 1 to 500, found "0"' }],
      }),
  })
  .openapi('Problem');

export type ProblemBody = z.infer<typeof problemSchema>;

const problemResponse = {
  description: 'The problem, and how to fix it',
  content: { 'application/problem+json': { schema: problemSchema } },
} as const;

/** The permission that a route demands; `none`: it admits everybody, and knows nothing about the caller. */
export type Demand = TokenPermission | 'none';

const demands = new WeakMap<object, Demand>();
const strictness: readonly Demand[] = ['none', ...tokenPermissions];

/**
 * Stands before the handler of a route, and says what it asks for. A route without it is refused.
 *
 * @param answered what it answers: of anything else nothing is shown to anybody, unless the route is for walls, too
 */
export function demand(demanded: Demand, answered: AnswerRecord | null = null): MiddlewareHandler<ApiEnv> {
  const pass: MiddlewareHandler<ApiEnv> = async (c, next) => {
    await next();
    const { permission, isAnybody = permission === 'wall' } = c.var.caller;
    if (!isAnybody || !c.res.ok || (demanded === 'wall' && answered === null)) return;
    c.res = Response.json(await readPublicly(c.res, answered));
  };
  demands.set(pass, demanded);
  return pass;
}

async function readPublicly(answer: Response, answered: AnswerRecord | null): Promise<unknown> {
  return answered === null ? null : leaveOut(answered, (await answer.json()) as object);
}

/** Why a caller may not do something; null: they may. */
export function refuseCaller({ name, permission }: Caller, demanded: TokenPermission): string | null {
  if (permissionsWithin(permission).includes(demanded)) return null;
  return `${name} has the permission ${permission}; this needs ${demanded}.`;
}

/** The strictest demand among the routes that match a request; null: none of them makes a demand. */
export function demandOf(c: Context<ApiEnv>): Demand | null {
  const found = matchedRoutes(c).flatMap(({ handler }) => demands.get(handler) ?? []);
  return strictness.findLast((each) => found.includes(each)) ?? null;
}

/** The parts of the document. */
export const tags = [
  { name: 'Site', description: 'The whole site: its verdict, tiers, workers, activity, metrics, pauses and settings' },
  { name: 'Scripts', description: 'Scripts and handlers: their figures, and why they do or do not run' },
  { name: 'Runs', description: 'Runs of scripts and of jobs, with their output' },
  { name: 'Jobs', description: 'Jobs of the queue' },
  { name: 'Incidents', description: 'What is or was wrong, and who is not told about it' },
  { name: 'Session', description: 'Who asks' },
] as const;

type Tag = (typeof tags)[number]['name'];

/** By the first word of the path. Default: the site. */
const tagsOfWords: Readonly<Record<string, Tag>> = {
  scripts: 'Scripts',
  why: 'Scripts',
  runs: 'Runs',
  failures: 'Runs',
  jobs: 'Jobs',
  queue: 'Jobs',
  incidents: 'Incidents',
  mutes: 'Incidents',
  session: 'Session',
};

/** `/api/jobs/{id}` is about jobs. */
function tagOf(path: string): Tag {
  return tagsOfWords[path.split('/')[2] ?? ''] ?? 'Site';
}

/** A route that demands this permission. It answers every error with a problem. */
export function defineRoute<const R extends RouteConfig & { readonly operationId: string }>(
  permission: Demand,
  route: R,
) {
  const problems = { '4XX': problemResponse, '5XX': problemResponse } as const;
  const made = createRoute({
    ...route,
    tags: [tagOf(route.path)],
    security: permission === 'none' ? [] : [{ token: [permission] }, { session: [permission] }],
    responses: { ...route.responses, ...problems } as R['responses'],
  });
  const ok = route.responses[200] as { readonly content?: Readonly<Record<string, { schema: object }>> } | undefined;
  const json = ok?.content?.['application/json'];
  const answered = (json && answeredRecords.get(json)) ?? recordOf(json?.schema);
  return Object.assign(made, { middleware: demand(permission, answered) }) as typeof made;
}

const answeredRecords = new WeakMap<object, AnswerRecord>();

/** A successful answer that is a record: its schema is made once somebody asks for the document of the API. */
export function recordResponse<F extends Fields>(description: string, record: RecordOf<F>) {
  let schema: ReturnType<typeof schemaOf<F>> | undefined;
  const json = {
    get schema() {
      schema ??= schemaOf(record);
      return schema;
    },
  };
  answeredRecords.set(json, record);
  return { description, content: { 'application/json': json } } as const;
}

/** A successful answer. */
export function jsonResponse<S extends z.ZodType>(description: string, schema: S) {
  return { description, content: { 'application/json': { schema } } } as const;
}

/** An instant, UTC: `2026-11-01T10:00:00.000Z`. */
export const instantSchema = z.iso.datetime();

/** A value of the query or the path that only its handler can find wrong. */
export class InvalidParameter extends Error {
  readonly parameter: string;

  /** @param detail what was expected, and what was found */
  constructor(parameter: string, detail: string) {
    super(detail);
    this.parameter = parameter;
  }
}
