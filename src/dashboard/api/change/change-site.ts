import { z } from '@hono/zod-openapi';
import { HTTPException } from 'hono/http-exception';
import {
  acknowledgeIncidents,
  endMutes,
  noSuchIncident,
  readMutes,
  setMutes,
} from '../../../monitor/alert/incidents/by-hand.ts';
import { findPause, pause, resume } from '../../../queue/pauses.ts';
import { incidentToJson, muteToJson, pauseToJson } from '../../../report/json.ts';
import { findPausables, findPausedNames, toPauses } from '../../../report/model/pausables.ts';
import { requestRun } from '../../run-now.ts';
import { answer, idSchema, orNull, textSchema } from '../fields.ts';
import { muteSchema } from '../read/monitor.ts';
import { type Api, defineRoute, jsonResponse } from '../route.ts';
import { incidentSchema, pauseSchema } from '../schemas.ts';
import { durationSchema, jsonBody, optional, optionalJsonBody, readExactly, receiveBody } from './bodies.ts';

const patternParam = z.object({
  pattern: textSchema.openapi({ example: 'hourly/clean-tmp', description: 'Slashes stand as they are' }),
});

const pauseRoute = defineRoute('manage', {
  method: 'put',
  path: '/api/pauses/{pattern{.+}}',
  summary: 'Pauses a tier, a script, `queue`, jobs by name or pattern, or everything (`*`); replaces a pause it has',
  request: {
    params: patternParam,
    ...optionalJsonBody(
      z.strictObject({
        for: optional(durationSchema).openapi({ description: 'How long. Default: until it is resumed' }),
        fail: optional(z.boolean()).openapi({ description: 'Only jobs of the queue: what is due fails' }),
      }),
    ),
  },
  responses: { 200: jsonResponse('The pause', pauseSchema) },
});

const resumeRoute = defineRoute('manage', {
  method: 'delete',
  path: '/api/pauses/{pattern{.+}}',
  summary: 'Ends a pause; one that there is not stays so',
  request: { params: patternParam },
  responses: {
    200: jsonResponse(
      'What was resumed',
      z.object({
        resumed: z.array(z.string()),
        pause: orNull(pauseSchema).openapi({ description: 'A wider one that still holds it' }),
      }),
    ),
  },
});

const muteRoute = defineRoute('manage', {
  method: 'put',
  path: '/api/mutes/{pattern{.+}}',
  summary: 'Tells nobody about incidents of subjects with such names for a while; replaces a mute of the same pattern',
  request: {
    params: patternParam,
    ...optionalJsonBody(
      z.strictObject({
        for: optional(durationSchema).openapi({ description: 'How long. Default: until it is taken back' }),
      }),
    ),
  },
  responses: { 200: jsonResponse('The mute', muteSchema) },
});

const unmuteRoute = defineRoute('manage', {
  method: 'delete',
  path: '/api/mutes/{pattern{.+}}',
  summary: 'Ends a mute; one that there is not stays so',
  request: { params: patternParam },
  responses: { 200: jsonResponse('What was unmuted', z.object({ unmuted: z.array(z.string()) })) },
});

const acknowledgeRoute = defineRoute('manage', {
  method: 'post',
  path: '/api/incidents/{id}/acknowledge',
  summary: 'Ends the daily reminders of an open incident; one that is acknowledged stays so',
  request: { params: z.object({ id: idSchema }) },
  responses: { 200: jsonResponse('The incident', incidentSchema) },
});

const runRoute = defineRoute('manage', {
  method: 'post',
  path: '/api/runs',
  summary: 'Starts a script now, as `runner run` does, and does not wait for its end',
  request: jsonBody(z.strictObject({ script: z.string().min(1).max(1000).openapi({ example: 'hourly/clean-tmp' }) })),
  responses: {
    202: jsonResponse('It has been started', z.object({ script: z.string(), pid: z.int() })),
  },
});

/** Pauses, mutes, what is known of an incident, and running a script now. */
export function addSiteChangeRoutes(api: Api): void {
  for (const path of ['/api/pauses/*', '/api/mutes/*', '/api/runs', '/api/incidents/*']) api.use(path, receiveBody);
  addPauseRoutes(api);
  addMuteRoutes(api);
  api.openapi(acknowledgeRoute, async (c) => {
    const { site, caller } = c.var;
    const word = String(c.req.valid('param').id);
    const [incident] = await site.changes.use((shared) =>
      shared.change(caller.name, (session) => acknowledgeIncidents(session, word, site.now())),
    );
    if (incident === undefined) throw new HTTPException(404, { message: noSuchIncident(word).message });
    return answer(c, incidentToJson(incident));
  });
  api.openapi(runRoute, async (c) => {
    const { site, caller } = c.var;
    return answer(c, await requestRun(site, c.req.valid('json').script, caller.name), 202);
  });
}

function addPauseRoutes(api: Api): void {
  api.openapi(pauseRoute, async (c) => {
    const { site, caller } = c.var;
    const wish = await readExactly(c, c.req.valid('json'));
    const at = site.now();
    toPauses([], wish, at);
    const { pattern } = c.req.valid('param');
    const names = pattern === '*' ? [pattern] : await findPausables(site.root, [pattern]);
    const [wanted] = toPauses(names, wish, at);
    if (wanted === undefined) throw new HTTPException(404, { message: 'There is nothing of that name.' });
    await site.changes.use((shared) => shared.change(caller.name, (session) => pause(session, wanted)));
    return answer(c, pauseToJson(wanted));
  });
  api.openapi(resumeRoute, async (c) => {
    const { site, caller } = c.var;
    const { pattern } = c.req.valid('param');
    const at = site.now();
    const pauses = await site.read(async (log) => log.pauses);
    const [name = pattern] = pattern === '*' ? [pattern] : await findPausedNames(site.root, [pattern], pauses);
    const resumed = await site.changes.use((shared) =>
      shared.change(caller.name, (session) => resume(session, name, at)),
    );
    const rest = pauses.filter((each) => !resumed.includes(each.name));
    const wider = findPause(rest, name);
    return answer(c, { resumed, pause: wider && pauseToJson(wider) });
  });
}

function addMuteRoutes(api: Api): void {
  api.openapi(muteRoute, async (c) => {
    const { site, caller } = c.var;
    const { for: duration } = await readExactly(c, c.req.valid('json'));
    const mutes = readMutes([c.req.valid('param').pattern], duration, site.now());
    await site.changes.use((shared) => shared.change(caller.name, (session) => setMutes(session, mutes)));
    return answer(c, muteToJson(mutes[0] as (typeof mutes)[number]));
  });
  api.openapi(unmuteRoute, async (c) => {
    const { site, caller } = c.var;
    const { pattern } = c.req.valid('param');
    const ended = await site.changes.use((shared) =>
      shared.change(caller.name, (session) => endMutes(session, [pattern], site.now())),
    );
    return answer(c, { unmuted: ended.map(({ name }) => name) });
  });
}
