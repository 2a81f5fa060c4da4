import { z } from '@hono/zod-openapi';
import { periods } from '../../../monitor/metrics/periods.ts';
import { readMetrics } from '../../../monitor/metrics/read-metrics.ts';
import { activityToJson, metricsToJson } from '../../../report/json.ts';
import { type ActivityPlace, selectActivity } from '../../../report/model/activity.ts';
import { describeEvent } from '../../../report/text/words.ts';
import { readCpuLimit } from '../../../system/process/cpu-limit.ts';
import type { Site } from '../../site.ts';
import {
  answer,
  idSchema,
  knownNumber,
  knownText,
  namedTwice,
  oneOf,
  pageFields,
  pageOf,
  readClosedWindow,
  readCursor,
  readLog,
  readWindow,
  textSchema,
  wholeNumber,
  writeCursor,
} from '../fields.ts';
import { type Api, defineRoute, jsonResponse } from '../route.ts';
import { knownInstant } from '../schemas.ts';

const activitySchema = z
  .object({
    at: knownInstant,
    event: z.string().openapi({ example: 'job-queued' }),
    text: z.string().openapi({ description: 'The event in words' }),
    detail: knownText,
    warning: knownText.openapi({ description: 'Of a run that ended' }),
    run: z.int().nullable(),
    by: knownText.openapi({ description: 'Who did it through the API; null: a worker, or somebody at a shell' }),
    job: z.int().nullable(),
    name: knownText.openapi({ description: "The job's name; null: no job, or a deleted one" }),
    worker: z.int().nullable(),
    host: knownText.openapi({ description: "The worker's machine; null: no worker, or a deleted one" }),
    isOfScript: z.boolean().openapi({ description: 'The job is a script of a tier, not a job of the queue' }),
  })
  .openapi('Activity');

const activityRoute = defineRoute('read', {
  method: 'get',
  path: '/api/activity',
  summary: 'What happened to jobs and workers',
  request: {
    query: z.strictObject({
      ...namedTwice,
      ...pageFields(500, 100),
      offset: wholeNumber(0, 10_000).optional().openapi({ description: 'Leaves out this many at the beginning' }),
      order: oneOf(['asc', 'desc']).default('desc'),
      job: idSchema.optional(),
      worker: idSchema.optional(),
    }),
  },
  responses: { 200: jsonResponse('The activity', pageOf(activitySchema)) },
});

const spreadSchema = z
  .object({
    count: z.int(),
    sum: knownNumber,
    mean: knownNumber,
    min: knownNumber,
    max: knownNumber,
    p50: knownNumber,
    p95: knownNumber,
    p99: knownNumber,
  })
  .openapi('Spread');

const bucketSchema = z
  .object({
    from: knownInstant,
    until: knownInstant,
    added: z.int(),
    started: z.int(),
    ended: z.int(),
    finished: z.int(),
    errors: z.int(),
    failed: z.int(),
    crashed: z.int(),
    warned: z.int(),
    runMs: spreadSchema,
    serviceMs: spreadSchema,
    cpuMs: knownNumber,
    cpuRuns: z.int(),
    maxRssBytes: knownNumber,
    lateMs: z.object({ mean: knownNumber, max: knownNumber }),
    waiting: knownNumber,
    waitingMs: knownNumber,
  })
  .openapi('MetricBucket');

const workerBucketSchema = z
  .object({
    from: knownInstant,
    until: knownInstant,
    workers: z.int(),
    skipped: z.int(),
    crashed: z.int(),
    aliveMs: z.number(),
    aliveMinMs: knownNumber,
    aliveMaxMs: knownNumber,
    busyMs: z.number(),
    throughputMean: knownNumber,
    throughputMax: knownNumber,
    utilization: knownNumber,
  })
  .openapi('WorkerBucket');

const periodSchema = oneOf(periods as [(typeof periods)[number], ...typeof periods]).openapi('Period');

const metricsSchema = z
  .object({
    period: periodSchema,
    since: knownInstant,
    until: knownInstant,
    cpuLimit: knownNumber.openapi({ description: 'How many CPUs this user may use; null: no limit' }),
    series: z.array(
      z.object({
        subject: z.string(),
        kind: z.enum(['all', 'tier', 'script']),
        total: bucketSchema,
        buckets: z.array(bucketSchema),
      }),
    ),
    workers: z.array(z.object({ tier: z.string(), total: workerBucketSchema, buckets: z.array(workerBucketSchema) })),
  })
  .openapi('Metrics');

const metricsRoute = defineRoute('read', {
  method: 'get',
  path: '/api/metrics/{period}',
  summary: 'Runs, times, CPU and workers by period, as `npx folder-runner metrics --json` prints them',
  request: {
    params: z.object({ period: periodSchema }),
    query: z.strictObject({
      ...namedTwice,
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
  responses: { 200: jsonResponse('The figures; the periods of a subject are always the oldest first', metricsSchema) },
});

const DAY_MS = 86_400_000;

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
    const { series, workers, ...rest } = metricsToJson(found, readCpuLimit());
    return answer(c, {
      ...rest,
      series: series.map((each) => ({ ...each, buckets: keep(each.buckets) })),
      workers: workers.map((each) => ({ ...each, buckets: keep(each.buckets) })),
    });
  });
}

type ActivityWords = z.infer<typeof activityRoute.request.query>;

async function readActivityPage(site: Site, query: ActivityWords) {
  const { limit, cursor, offset, order, job: jobId, worker: workerId, ...words } = query;
  const after = readCursor(cursor, 3) as ActivityPlace | null;
  return await readLog(site, async ({ view, nowMs }) => {
    const asked = { ...readWindow(words, nowMs), jobId, workerId, limit: limit + 1, offset, after: after ?? undefined };
    const found = await selectActivity(view, { ...asked, order: order === 'desc' ? 'newest' : 'oldest' });
    const last = found.length > limit ? found[limit - 1] : undefined;
    return {
      items: found.slice(0, limit).map((each) => ({
        ...activityToJson(each),
        text: describeEvent(each.event),
        isOfScript: each.isOfScript,
      })),
      next: last === undefined ? null : writeCursor(...last.place),
    };
  });
}
