import { z } from '@hono/zod-openapi';
import { periods } from '../../../monitor/metrics/periods.ts';
import { metricsRecord, readMetrics } from '../../../monitor/metrics/read-metrics.ts';
import { countAllJobs } from '../../../queue/read/list.ts';
import {
  type ActivityPlace,
  activityRecord,
  countActivity,
  findActivity,
  type JobActivity,
  selectActivity,
} from '../../../report/model/activity.ts';
import { jobCountRecord } from '../../../report/model/jobs.ts';
import { activityEvents, describeEvent } from '../../../report/text/words.ts';
import { lateAfter } from '../../../system/base/clock.ts';
import { record, shown } from '../../../system/base/record.ts';
import { DAY_MS } from '../../../system/base/values.ts';
import { readCpuLimit } from '../../../system/process/memory.ts';
import {
  anyOf,
  idSchema,
  LONGEST_SEARCH_MS,
  oneOf,
  pagedOf,
  pageFields,
  readClosedWindow,
  readPage,
  readTotal,
  readWindow,
  searchSchema,
  textSchema,
  wholeNumber,
  windowFields,
  writeCursor,
} from '../fields.ts';
import { InvalidParameter } from '../route.ts';
import { view } from '../view.ts';

export const eventInWords = shown.text.like('finished').about('The event in words');

const { at, event, ...recorded } = activityRecord.fields;

const toldActivityRecord = record('Activity', {
  at,
  event,
  text: eventInWords,
  ...recorded,
  by: recorded.by.about('Who did it; null: a worker, or nobody knows'),
  isOfScript: shown.flag.about('The job is a script of a tier, not a job of the queue'),
});

const activityView = view({
  operationId: 'listActivity',
  path: '/api/activity',
  summary: 'What happened to jobs and workers',
  query: {
    ...windowFields,
    ...pageFields(3),
    offset: wholeNumber(0, 10_000).optional().openapi({ description: 'Leaves out this many at the beginning' }),
    order: oneOf(['asc', 'desc']).default('desc'),
    job: idSchema.optional(),
    worker: idSchema.optional(),
    event: anyOf(activityEvents).optional().openapi({ description: 'Only these events' }),
    subject: textSchema
      .optional()
      .openapi({ example: 'hourly/*', description: 'The name of a script or a job, or a pattern' }),
    by: textSchema.optional().openapi({ example: 'token *', description: 'Who did it, or a pattern; `*`: anybody' }),
    search: searchSchema.openapi({
      description: 'Text in an entry, in any case. After a while it stops: continue with `next`, even without items',
    }),
  },
  says: 'The activity',
  answers: pagedOf(toldActivityRecord),
  read: async (site, { limit, cursor, count, offset, order, job: jobId, worker: workerId, ...words }) => {
    const log = await site.view();
    const { event: events, subject, by, search, ...window } = words;
    const after = cursor as ActivityPlace | undefined;
    const chosen = { ...readWindow(window, site.nowMs), jobId, workerId };
    const query = { ...chosen, offset, after, order: order === 'desc' ? ('newest' as const) : ('oldest' as const) };
    const filter = { events, subject, by, search };
    const isRead = [subject, by, search].some((each) => each !== undefined);
    const total = isRead ? null : await readTotal(count, () => countActivity(log, { ...chosen, events }));
    if (Object.values(filter).some((each) => each !== undefined)) {
      if (offset !== undefined) throw new InvalidParameter('offset', 'does not go with a filter');
      const { items, last } = await findActivity(log, { ...query, ...filter, limit }, lateAfter(LONGEST_SEARCH_MS));
      return { items: items.map(tellEvent), next: last === null ? null : writeCursor(...last), total };
    }
    const select = (most: number) => selectActivity(log, { ...query, limit: most });
    const { items, next } = await readPage(limit, select, ({ place }) => place);
    return { items: items.map(tellEvent), next, total };
  },
});

export function tellEvent<Entry extends JobActivity>(entry: Entry) {
  return { ...entry, text: describeEvent(entry.event) };
}

const { name: _, ...states } = jobCountRecord.fields;

/** So far back one sees what a period is good for. */
const usualLengthsMs = { '1h': DAY_MS, '6h': 7 * DAY_MS, '12h': 14 * DAY_MS, '1d': 30 * DAY_MS, '1w': 182 * DAY_MS };

const metricsView = view({
  operationId: 'getMetrics',
  path: '/api/metrics/{period}',
  summary: 'Runs, times, CPU and workers by period, as `npx folder-runner metrics --json` prints them',
  permission: 'wall',
  params: { period: oneOf(periods).openapi('Period') },
  query: {
    ...windowFields,
    subject: z
      .union([textSchema.transform((one) => [one]), z.array(textSchema).max(100)])
      .optional()
      .openapi({
        type: 'array',
        items: { type: 'string' },
        description: 'Scripts, handlers, tiers, `queue`, or `*` for all together. Default: each of them',
      }),
    buckets: textSchema.optional().openapi({
      example: 'hourly/clean-tmp',
      description: 'The subject whose periods are listed; others have their totals alone. Default: each of them',
    }),
    limit: wholeNumber(1, 1000).default(1000).openapi({
      description: 'Maximum number of periods of each subject: the newest, or with `order=asc` the oldest',
    }),
    offset: wholeNumber(0, 10_000).default(0),
    order: oneOf(['asc', 'desc']).optional().openapi({ description: 'Which periods are kept. Default: desc' }),
  },
  says: 'The figures; the periods of a subject are always the oldest first',
  answers: record('Metrics', {
    ...metricsRecord.fields,
    jobs: shown.one(record(null, states)).about('Jobs by state, now'),
  }),
  read: async ({ store, nowMs }, asked) => {
    const { period, subject: subjects, buckets, limit, offset, order = 'desc', ...words } = asked;
    const cut = <Of>(all: readonly Of[]): readonly Of[] => {
      const { length } = all;
      const [from, until] = order === 'asc' ? [offset, offset + limit] : [length - offset - limit, length - offset];
      return all.slice(Math.max(0, from), Math.max(0, until));
    };
    const query = { period, ...readClosedWindow(words, nowMs, usualLengthsMs[period]) };
    const none = { ...query, series: [], workers: [] };
    const found = store === null ? none : await readMetrics(store, { ...query, nowMs, subjects, buckets, cut });
    return { ...found, cpuLimit: readCpuLimit(), jobs: await countAllJobs(store, nowMs) };
  },
});

export const activityViews = [activityView, metricsView];
