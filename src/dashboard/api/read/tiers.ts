import { z } from '@hono/zod-openapi';
import { HTTPException } from 'hono/http-exception';
import { tierNames } from '../../../discovery/jobs-folder.ts';
import type { Discovery } from '../../../discovery/script.ts';
import { listWaiters } from '../../../queue/claim/waiters.ts';
import { readUpcoming, upcomingJobRecord, upcomingToJson } from '../../../report/model/jobs.ts';
import { findNextTimes, nextTimeRecord } from '../../../report/model/next-times.ts';
import { unknownTier } from '../../../report/model/runs/history.ts';
import type { LogView } from '../../../report/model/runs/run.ts';
import { waiterRecord } from '../../../report/model/status.ts';
import { findHolders, readTierState, selectLastCall, selectSeen, tierStateRecord } from '../../../report/model/tier.ts';
import { selectWorkers, workerRecord } from '../../../report/model/workers.ts';
import { readTimeSpan } from '../../../report/text/filters.ts';
import { expectByCrontab, type ReadCrontab } from '../../../schedule/crontab-times.ts';
import { field, isoInstant, record } from '../../../system/base/record.ts';
import type { Site, SiteLog } from '../../site.ts';
import {
  answer,
  cutPage,
  oneOf,
  pageFields,
  pageOf,
  readCursor,
  readLog,
  textSchema,
  timeSchema,
  wholeNumber,
} from '../fields.ts';
import { type Api, defineRoute, jsonResponse } from '../route.ts';
import { schemaOf, schemaOfField } from '../schema-of.ts';
import { fileToJson, scriptFileSchema } from './scripts.ts';

const tierSchema = z.object({ ...schemaOf(tierStateRecord).shape, scripts: z.array(scriptFileSchema) }).openapi('Tier');

const filesFields = {
  handlers: z.array(scriptFileSchema),
  unread: z.array(z.object({ tier: z.string(), reason: z.string() })),
  ignored: z.array(z.object({ path: z.string(), reason: z.string() })),
  warnings: z.array(z.string()),
  settingsProblem: schemaOfField(field.text.orNull.about('Why nothing is started until the settings are fixed')),
};

const tiersRoute = defineRoute('read', {
  method: 'get',
  path: '/api/tiers',
  summary: 'The tiers of jobs/ with their scripts, and the ignored files with their reasons',
  request: { query: z.strictObject({}) },
  responses: { 200: jsonResponse('The tiers', z.object({ ...pageOf(tierSchema).shape, ...filesFields })) },
});

const tierRoute = defineRoute('read', {
  method: 'get',
  path: '/api/tiers/{tier}',
  summary: 'One tier with its scripts',
  request: { params: z.object({ tier: textSchema }), query: z.strictObject({}) },
  responses: { 200: jsonResponse('The tier', tierSchema) },
});

const scheduleRecord = record('Schedule', {
  now: field.instant,
  tiers: field.list(field.one(record(null, { tier: field.text, calls: field.list(field.instant) }))),
  scripts: field.list(field.one(nextTimeRecord)).about('The next times of scripts that have their own'),
  jobs: field.list(field.one(upcomingJobRecord)),
});

const scheduleRoute = defineRoute('read', {
  method: 'get',
  path: '/api/schedule',
  summary: 'The next calls of each tier, and the next times of scripts and of jobs of the queue',
  request: {
    query: z.strictObject({
      now: timeSchema.optional().openapi({ description: 'From this time on. Default: now' }),
      iterations: wholeNumber(1, 100).default(10),
      name: textSchema.default('*').openapi({ description: 'Only jobs with a matching name', example: 'mail/*' }),
    }),
  },
  responses: {
    200: jsonResponse('What comes', schemaOf(scheduleRecord)),
  },
});

const workersRoute = defineRoute('read', {
  method: 'get',
  path: '/api/workers',
  summary: 'Passes and workers of the queue, the newest first, and other programs that wait for jobs',
  request: {
    query: z.strictObject({
      ...pageFields(500, 50),
      kind: oneOf(['tier', 'script', 'backlog', 'queue']).optional(),
      tier: textSchema.optional(),
      state: oneOf(['running', 'finished', 'skipped', 'crashed']).optional(),
    }),
  },
  responses: {
    200: jsonResponse(
      'Workers',
      z.object({ ...pageOf(schemaOf(workerRecord)).shape, waiting: z.array(schemaOf(waiterRecord)) }),
    ),
  },
});

export function addTierRoutes(api: Api): void {
  api.openapi(tiersRoute, async (c) => {
    const { site } = c.var;
    const { discovery, settingsProblem } = await site.lookIntoJobs();
    const { tiers, handlers, unread, warnings } = discovery;
    const ignored = discovery.ignored.map(({ path, reason }) => ({ path, reason }));
    const found = await readLog(site, async (log) => ({
      items: await readTiers(site, log, tiers),
      next: null,
      handlers: handlers.map((script) => fileToJson(script, log.pauses)),
    }));
    return answer(c, { ...found, unread, ignored, warnings, settingsProblem });
  });
  api.openapi(tierRoute, async (c) => {
    const { site } = c.var;
    const { tier: name } = c.req.valid('param');
    const { tiers } = (await site.lookIntoJobs()).discovery;
    const wanted = tiers.filter((tier) => tier.name === name);
    if (wanted.length === 0) {
      const names = tiers.map((tier) => tier.name);
      throw new HTTPException(404, { message: unknownTier(name, names).message });
    }
    const [tier] = await readLog(site, (log) => readTiers(site, log, wanted));
    return answer(c, tier as NonNullable<typeof tier>);
  });
  addScheduleRoute(api);
  api.openapi(workersRoute, async (c) => {
    const { limit, cursor, ...filter } = c.req.valid('query');
    const [beforeId] = readCursor(cursor, 1) ?? [];
    const { states } = c.var.site;
    const page = await readLog(c.var.site, async ({ nowMs, view }) => {
      const found = await selectWorkers(view.db, { ...filter, beforeId, limit: limit + 1 });
      const { shown, next } = cutPage(found, limit, ({ id }) => [id]);
      return {
        items: shown.map(workerRecord.toJson),
        next,
        waiting: states.flatMap((state) => listWaiters(state, nowMs)).map(waiterRecord.toJson),
      };
    });
    return answer(c, page);
  });
}

async function readTiers(site: Site, { nowMs, pauses, view }: SiteLog, tiers: Discovery['tiers']) {
  const names = tiers.map(({ name }) => name);
  const holders = await findHolders(view.db, site.states, names);
  const items: Awaited<ReturnType<typeof readTier>>[] = [];
  const readTier = async ({ name, scripts }: Discovery['tiers'][number]) => ({
    ...tierStateRecord.toJson(await readTierState(view.db, name, { holders, pauses, nowMs, crontab: site.crontab })),
    scripts: scripts.map((script) => fileToJson(script, pauses)),
  });
  for (const tier of tiers) items.push(await readTier(tier));
  return items;
}

function addScheduleRoute(api: Api): void {
  api.openapi(scheduleRoute, async (c) => {
    const { site } = c.var;
    const { now, iterations: limit, name: pattern } = c.req.valid('query');
    const { discovery } = await site.lookIntoJobs();
    const schedule = await readLog(site, async ({ store, view, pauses, nowMs: current }) => {
      const nowMs = now === undefined ? current : (readTimeSpan(now, current)?.startMs ?? current);
      const tiers: { tier: string; calls: (string | null)[] }[] = [];
      for (const tier of tierNames(site.root))
        tiers.push({ tier, calls: await listCalls(view, tier, { nowMs, limit, crontab: site.crontab }) });
      const scripts = await findNextTimes(view.db, discovery.tiers, { pauses, crontab: site.crontab, nowMs });
      const jobs = store === null ? [] : await readUpcoming(store, { pattern, limit, nowMs });
      const times = { scripts: scripts.map(nextTimeRecord.toJson), jobs: jobs.map(upcomingToJson) };
      return { now: isoInstant(nowMs), tiers, ...times };
    });
    return answer(c, schedule);
  });
}

interface Ahead {
  readonly crontab: ReadCrontab;
  readonly nowMs: number;
  readonly limit: number;
}

/** By the tier's crontab line, else as a crontab goes on calling: at the same minute of each period. */
async function listCalls({ db }: LogView, tier: string, { crontab, nowMs, limit }: Ahead): Promise<(string | null)[]> {
  const calls: (string | null)[] = [];
  let last = (await selectLastCall(db, tier, { isByHand: false })) ?? (await selectSeen(db, tier));
  let atMs = nowMs;
  while (calls.length < limit) {
    const { expected: next } = await expectByCrontab(tier, last, await crontab(), atMs);
    if (next === null) break;
    calls.push(isoInstant(next.atMs));
    atMs = Math.max(next.atMs, atMs);
    last = { isDue: false, ...last, atMs };
  }
  return calls;
}
