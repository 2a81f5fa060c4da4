import type { z } from '@hono/zod-openapi';
import { handlerNames } from '../../../discovery/discover.ts';
import { withoutParameters } from '../../../discovery/script.ts';
import type { Site } from '../../../discovery/site.ts';
import type { JobCount, ListedJob } from '../../../queue/api.ts';
import {
  countJobs,
  countMatching,
  type SearchOptions,
  searchJobs,
  totalCounted,
  totalJobs,
} from '../../../queue/read/list.ts';
import { verbNames, verbsFor } from '../../../queue/settle/verbs.ts';
import { jobActivityRecord } from '../../../report/model/activity.ts';
import {
  asFound,
  findLostClaims,
  jobCountRecord,
  jobStoryRecord,
  jobTotalsRecord,
  listedJobRecord,
  noJobs,
  readJobs,
  readStory,
} from '../../../report/model/jobs.ts';
import { queuePaceRecord, readQueuePace } from '../../../report/model/pace.ts';
import { findHold } from '../../../report/text/words.ts';
import type { Pause } from '../../../store/statements/pauses.ts';
import type { Store } from '../../../store/store.ts';
import { lateAfter } from '../../../system/base/clock.ts';
import { parseExactly } from '../../../system/base/exact-json.ts';
import { field, record, shown } from '../../../system/base/record.ts';
import {
  idSchema,
  LONGEST_SEARCH_MS,
  oneOf,
  pagedOf,
  pageFields,
  pageOf,
  textSchema,
  wholeNumber,
  writeCursor,
} from '../fields.ts';
import { jobFilterFields, readJobFilter } from '../job-filter.ts';
import { InvalidParameter } from '../route.ts';
import { view } from '../view.ts';
import { eventInWords, tellEvent } from './activity.ts';

/** The verbs that the queue takes for a job now. */
export const jobVerbsField = field.list(field.words(verbNames)).about('The verbs that the queue takes for it now');

const jobItemRecord = record('ListedJob', { ...listedJobRecord.fields, verbs: jobVerbsField });

const jobQuery = {
  ...jobFilterFields,
  ...pageFields(1),
  offset: wholeNumber(0, 10_000).optional().openapi({ description: 'Leaves out this many at the beginning' }),
  order: oneOf(['asc', 'desc', 'next', 'soonest', 'kick']).default('desc').openapi({
    description:
      'By number; or waiting jobs in the order of processing or by time; or jobs in the order of a kick. A search needs asc or desc',
  }),
  parent: idSchema.optional(),
};

const jobsView = view({
  operationId: 'listJobs',
  path: '/api/jobs',
  summary: 'Jobs of the queue',
  query: jobQuery,
  says: 'Jobs',
  answers: record(null, {
    ...pagedOf(jobItemRecord).fields,
    searched: shown.integer.orNull.about(
      'The number of jobs that the search has looked at. It stops after a while; continue with `next`. Null: no search',
    ),
  }),
  read: readJobPage,
});

const patternQuery = { name: textSchema.default('*').openapi({ example: 'mail/*' }) };

const { name, ...counted } = jobCountRecord.fields;

const dueCountRecord = record('JobCounts', {
  name,
  dueSince: shown.instant.orNull.about('When the oldest due job became due; null: none is due'),
  ...counted,
});

const countsView = view({
  operationId: 'countJobs',
  path: '/api/jobs/counts',
  summary: 'The number of jobs in each state, by name',
  query: patternQuery,
  says: 'A count for each name, without parameters',
  answers: pageOf(dueCountRecord),
  read: async (site, { name }) => {
    const counts = site.store === null ? [] : await countJobs(site.store, name, site.nowMs);
    return { items: await withDueSince(site, counts), next: null };
  },
});

const totalsView = view({
  operationId: 'totalJobs',
  path: '/api/jobs/totals',
  summary: 'What has happened to jobs of each name since the log began',
  query: patternQuery,
  says: 'Totals for each name, without parameters',
  answers: pageOf(jobTotalsRecord),
  read: async ({ store }, { name }) => ({ items: store === null ? [] : await totalJobs(store, name), next: null }),
});

const paceView = view({
  operationId: 'readQueuePace',
  path: '/api/jobs/pace',
  summary: 'Whether the workers keep up: how long jobs wait, how many come and go, and what would clear them',
  says: 'The pace of the queue',
  answers: queuePaceRecord,
  read: readQueuePace,
});

const jobView = view({
  operationId: 'getJob',
  path: '/api/jobs/{id}',
  summary: 'One job with its children, its runs and its activity',
  params: { id: idSchema },
  says: 'The job',
  answers: record('JobStory', {
    ...jobStoryRecord.fields,
    activity: shown.list(field.one(record(null, { ...jobActivityRecord.fields, text: eventInWords }))),
    verbs: jobVerbsField,
  }),
  read: async (site, { id }, { readJob }) => {
    const story = await readStory(site, id, readJob);
    const activity = story.activity.map(tellEvent);
    return { ...story.job, ...story, activity, verbs: verbsFor(story.job, site.nowMs) };
  },
});

const queueView = view({
  operationId: 'getQueue',
  path: '/api/queue',
  summary: 'The queue: by name how many jobs are in which state and what became of them; whether the workers keep up',
  says: 'The queue',
  answers: record('Queue', {
    counts: shown.list(shown.one(dueCountRecord)),
    totals: shown.list(shown.one(jobTotalsRecord)),
    pace: shown.one(queuePaceRecord),
    handlers: shown.list(shown.text).about('The names of jobs that have a handler in jobs/queue/'),
  }),
  read: async (site) => {
    const { store } = site;
    const counts = store === null ? [] : await countJobs(store, '*', site.nowMs);
    return {
      counts: await withDueSince(site, counts),
      totals: store === null ? [] : await totalCounted(store, counts),
      pace: await readQueuePace(site),
      handlers: handlerNames((await site.jobs()).discovery),
    };
  },
});

export const jobViews = [queueView, countsView, totalsView, paceView, jobsView, jobView];

async function withDueSince(site: Site, counts: readonly JobCount[]) {
  const since = new Map<string, number>();
  for (const { name, oldest } of await site.due()) {
    const handler = withoutParameters(name);
    since.set(handler, Math.min(oldest, since.get(handler) ?? oldest));
  }
  return counts.map((count) => ({ ...count, dueSinceMs: since.get(count.name) ?? null }));
}

async function readJobPage({ store, nowMs }: Site, asked: z.infer<z.ZodObject<typeof jobQuery>>) {
  const { limit, cursor, offset = 0, order, parent, count, ...words } = asked;
  const { search, ...chosen } = readJobFilter(words, nowMs);
  const [last] = cursor ?? [];
  const isByNumber = order === 'asc' || order === 'desc';
  if (last !== undefined && !isByNumber) throw new InvalidParameter('cursor', 'goes with the orders asc and desc only');
  if (search !== undefined && !isByNumber)
    throw new InvalidParameter('search', 'goes with the orders asc and desc only');
  if (search !== undefined && offset > 0) throw new InvalidParameter('offset', 'does not go with a search');
  if (order === 'kick' && offset > 0) throw new InvalidParameter('offset', 'does not go with the order kick');
  const orders = { asc: 'oldest', desc: 'newest' } as const;
  const filter = {
    ...{ ...chosen, parent, limit },
    ...(order === 'asc' ? { after: last } : { before: last }),
  };
  if (store !== null && search !== undefined && isByNumber)
    return await readFound(store, { ...filter, order: orders[order], text: search }, nowMs);
  const listed = { ...filter, offset: offset || undefined, order: isByNumber ? orders[order] : order };
  const { jobs, isCut, pauses } = store === null ? noJobs : await readJobs(store, listed, nowMs);
  const end = isCut && isByNumber ? jobs.at(-1) : undefined;
  const total =
    count === undefined ? null : store === null ? 0 : await countMatching(store, { ...chosen, parent }, nowMs);
  return {
    total,
    items: jobs.map((job) => toItem(job, pauses, nowMs)),
    next: end === undefined ? null : writeCursor(end.id),
    searched: null,
  };
}

function toItem(job: ListedJob, pauses: readonly Pause[], nowMs: number) {
  return { ...job, pause: findHold(pauses, job), verbs: verbsFor(job, nowMs) };
}

async function readFound(store: Store, asked: Omit<SearchOptions, 'isLate'>, nowMs: number) {
  const isLate = lateAfter(LONGEST_SEARCH_MS);
  const { jobs, looked, last } = await searchJobs(store, { ...asked, isLate }, nowMs, parseExactly);
  const lost = await findLostClaims(store, nowMs);
  const pauses = await store.pauses.inForce(nowMs);
  return {
    items: jobs.map((job) => toItem(asFound(job, lost), pauses, nowMs)),
    next: last === null ? null : writeCursor(last),
    total: null,
    searched: looked,
  };
}
