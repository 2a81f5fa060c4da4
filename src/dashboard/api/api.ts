import { OpenAPIHono } from '@hono/zod-openapi';
import { HTTPException } from 'hono/http-exception';
import type { ContentfulStatusCode } from 'hono/utils/http-status';
import { QueueError, type QueueErrorCode } from '../../queue/errors.ts';
import { StoreUnavailable } from '../../store/failures.ts';
import { UsageError } from '../../system/base/errors.ts';
import type { Site } from '../site.ts';
import { apiDocument } from './document.ts';
import { addEventRoutes } from './events.ts';
import { addOverviewRoutes } from './overview.ts';
import type { Api, ApiEnv, Caller, Problem } from './route.ts';

/** All that the commands show and do, as JSON over HTTP. */
export function createApi(site: Site, caller: Caller): Api {
  const api = new OpenAPIHono<ApiEnv>({ defaultHook: refuseInvalid });
  api.use(async (c, next) => {
    c.set('site', site);
    c.set('caller', caller);
    await next();
  });
  api.openAPIRegistry.registerComponent('securitySchemes', 'token', { type: 'http', scheme: 'bearer' });
  addOverviewRoutes(api);
  addEventRoutes(api);
  api.get('/api/openapi.json', (c) => c.json(apiDocument(api, site.version)));
  api.notFound(() => problem(404, { detail: 'There is nothing at this address.' }));
  api.onError((error) => describeError(error));
  return api;
}

type InvalidHook = NonNullable<NonNullable<ConstructorParameters<typeof OpenAPIHono<ApiEnv>>[0]>['defaultHook']>;

const refuseInvalid: InvalidHook = (result) => {
  if (result.success) return;
  const errors = result.error.issues.map(({ path, message }) => ({
    in: result.target,
    name: path.join('.'),
    detail: message,
  }));
  return problem(400, { detail: 'Some values of the request are not valid.', errors });
};

const statusOfCodes: Readonly<Record<QueueErrorCode, ContentfulStatusCode>> = {
  invalid: 400,
  'no-such-job': 404,
  'wrong-state': 409,
  'stale-claim': 409,
  'deadline-soon': 409,
};

function describeError(error: Error): Response {
  if (error instanceof HTTPException) return problem(error.status, { detail: error.message });
  if (error instanceof QueueError) return problem(statusOfCodes[error.code], { detail: error.message });
  if (error instanceof UsageError) return problem(400, { detail: error.message });
  if (error instanceof StoreUnavailable) return problem(503, { detail: error.message });
  process.stderr.write(`runner: a request failed unexpectedly. ${error.stack}\n`);
  return problem(500, { detail: 'The server failed; its own output tells more.' });
}

const titles: Readonly<Record<number, string>> = {
  400: 'Bad request',
  404: 'Not found',
  409: 'Conflict',
  500: 'Internal error',
  503: 'The activity log is unavailable',
};

/** A refusal as RFC 9457 has it. */
export function problem(status: ContentfulStatusCode, more: Pick<Problem, 'detail' | 'errors'>): Response {
  const body: Problem = { type: 'about:blank', title: titles[status] ?? 'Refused', status, ...more };
  return new Response(JSON.stringify(body), { status, headers: { 'content-type': 'application/problem+json' } });
}
