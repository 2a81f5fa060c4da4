import { z } from '@hono/zod-openapi';
import type { JobRef, Queue } from '../../../queue/api.ts';
import { QueueError } from '../../../queue/errors.ts';
import type { SharedQueue } from '../../../queue/queue.ts';
import { readTimeSpan } from '../../../report/text/filters.ts';
import { type PruneStep, pruningOf } from '../../../store/statements/pruning.ts';
import type { StoreSession } from '../../../store/store.ts';
import { jobStates } from '../../../store/words.ts';
import { removeOutput } from '../../../system/place/state-folder.ts';
import type { LiveSite } from '../../site.ts';
import { answer, timeSchema } from '../fields.ts';
import { type Api, type Caller, defineRoute, InvalidParameter, jsonResponse } from '../route.ts';
import { jobNameSchema, jsonBody, optional, prioritySchema, readExactly, reasonSchema, whenSchema } from './bodies.ts';
import { actOfVerb, withSiteQueue } from './change-jobs.ts';

const MOST_AT_ONCE = 1_000;

const kickRoute = defineRoute('manage', {
  method: 'post',
  path: '/api/jobs/kick',
  summary: 'Kicks failed jobs with matching names, the earliest failures first; if none has failed, delayed ones',
  request: jsonBody(
    z.strictObject({
      names: z.union([jobNameSchema, z.array(jobNameSchema).min(1).max(100)]),
      count: optional(z.int().min(1)).openapi({ description: 'Maximum number. Default: all' }),
    }),
  ),
  responses: { 200: jsonResponse('The number', z.object({ kicked: z.int() })) },
});

const batchVerbs = ['kick', 'retry', 'fail', 'bury', 'cancel', 'finish', 'requeue', 'delete', 'update'] as const;

const filterSchema = z
  .strictObject({
    name: optional(jobNameSchema).openapi({ description: 'A name or a pattern: `mail/*`. Default: all' }),
    state: optional(z.union([z.enum(jobStates), z.array(z.enum(jobStates)).min(1)])),
    due: optional(z.enum(['ready', 'delayed'])),
    parent: optional(z.int().min(1)),
    since: optional(whenSchema).openapi({ description: 'Only jobs added from this time on' }),
    until: optional(whenSchema).openapi({ description: 'Only jobs added before this time' }),
  })
  .openapi('JobSelection');

const toldSchema = z.object({
  items: z.array(
    z.object({
      id: z.int(),
      ok: z.boolean(),
      reason: z.string().nullable().openapi({ description: 'Why it was refused; null: it was not' }),
    }),
  ),
  more: z.boolean().openapi({ description: 'The filter matches more jobs: ask again' }),
});

const batchRoute = defineRoute('manage', {
  method: 'post',
  path: '/api/jobs/batch',
  summary: 'Applies one verb to many jobs, each by itself: a refused job does not stop the others',
  request: jsonBody(
    z.strictObject({
      verb: z.enum(batchVerbs),
      ids: optional(z.array(z.int().min(1)).max(MOST_AT_ONCE)),
      filter: optional(filterSchema).openapi({ description: `In place of ids: the first ${MOST_AT_ONCE} that fit` }),
      options: optional(
        z.strictObject({
          delay: optional(z.string().max(100)),
          runAt: optional(whenSchema),
          priority: optional(prioritySchema),
          reason: optional(reasonSchema),
          mayRetry: optional(z.boolean()),
          ignoreRepeat: optional(z.boolean()),
          forgetTry: optional(z.boolean()),
        }),
      ).openapi({ description: 'The options of the verb' }),
    }),
  ),
  responses: { 200: jsonResponse('The outcome for each job', toldSchema) },
});

const prunedSchema = z.object({
  deleted: z.int(),
  more: z.boolean().openapi({ description: 'There are more: ask again' }),
});

const beforeQuery = z.strictObject({ before: timeSchema.openapi({ example: '30d', description: 'Older than this' }) });

const pruneJobsRoute = defineRoute('manage', {
  method: 'delete',
  path: '/api/jobs',
  summary: 'Removes jobs that ended before this time, with their runs, up to 10,000 at once; totals stay',
  request: { query: beforeQuery },
  responses: { 200: jsonResponse('The number', prunedSchema) },
});

const pruneActivityRoute = defineRoute('manage', {
  method: 'delete',
  path: '/api/activity',
  summary:
    'Removes stored events from before this time, up to 10,000 at once; the activity of jobs and runs that are kept stays',
  request: { query: beforeQuery },
  responses: { 200: jsonResponse('The number', prunedSchema) },
});

/** What is done to many jobs at once, and what of the past is removed. */
export function addManyRoutes(api: Api): void {
  api.openapi(kickRoute, async (c) => {
    const { names, count = Number.MAX_SAFE_INTEGER } = await readExactly(c, c.req.valid('json'));
    return answer(c, { kicked: await withSiteQueue(c, (queue) => queue.kickMany(names, count)) });
  });
  api.openapi(batchRoute, async (c) => {
    const { verb, ids, filter, options = {} } = await readExactly(c, c.req.valid('json'));
    if ((ids === undefined) === (filter === undefined)) {
      throw new QueueError('invalid', 'A batch needs either ids or a filter.');
    }
    return await withSiteQueue(c, async (queue) => {
      const found =
        ids === undefined ? await select(queue, said(filter ?? {})) : { ids: [...new Set(ids)], more: false };
      const items = await doEach(queue, verb, found.ids, said(options));
      return answer(c, { items, more: found.more });
    });
  });
  api.openapi(pruneJobsRoute, async (c) => {
    const at = readBefore(c.req.valid('query').before, c.var.site.now());
    const step: Step = ({ statements }) =>
      pruningOf(statements).endedJobs(['finished', 'failed', 'cancelled'], at, ROWS_PER_STEP);
    return answer(c, await prune(c.var.site, c.var.caller, step, 'jobs'));
  });
  api.openapi(pruneActivityRoute, async (c) => {
    const at = readBefore(c.req.valid('query').before, c.var.site.now());
    const step: Step = ({ statements }) => pruningOf(statements).events(at, ROWS_PER_STEP);
    return answer(c, await prune(c.var.site, c.var.caller, step, 'events'));
  });
}

function said(values: object): Options {
  return Object.fromEntries(Object.entries(values).filter(([, value]) => value !== null && value !== undefined));
}

async function select(queue: Queue, { name, ...filter }: Options) {
  const pattern = name === undefined ? {} : { pattern: name as string };
  const jobs = await queue.list({ ...filter, ...pattern, order: 'oldest', limit: MOST_AT_ONCE });
  return { ids: jobs.map(({ id }) => id), more: jobs.length === MOST_AT_ONCE };
}

type Options = Readonly<Record<string, unknown>>;

const allVerbs: Readonly<Record<string, (queue: Queue, job: JobRef, options: Options) => Promise<unknown>>> = {
  ...actOfVerb,
  delete: (queue, job) => queue.delete(job),
  update: (queue, job, options) => queue.update(job, options),
};

/** Each in a transaction of its own. What is wrong with an option is so for all, and refuses the whole. */
async function doEach(queue: Queue, verb: string, ids: readonly number[], options: Options) {
  const [option] = Object.keys(options);
  if (option !== undefined && ['kick', 'cancel', 'delete'].includes(verb)) {
    throw new QueueError('invalid', `\`${verb}\` takes no options; leave out ${option}.`);
  }
  const items: { id: number; ok: boolean; reason: string | null }[] = [];
  for (const id of ids) {
    try {
      await allVerbs[verb]?.(queue, id, options);
      items.push({ id, ok: true, reason: null });
    } catch (error) {
      if (!(error instanceof QueueError) || error.code === 'invalid') throw error;
      items.push({ id, ok: false, reason: error.message });
    }
  }
  return items;
}

/** Small, so that no step holds the write lock for long; what is left over is for the next call. */
const ROWS_PER_STEP = 500;
const STEPS_AT_ONCE = 20;

type Step = (session: StoreSession) => Promise<PruneStep>;

function readBefore(text: string, nowMs: number): number {
  const at = readTimeSpan(text, nowMs)?.startMs;
  if (at === undefined) throw new InvalidParameter('before', 'must be a time');
  return at;
}

async function prune({ changes, state, now }: LiveSite, { name }: Caller, step: Step, what: string) {
  return await changes.use(async (shared: SharedQueue) => {
    let [deleted, last] = [0, ROWS_PER_STEP];
    for (let steps = 0; steps < STEPS_AT_ONCE && last === ROWS_PER_STEP; steps += 1) {
      const done = await shared.change(name, step);
      removeOutput(state, done.outputFiles);
      last = done.deleted;
      deleted += last;
    }
    const event = { at: now(), event: 'log-pruned', detail: `${deleted} ${what}` } as const;
    if (deleted > 0) await shared.change(name, ({ events }) => events.record([event]));
    return { deleted, more: last === ROWS_PER_STEP };
  });
}
