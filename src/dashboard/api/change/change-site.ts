import { z } from '@hono/zod-openapi';
import type { Context } from 'hono';
import {
  acknowledgeIncidents,
  closeIncidents,
  endMutes,
  muteOf,
  noSuchIncident,
  setMutes,
} from '../../../monitor/alert/incidents.ts';
import { readLengthMs } from '../../../queue/add/values.ts';
import { EVERYTHING, pause, pauseOf, resume } from '../../../queue/pauses.ts';
import { incidentRecord, incidentToJson } from '../../../report/model/incidents.ts';
import { muteRecord, pauseRecord } from '../../../report/model/pauses.ts';
import { findPausables, findPaused, refuseUnknownMutes } from '../../../report/names.ts';
import { readTimeSpan } from '../../../report/text/filters.ts';
import type { IncidentRow } from '../../../store/schema.ts';
import { type PruneStep, pruningOf } from '../../../store/statements/pruning.ts';
import type { StoreSession } from '../../../store/store.ts';
import { NoSuchName } from '../../../system/base/errors.ts';
import { field } from '../../../system/base/record.ts';
import { removeOutput } from '../../../system/place/state-folder.ts';
import type { LiveSite } from '../../site.ts';
import { answer, idSchema, textSchema, timeSchema } from '../fields.ts';
import { type Api, type ApiEnv, defineRoute, InvalidParameter, jsonResponse } from '../route.ts';
import { schemaOf, schemaOfField } from '../schema-of.ts';
import { durationSchema, optional, optionalJsonBody, said } from './bodies.ts';

/** @param what completes "removes" */
function pruneRoute<const Path extends string>(operationId: string, path: Path, what: string) {
  const before = timeSchema.openapi({ example: '30d', description: 'Older than this' });
  const pruned = z.object({
    deleted: z.int(),
    more: z.boolean().openapi({ description: 'There are more: ask again' }),
  });
  return defineRoute('manage', {
    ...{ operationId, method: 'delete', path, summary: `Removes ${what}` },
    request: { query: z.strictObject({ before }) },
    responses: { 200: jsonResponse('The number', pruned) },
  });
}

const pruneJobsRoute = pruneRoute(
  'pruneJobs',
  '/api/jobs',
  'jobs that ended before this time, with their runs, up to 10,000 at once; totals stay',
);

const pruneActivityRoute = pruneRoute(
  'pruneActivity',
  '/api/activity',
  'stored events from before this time, up to 10,000 at once; the activity of jobs and runs that are kept stays',
);

const patternParam = z.object({
  pattern: textSchema.openapi({ example: 'hourly/clean-tmp', description: 'Slashes are not encoded' }),
});

const pauseRoute = defineRoute('manage', {
  operationId: 'setPause',
  method: 'put',
  path: '/api/pauses/{pattern{.+}}',
  summary: 'Pauses a tier, a script, `queue`, jobs by name or pattern, or everything (`*`); replaces an earlier pause',
  request: {
    params: patternParam,
    ...optionalJsonBody(
      z.strictObject({
        for: optional(durationSchema).openapi({ description: 'How long. Default: until it is resumed' }),
        fail: optional(z.boolean()).openapi({ description: 'Only for jobs of the queue: due jobs fail' }),
      }),
    ),
  },
  responses: { 200: jsonResponse('The pause', schemaOf(pauseRecord)) },
});

const resumeRoute = defineRoute('manage', {
  operationId: 'endPause',
  method: 'delete',
  path: '/api/pauses/{pattern{.+}}',
  summary: 'Ends a pause',
  request: { params: patternParam },
  responses: {
    200: jsonResponse(
      'What was resumed',
      z.object({
        resumed: z.array(z.string()),
        pause: schemaOfField(field.one(pauseRecord).orNull.about('A wider pause that still applies')),
      }),
    ),
  },
});

const muteRoute = defineRoute('manage', {
  operationId: 'setMute',
  method: 'put',
  path: '/api/mutes/{pattern{.+}}',
  summary: 'Silences incidents of subjects with matching names for a while; replaces a mute of the same pattern',
  request: {
    params: patternParam,
    ...optionalJsonBody(
      z.strictObject({
        for: optional(durationSchema).openapi({ description: 'How long. Default: until it is unmuted' }),
      }),
    ),
  },
  responses: { 200: jsonResponse('The mute', schemaOf(muteRecord)) },
});

const unmuteRoute = defineRoute('manage', {
  operationId: 'endMute',
  method: 'delete',
  path: '/api/mutes/{pattern{.+}}',
  summary: 'Ends a mute',
  request: { params: patternParam },
  responses: { 200: jsonResponse('The patterns that were unmuted', z.object({ unmuted: z.array(z.string()) })) },
});

const acknowledgeRoute = defineRoute('run', {
  operationId: 'acknowledgeIncident',
  method: 'post',
  path: '/api/incidents/{id}/acknowledge',
  summary: 'Ends the daily reminders of an open incident; it may be acknowledged already',
  request: { params: z.object({ id: idSchema }) },
  responses: { 200: jsonResponse('The incident', schemaOf(incidentRecord)) },
});

const closeRoute = defineRoute('manage', {
  operationId: 'closeIncident',
  method: 'post',
  path: '/api/incidents/{id}/close',
  summary: 'Ends an open incident; whoever was told of it is told once that it was closed',
  request: { params: z.object({ id: idSchema }) },
  responses: { 200: jsonResponse('The incident', schemaOf(incidentRecord)) },
});

/** Changes the log in the name of who asks. */
export function change<T>(c: Context<ApiEnv>, work: (session: StoreSession, at: number) => Promise<T>): Promise<T> {
  const { site, caller } = c.var;
  return site.changes.use((shared) => shared.change(caller.name, (session) => work(session, site.now())));
}

/** Pruning, pauses, mutes, and what is known of an incident. */
export function addSiteChangeRoutes(api: Api): void {
  api.openapi(pruneJobsRoute, async (c) =>
    answer(
      c,
      await prune(c, 'jobs', c.req.valid('query'), ({ statements }, before, most) =>
        pruningOf(statements).endedJobs(['finished', 'failed', 'cancelled'], before, most),
      ),
    ),
  );
  api.openapi(pruneActivityRoute, async (c) =>
    answer(
      c,
      await prune(c, 'events', c.req.valid('query'), ({ statements }, before, most) =>
        pruningOf(statements).events(before, most),
      ),
    ),
  );
  api.openapi(pauseRoute, async (c) => {
    const { for: length, fail } = said(c.req.valid('json'));
    const forMs = readLengthMs('pause', length);
    const name = await nameOf(c.var.site, c.req.valid('param').pattern, findPausables);
    const wanted = pauseOf(name, { forMs, fail, by: c.var.caller.name }, c.var.site.now());
    await change(c, (session) => pause(session, [wanted]));
    return answer(c, pauseRecord.toJson(wanted));
  });
  api.openapi(resumeRoute, async (c) => {
    const name = await nameOf(c.var.site, c.req.valid('param').pattern, findPaused);
    const { ended, wider } = await change(c, (session, at) => resume(session, [name], at));
    if (ended.length === 0) throw new NoSuchName(`${name} has no pause of its own; GET /api/pauses lists them.`);
    return answer(c, { resumed: ended, pause: wider.map(pauseRecord.toJson)[0] ?? null });
  });
  api.openapi(muteRoute, async (c) => {
    const { pattern } = c.req.valid('param');
    const forMs = readLengthMs('mute', said(c.req.valid('json')).for);
    const mute = muteOf(pattern, forMs, c.var.site.now());
    await c.var.site.read((found) => refuseUnknownMutes(found, [pattern]));
    await change(c, (session) => setMutes(session, [mute]));
    return answer(c, muteRecord.toJson(mute));
  });
  api.openapi(unmuteRoute, async (c) => {
    const { pattern } = c.req.valid('param');
    const ended = await change(c, (session, at) => endMutes(session, [pattern], at));
    if (ended.length === 0) throw new NoSuchName(`There is no mute of ${pattern}; GET /api/mutes lists them.`);
    return answer(c, { unmuted: ended.map(({ name }) => name) });
  });
  api.openapi(acknowledgeRoute, async (c) => {
    const { id } = c.req.valid('param');
    return answer(c, only(id, await change(c, (session, at) => acknowledgeIncidents(session, String(id), at))));
  });
  api.openapi(closeRoute, async (c) => {
    const { id } = c.req.valid('param');
    return answer(c, only(id, await change(c, (session, at) => closeIncidents(session, [id], at))));
  });
}

/** Small, so that no step holds the write lock for long; what is left over is for the next call. */
const ROWS_PER_STEP = 500;
const STEPS_AT_ONCE = 20;

/** Removes what ended or happened before a time. */
async function prune(
  c: Context<ApiEnv>,
  what: string,
  { before: text }: { readonly before: string },
  step: (session: StoreSession, before: number, most: number) => Promise<PruneStep>,
) {
  const before = readTimeSpan(text, c.var.site.now())?.startMs;
  if (before === undefined) throw new InvalidParameter('before', 'must be a time');
  let [deleted, last] = [0, ROWS_PER_STEP];
  for (let steps = 0; steps < STEPS_AT_ONCE && last === ROWS_PER_STEP; steps += 1) {
    const done = await change(c, (session) => step(session, before, ROWS_PER_STEP));
    removeOutput(c.var.site.state, done.outputFiles);
    last = done.deleted;
    deleted += last;
  }
  const detail = `${deleted} ${what}`;
  if (deleted > 0) await change(c, ({ events }, at) => events.record([{ at, event: 'log-pruned', detail }]));
  return { deleted, more: last === ROWS_PER_STEP };
}

/** The name in the log of what the path names; `*` is everything here, not all jobs of the queue. */
async function nameOf(site: LiveSite, pattern: string, find: typeof findPaused): Promise<string> {
  const [name = pattern] = pattern === EVERYTHING ? [] : await site.read((found) => find(found, [pattern]));
  return name;
}

function only(id: number, [incident]: readonly IncidentRow[]) {
  if (incident === undefined) throw noSuchIncident(String(id));
  return incidentToJson(incident);
}
