import { z } from '@hono/zod-openapi';
import { permissionOf, type VerbName, verbNames, verbOf } from '../../queue/settle/verbs.ts';
import { permissionsWithin, tokenPermissions } from '../../store/words.ts';
import { capitalized } from '../../system/base/text.ts';
import { hostZone } from '../../system/base/zone.ts';
import { type Api, defineRoute, instantSchema, jsonResponse, type Refusal, type SessionInfo } from './route.ts';

const sessionSchema = z
  .object({
    name: z.string().openapi({ description: 'Who you are: recorded with what you change', example: 'token laptop' }),
    permission: z.enum(tokenPermissions),
    may: z.array(z.enum(tokenPermissions)).openapi({ description: 'All permissions that yours includes' }),
    csrf: z.string().nullable().openapi({
      description: 'Send it as X-CSRF-Token with requests that change something; null: not needed',
      example: '9b2c7c0c5d',
    }),
    expiresAt: instantSchema.nullable().openapi({ description: 'null: it has no end' }),
    zone: z.string().openapi({ description: 'The time zone of the server', example: 'Europe/Berlin' }),
    buttons: z
      .array(
        z.object({
          verb: z.enum(verbNames),
          words: z.string().openapi({ description: 'Its words; `…` stands for the jobs', example: 'Run … now' }),
          effect: z.string().openapi({ example: 'Due at once, with all its tries' }),
          done: z.string().openapi({ description: 'Completes "Job 7 (mail/welcome)"', example: 'made due now' }),
          warning: z.string().nullable().openapi({
            description: 'Asked about before; null: it does no harm',
            example: 'It runs from its beginning.',
          }),
          isDangerous: z.boolean(),
        }),
      )
      .openapi({ description: 'The verbs of a job that the dashboard shows to you as buttons' }),
  })
  .openapi('Session');

const credentialSchema = z.object({
  token: z.string().max(200).openapi({
    description: 'A token, or a key that `npx folder-runner web` has printed, which is valid once',
    example: 'frt_4fzzzxjylrxkaz',
  }),
});

const getRoute = defineRoute('wall', {
  operationId: 'getSession',
  method: 'get',
  path: '/api/session',
  summary: 'Who you are, and what you may do',
  responses: { 200: jsonResponse('You', sessionSchema) },
});

const loginRoute = defineRoute('none', {
  operationId: 'logIn',
  method: 'post',
  path: '/api/session',
  summary: 'Logs a browser in: sets a cookie',
  request: { body: { required: true, content: { 'application/json': { schema: credentialSchema } } } },
  responses: { 200: jsonResponse('You, from now on', sessionSchema) },
});

const logoutRoute = defineRoute('wall', {
  operationId: 'logOut',
  method: 'delete',
  path: '/api/session',
  summary: 'Logs out: the cookie is no longer valid',
  responses: { 204: { description: 'Done, also where there was no session' } },
});

/** @param refuse what answers a refusal */
export function addSessionRoutes(api: Api, refuse: (refusal: Refusal) => Response): void {
  api.openapi(getRoute, (c) => c.json(toJson(c.var.access.session(c)), 200));
  api.openapi(loginRoute, async (c) => {
    const opened = await c.var.access.login(c, c.req.valid('json').token);
    if ('status' in opened) return refuse(opened) as never;
    return c.json(toJson(opened), 200);
  });
  api.openapi(logoutRoute, (c) => {
    c.var.access.logout(c);
    return c.body(null, 204);
  });
}

function toJson({ name, permission, csrf, expiresAt }: SessionInfo): z.infer<typeof sessionSchema> {
  const end = expiresAt === null ? null : new Date(expiresAt).toISOString();
  const may = [...permissionsWithin(permission)];
  const buttons = verbNames.filter((verb) => may.includes(permissionOf(verb))).flatMap(toButton);
  return { name, permission, may, csrf, expiresAt: end, zone: hostZone(), buttons };
}

function toButton(verb: VerbName) {
  const { button, done } = verbOf(verb);
  return button === undefined ? [] : [{ verb, words: `${capitalized(verb)} …`, done, isDangerous: false, ...button }];
}
