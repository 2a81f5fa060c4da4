import { z } from '@hono/zod-openapi';
import { tierNames } from '../../../discovery/jobs-folder.ts';
import type { Discovery } from '../../../discovery/script.ts';
import type { Site } from '../../../discovery/site.ts';
import { listWaiters } from '../../../queue/claim/waiters.ts';
import { readUpcoming, upcomingJobRecord, upcomingToJson } from '../../../report/model/jobs.ts';
import { nextTimeRecord, readNextTimes } from '../../../report/model/next-times.ts';
import { waiterRecord } from '../../../report/model/status.ts';
import { findHolders, readTierState, selectLastCall, selectSeen, tierStateRecord } from '../../../report/model/tier.ts';
import { selectWorkers, workerRecord } from '../../../report/model/workers.ts';
import { noSuchTier } from '../../../report/names.ts';
import { readTimeSpan } from '../../../report/text/filters.ts';
import { expectByCrontab } from '../../../schedule/crontab-times.ts';
import { field, isoInstant, quoting, record, shown } from '../../../system/base/record.ts';
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
import { schemaOf } from '../schema-of.ts';
import { scriptFileRecord, withPause } from './scripts.ts';

const tierRecord = record('Tier', { ...tierStateRecord.fields, scripts: shown.list(shown.one(scriptFileRecord)) });

const tiersRecord = record(null, {
  ...pageOf(tierRecord).fields,
  handlers: shown.list(shown.one(scriptFileRecord)),
  unread: shown.list(shown.one(record(null, { tier: shown.text, reason: quoting }))),
  ignored: field.list(field.one(record(null, { path: field.text, reason: field.text }))),
  warnings: shown.list(shown.text),
  settingsProblem: shown.text.orNull.about('Why nothing is started until the settings are fixed'),
});

const tiersRoute = defineRoute('read', {
  method: 'get',
  path: '/api/tiers',
  summary: 'The tiers of jobs/ with their scripts, and the ignored files with their reasons',
  request: { query: z.strictObject({}) },
  responses: { 200: jsonResponse('The tiers', schemaOf(tiersRecord)) },
});

const tierRoute = defineRoute('read', {
  method: 'get',
  path: '/api/tiers/{tier}',
  summary: 'One tier with its scripts',
  request: { params: z.object({ tier: textSchema }), query: z.strictObject({}) },
  responses: { 200: jsonResponse('The tier', schemaOf(tierRecord)) },
});

const scheduleRecord = record('Schedule', {
  now: shown.instant,
  tiers: shown.list(field.one(record(null, { tier: shown.text, calls: shown.list(field.instant) }))),
  scripts: shown.list(field.one(nextTimeRecord)).about('The next times of scripts that have their own'),
  jobs: shown.list(field.one(upcomingJobRecord)),
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
      schemaOf(record(null, { ...pageOf(workerRecord).fields, waiting: shown.list(shown.one(waiterRecord)) })),
    ),
  },
});

export function addTierRoutes(api: Api): void {
  api.openapi(tiersRoute, async (c) => {
    const { site } = c.var;
    const tiers = await readLog(site, async (found) => {
      const { discovery, settingsProblem } = await found.jobs();
      const { handlers, unread, warnings } = discovery;
      const pauses = await found.pauses();
      return tiersRecord.toJson({
        items: await readTiers(found, discovery.tiers),
        next: null,
        handlers: handlers.map((script) => withPause(script, pauses)),
        ...{ unread, ignored: discovery.ignored, warnings, settingsProblem },
      });
    });
    return answer(c, tiers);
  });
  api.openapi(tierRoute, async (c) => {
    const { site } = c.var;
    const { tier: name } = c.req.valid('param');
    const [tier] = await readLog(site, async (found) => {
      const { tiers } = (await found.jobs()).discovery;
      const wanted = tiers.filter((each) => each.name === name);
      if (wanted.length > 0) return await readTiers(found, wanted);
      throw noSuchTier(
        name,
        tiers.map((each) => each.name),
      );
    });
    return answer(c, tierRecord.toJson(tier as NonNullable<typeof tier>));
  });
  addScheduleRoute(api);
  api.openapi(workersRoute, async (c) => {
    const { limit, cursor, ...filter } = c.req.valid('query');
    const [beforeId] = readCursor(cursor, 1) ?? [];
    const page = await readLog(c.var.site, async ({ nowMs, states }, view) => {
      const found = await selectWorkers(view.db, { ...filter, beforeId, limit: limit + 1 });
      const { shown, next } = cutPage(found, limit, ({ id }) => [id]);
      return {
        items: shown.map(workerRecord.toJson),
        next,
        waiting: states()
          .flatMap((state) => listWaiters(state, nowMs))
          .map(waiterRecord.toJson),
      };
    });
    return answer(c, page);
  });
}

async function readTiers(site: Site, tiers: Discovery['tiers']) {
  const names = tiers.map(({ name }) => name);
  const holders = await findHolders(site, names);
  const pauses = await site.pauses();
  const items: Awaited<ReturnType<typeof readTier>>[] = [];
  const readTier = async ({ name, scripts }: Discovery['tiers'][number]) => ({
    ...(await readTierState(site, name, holders)),
    scripts: scripts.map((script) => withPause(script, pauses)),
  });
  for (const tier of tiers) items.push(await readTier(tier));
  return items;
}

function addScheduleRoute(api: Api): void {
  api.openapi(scheduleRoute, async (c) => {
    const { site } = c.var;
    const { now, iterations: limit, name: pattern } = c.req.valid('query');
    const schedule = await readLog(site, async (present) => {
      const { store, nowMs: current } = present;
      const nowMs = now === undefined ? current : (readTimeSpan(now, current)?.startMs ?? current);
      const found = present.at(nowMs);
      const tiers: { tier: string; calls: (string | null)[] }[] = [];
      for (const tier of tierNames(site.root)) tiers.push({ tier, calls: await listCalls(found, tier, limit) });
      const scripts = await readNextTimes(found, (await found.jobs()).discovery.tiers);
      const jobs = store === null ? [] : await readUpcoming(store, { pattern, limit, nowMs });
      const times = { scripts: scripts.map(nextTimeRecord.toJson), jobs: jobs.map(upcomingToJson) };
      return { now: isoInstant(nowMs), tiers, ...times };
    });
    return answer(c, schedule);
  });
}

/** By the tier's crontab line, else as a crontab goes on calling: at the same minute of each period. */
async function listCalls({ view, crontab, nowMs }: Site, tier: string, limit: number): Promise<(string | null)[]> {
  const { db } = await view();
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
