import { z } from '@hono/zod-openapi';
import { periods } from '../../../monitor/metrics/periods.ts';
import { metricsRecord, readMetrics } from '../../../monitor/metrics/read-metrics.ts';
import { type ActivityPlace, activityRecord, selectActivity } from '../../../report/model/activity.ts';
import { describeEvent } from '../../../report/text/words.ts';
import { record, shown } from '../../../system/base/record.ts';
import { DAY_MS } from '../../../system/base/values.ts';
import { readCpuLimit } from '../../../system/process/memory.ts';
import type { LiveSite } from '../../site.ts';
import {
  answer,
  cutPage,
  idSchema,
  oneOf,
  pageFields,
  pageOf,
  readClosedWindow,
  readCursor,
  readLog,
  readWindow,
  textSchema,
  wholeNumber,
  windowFields,
} from '../fields.ts';
import { type Api, defineRoute, jsonResponse } from '../route.ts';
import { schemaOf } from '../schema-of.ts';

const { at, event, ...recorded } = activityRecord.fields;

const toldActivityRecord = record('Activity', {
  at,
  event,
  text: shown.text.about('The event in words'),
  ...recorded,
  by: recorded.by.about('Who did it through the API; null: a worker, or somebody at a shell'),
  isOfScript: shown.flag.about('The job is a script of a tier, not a job of the queue'),
});

const activityRoute = defineRoute('read', {
  method: 'get',
  path: '/api/activity',
  summary: 'What happened to jobs and workers',
  request: {
    query: z.strictObject({
      ...windowFields,
      ...pageFields(500, 100),
      offset: wholeNumber(0, 10_000).optional().openapi({ description: 'Leaves out this many at the beginning' }),
      order: oneOf(['asc', 'desc']).default('desc'),
      job: idSchema.optional(),
      worker: idSchema.optional(),
    }),
  },
  responses: { 200: jsonResponse('The activity', schemaOf(pageOf(toldActivityRecord))) },
});

const periodSchema = oneOf(periods).openapi('Period');

const metricsRoute = defineRoute('read', {
  method: 'get',
  path: '/api/metrics/{period}',
  summary: 'Runs, times, CPU and workers by period, as `npx folder-runner metrics --json` prints them',
  request: {
    params: z.object({ period: periodSchema }),
    query: z.strictObject({
      ...windowFields,
      subject: z
        .union([textSchema.transform((one) => [one]), z.array(textSchema).max(100)])
        .optional()
        .openapi({
          type: 'array',
          items: { type: 'string' },
          description: 'Scripts, handlers, tiers, `queue`, or `*` for all together. Default: each of them',
        }),
      limit: wholeNumber(1, 1000).default(1000).openapi({
        description: 'Maximum number of periods of each subject: the newest, or with `order=asc` the oldest',
      }),
      offset: wholeNumber(0, 10_000).default(0),
      order: oneOf(['asc', 'desc']).optional().openapi({ description: 'Which periods are kept. Default: desc' }),
    }),
  },
  responses: {
    200: jsonResponse('The figures; the periods of a subject are always the oldest first', schemaOf(metricsRecord)),
  },
});

/** So far back one sees what a period is good for. */
const usualLengthsMs = { '1h': DAY_MS, '6h': 7 * DAY_MS, '12h': 14 * DAY_MS, '1d': 30 * DAY_MS, '1w': 182 * DAY_MS };

export function addActivityRoutes(api: Api): void {
  api.openapi(activityRoute, async (c) => answer(c, await readActivityPage(c.var.site, c.req.valid('query'))));
  api.openapi(metricsRoute, async (c) => {
    const { period } = c.req.valid('param');
    const { subject: subjects, limit, offset, order = 'desc', ...words } = c.req.valid('query');
    const keep = <B>(buckets: readonly B[]): B[] =>
      order === 'asc'
        ? buckets.slice(offset, offset + limit)
        : buckets.slice(Math.max(0, buckets.length - offset - limit), Math.max(0, buckets.length - offset));
    const found = await readLog(c.var.site, async ({ store, nowMs }) => {
      const window = readClosedWindow(words, nowMs, usualLengthsMs[period]);
      if (store === null) return { period, ...window, series: [], workers: [] };
      return await readMetrics(store, { period, ...window, nowMs, subjects });
    });
    const { series, workers, ...rest } = metricsRecord.toJson({ ...found, cpuLimit: readCpuLimit() });
    return answer(c, {
      ...rest,
      series: series.map((each) => ({ ...each, buckets: keep(each.buckets) })),
      workers: workers.map((each) => ({ ...each, buckets: keep(each.buckets) })),
    });
  });
}

type ActivityWords = z.infer<typeof activityRoute.request.query>;

async function readActivityPage(site: LiveSite, query: ActivityWords) {
  const { limit, cursor, offset, order, job: jobId, worker: workerId, ...words } = query;
  const after = readCursor(cursor, 3) as ActivityPlace | null;
  return await readLog(site, async ({ nowMs }, view) => {
    const asked = { ...readWindow(words, nowMs), jobId, workerId, limit: limit + 1, offset, after: after ?? undefined };
    const found = await selectActivity(view, { ...asked, order: order === 'desc' ? 'newest' : 'oldest' });
    const { shown, next } = cutPage(found, limit, ({ place }) => place);
    return {
      items: shown.map((each) => toldActivityRecord.toJson({ ...each, text: describeEvent(each.event) })),
      next,
    };
  });
}
