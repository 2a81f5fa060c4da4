import { OpenAPIHono } from '@hono/zod-openapi';
import type { MiddlewareHandler } from 'hono';
import { bodyLimit } from 'hono/body-limit';
import { HTTPException } from 'hono/http-exception';
import type { ContentfulStatusCode } from 'hono/utils/http-status';
import { QueueError, type QueueErrorCode } from '../../queue/errors.ts';
import { StoreUnavailable } from '../../store/failures.ts';
import { NoSuchName, UsageError } from '../../system/base/errors.ts';
import { rememberAnswers } from '../live/memo.ts';
import { type LiveSite, withoutPlaces } from '../site.ts';
import { receiveBody } from './change/bodies.ts';
import { addJobChangeRoutes } from './change/change-jobs.ts';
import { addRunChangeRoutes } from './change/change-runs.ts';
import { addSiteChangeRoutes } from './change/change-site.ts';
import { addClaimRoutes } from './change/claim.ts';
import { addEventRoutes, markVersion } from './events.ts';
import { addExamples } from './examples.ts';
import { activityViews } from './read/activity.ts';
import { jobViews } from './read/jobs.ts';
import { addPrometheusRoute, monitorViews } from './read/monitor.ts';
import { nextView } from './read/next.ts';
import { overviewViews } from './read/overview.ts';
import { addOutputRoute, runViews } from './read/runs.ts';
import { scriptViews } from './read/scripts.ts';
import { settingsViews } from './read/settings.ts';
import { tierViews } from './read/tiers.ts';
import {
  type Access,
  type Api,
  type ApiEnv,
  type Caller,
  demand,
  demandOf,
  InvalidParameter,
  type ProblemBody,
  type Refusal,
  tags,
} from './route.ts';
import { addSessionRoutes } from './session.ts';

/**
 * All that the commands show and do, as JSON over HTTP.
 *
 * @param access who is let in; within this process, the one who asks
 */
export function createApi(site: LiveSite, access: Access | Caller): Api {
  const api = new OpenAPIHono<ApiEnv>({ defaultHook: refuseInvalid });
  api.use(async (c, next) => {
    const gate = 'admit' in access ? access : openTo(access);
    c.set('site', site);
    c.set('access', gate);
    const admitted = await gate.admit(c, demandOf(c));
    if ('status' in admitted) return answerRefusal(admitted);
    c.set('caller', admitted);
    return await limitBody(c, next);
  });
  api.use('/api/*', receiveBody, markVersion, rememberAnswers());
  api.openAPIRegistry.registerComponent('securitySchemes', 'token', { type: 'http', scheme: 'bearer' });
  api.openAPIRegistry.registerComponent('securitySchemes', 'session', {
    type: 'apiKey',
    in: 'cookie',
    name: 'runner-…',
    description:
      'The cookie that POST /api/session sets. Requests that change something also need the header X-CSRF-Token.',
  });
  addSessionRoutes(api, answerRefusal);
  for (const add of overviewViews) add(api);
  addClaimRoutes(api);
  addJobChangeRoutes(api);
  addSiteChangeRoutes(api);
  addRunChangeRoutes(api);
  addEventRoutes(api);
  for (const add of [...scriptViews, ...runViews, addOutputRoute, ...jobViews, ...tierViews, nextView]) add(api);
  for (const add of [...activityViews, ...monitorViews, addPrometheusRoute, ...settingsViews]) add(api);
  api.get('/api/openapi.json', demand('wall'), (c) => c.json(apiDocument(api, site.version)));
  api.notFound(() => answerProblem(404, { detail: 'There is nothing at this address.' }));
  api.onError((error, c) => {
    const isRead = c.req.method === 'GET';
    return describeError(error, isRead ? 'query' : 'json', (text) => withoutPlaces(text, site));
  });
  return api;
}

/** Data of a job may have 1 MiB, and so may its result; several are added at once. Nothing else is long. */
const limitOfList = limitTo(16 * 1_048_576);
const limitOfJobs = limitTo(2.2 * 1_048_576);
const limitOfOthers = limitTo(65_536);

function limitTo(bytes: number): MiddlewareHandler<ApiEnv> {
  const maxSize = Math.floor(bytes);
  const detail = `The body may have ${maxSize} bytes at most.`;
  return bodyLimit({ maxSize, onError: () => answerProblem(413, { detail }) });
}

const limitBody: MiddlewareHandler<ApiEnv> = (c, next) => limitOf(c.req.path)(c, next);

function limitOf(path: string): MiddlewareHandler<ApiEnv> {
  if (path === '/api/jobs') return limitOfList;
  return path.startsWith('/api/jobs/') ? limitOfJobs : limitOfOthers;
}

/** Within this process: all is asked by one. */
function openTo(caller: Caller): Access {
  const session = { ...caller, csrf: null, expiresAt: null };
  return { admit: async () => caller, login: async () => session, logout: () => {}, session: () => session };
}

/** A refusal as a problem. */
function answerRefusal({ status, detail, isWrongCredential = false, retryAfterS }: Refusal): Response {
  const refused = answerProblem(status, { detail });
  if (status === 401)
    refused.headers.set('www-authenticate', `Bearer${isWrongCredential ? ' error="invalid_token"' : ''}`);
  if (retryAfterS !== undefined) refused.headers.set('retry-after', String(retryAfterS));
  return refused;
}

type InvalidHook = NonNullable<NonNullable<ConstructorParameters<typeof OpenAPIHono<ApiEnv>>[0]>['defaultHook']>;

const refuseInvalid: InvalidHook = (result) => {
  if (result.success) return;
  const errors = result.error.issues.map((issue) => ({
    // As the document has it.
    in: result.target === 'param' ? 'path' : result.target,
    name: issue.code === 'unrecognized_keys' ? issue.keys.join(', ') : issue.path.join('.'),
    detail: issue.code === 'unrecognized_keys' ? 'is not known here' : issue.message,
  }));
  return answerProblem(400, { detail: SOME_INVALID, errors });
};

const SOME_INVALID = 'Some values of the request are not valid.';

const statusOfCodes: Readonly<Record<QueueErrorCode, ContentfulStatusCode>> = {
  invalid: 400,
  'no-such-job': 404,
  'wrong-state': 409,
  'stale-claim': 409,
  'deadline-soon': 409,
};

function describeError(error: Error, from: 'query' | 'json', tell: (text: string) => string): Response {
  if (error instanceof HTTPException) return answerProblem(error.status, { detail: tell(error.message) });
  if (error instanceof InvalidParameter) {
    const { parameter: name, message: detail } = error;
    return answerProblem(400, { detail: SOME_INVALID, errors: [{ in: 'query', name, detail }] });
  }
  if (error instanceof QueueError) return answerProblem(statusOfCodes[error.code], partsOf(error, from, tell));
  if (error instanceof NoSuchName) return answerProblem(404, { detail: tell(error.message) });
  if (error instanceof UsageError) return answerProblem(400, { detail: tell(error.message) });
  if (error instanceof StoreUnavailable) return answerProblem(503, { detail: tell(error.message) });
  process.stderr.write(`runner: a request failed unexpectedly. ${error.stack}\n`);
  return answerProblem(500, { detail: 'The server failed; its own output says more.' });
}

/** Inside a list, a value has the name that the schema of a body gives it: `3.priority`. */
function partsOf({ message, field, index }: QueueError, from: string, tell: (text: string) => string): ProblemParts {
  const detail = tell(message);
  if (field === null) return { detail };
  return { detail, errors: [{ in: from, name: index === null ? field : `${index}.${field}`, detail }] };
}

type ProblemParts = Pick<ProblemBody, 'detail' | 'errors'>;

const titles: Readonly<Record<number, string>> = {
  400: 'Bad request',
  401: 'Who are you?',
  403: 'Not allowed',
  404: 'Not found',
  409: 'Conflict',
  413: 'Too large',
  415: 'Not JSON',
  429: 'Too many requests',
  500: 'Internal error',
  503: 'The activity log is unavailable',
};

/** A refusal as RFC 9457 has it. */
function answerProblem(status: ContentfulStatusCode, more: ProblemParts): Response {
  const body: ProblemBody = { type: 'about:blank', title: titles[status] ?? 'Refused', status, ...more };
  return new Response(JSON.stringify(body), { status, headers: { 'content-type': 'application/problem+json' } });
}

/** The OpenAPI document of the routes: `/api/openapi.json`, and what the client's types are made of. */
export function apiDocument(api: Api, version: string): ReturnType<Api['getOpenAPI31Document']> {
  const document = api.getOpenAPI31Document({
    openapi: '3.1.0',
    info: { title: 'folder-runner', version, license: { name: 'MIT', url: 'https://opensource.org/license/mit' } },
    // From the address of the document itself, whatever path a proxy serves it at.
    servers: [{ url: '..', description: 'The dashboard that has served this document' }],
    tags: [...tags],
  });
  const paths = Object.entries(document.paths ?? {}).map(([path, item]) => [path.replaceAll('{.+}', ''), item]);
  const whole = { ...document, paths: Object.fromEntries(paths) };
  addExamples(whole);
  return whole;
}
