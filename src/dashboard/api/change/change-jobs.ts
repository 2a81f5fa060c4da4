import { z } from '@hono/zod-openapi';
import type { Context } from 'hono';
import type { JobRef, NewJob, Queue } from '../../../queue/api.ts';
import { noSuchJob } from '../../../queue/errors.ts';
import { jobRecord } from '../../../report/model/jobs.ts';
import { childFailurePolicies, missedPolicies } from '../../../store/words.ts';
import { field } from '../../../system/base/record.ts';
import { answer, idSchema } from '../fields.ts';
import { type Api, type ApiEnv, defineRoute, jsonResponse } from '../route.ts';
import { schemaOfField } from '../schema-of.ts';
import {
  anyJson,
  durationSchema,
  jobNameSchema,
  jsonBody,
  optional,
  optionalJsonBody,
  prioritySchema,
  readExactly,
  readListExactly,
  reasonSchema,
  receiveBody,
  tokenSchema,
  whenSchema,
} from './bodies.ts';

export const idParam = z.object({ id: idSchema });

const newJobSchema = z
  .strictObject({
    name: jobNameSchema,
    data: anyJson.optional(),
    runAt: optional(whenSchema),
    priority: optional(prioritySchema),
    retries: optional(z.int().min(0).max(100)),
    retryDelay: optional(z.string().max(100).openapi({ example: 'exponential 30s 6h' })),
    uniqueKey: optional(z.string().max(255)).openapi({ description: 'At most one unfinished job has it' }),
    onDuplicate: optional(z.enum(['keep', 'replace', 'merge', 'replace-all'])),
    repeat: optional(z.string().max(1000).openapi({ example: 'SCHEDULED, +1 HOUR' })),
    missed: optional(z.enum(missedPolicies)),
    parent: optional(z.int().min(1)),
    onChildFailure: optional(z.enum(childFailurePolicies)),
    group: optional(z.string().max(255)),
    lease: optional(durationSchema),
  })
  .openapi('NewJob');

const MOST_JOBS = 1_000;

const addedSchema = z.object({
  items: z.array(
    z.object({
      id: z.int(),
      added: z.boolean().openapi({ description: 'False: an unfinished job has its unique key; this is its number' }),
      changed: z.boolean().openapi({ description: 'True: that job took something of this one' }),
      ignored: z
        .array(z.string())
        .readonly()
        .openapi({ description: 'Options that were given and that job did not take' }),
    }),
  ),
});

const addRoute = defineRoute('manage', {
  method: 'post',
  path: '/api/jobs',
  summary: 'Adds a job, or several in their order, all or none',
  request: jsonBody(z.union([newJobSchema, z.array(newJobSchema).min(1).max(MOST_JOBS)])),
  responses: { 201: jsonResponse('Their numbers, in their order', addedSchema) },
});

/** How a job stands after a verb. */
export const changedSchema = z
  .object({
    id: z.int(),
    job: schemaOfField(field.one(jobRecord).orNull.about('Null: it was deleted, or was not kept after its end')),
  })
  .openapi('ChangedJob');

const token = optional(tokenSchema);
const reason = optional(reasonSchema);
const priority = optional(prioritySchema);
const data = anyJson.optional();

/** What each verb takes, and what it is for. */
export const verbBodies = {
  finish: z.strictObject({ result: anyJson.optional(), data, token }),
  retry: z.strictObject({
    delay: optional(durationSchema),
    runAt: optional(whenSchema),
    priority,
    name: optional(jobNameSchema),
    data,
    ignoreRepeat: optional(z.boolean()),
    reason,
    token,
  }),
  fail: z.strictObject({ reason, data, mayRetry: optional(z.boolean()), token }),
  bury: z.strictObject({ priority, reason, token }),
  kick: z.strictObject({}),
  cancel: z.strictObject({}),
  touch: z.strictObject({ lease: optional(durationSchema), token }),
  requeue: z.strictObject({ name: optional(jobNameSchema), forgetTry: optional(z.boolean()) }),
} as const;

export type JobVerbName = keyof typeof verbBodies;

const summaries: Readonly<Record<JobVerbName, string>> = {
  finish: 'Ends a running job as finished, with its result',
  retry: 'Puts a running job back into the queue',
  fail: 'Ends a running job as failed; with mayRetry only this try',
  bury: 'Sets a running or waiting job aside until it is kicked',
  kick: 'Makes a failed or delayed job due at once, with all its tries',
  cancel: 'Ends a waiting or failed job as cancelled; one that is cancelled stays so',
  touch: 'Renews the claim of a running job',
  requeue: 'Queues a job again from any state, first of its priority',
};

type Options = Readonly<Record<string, unknown>>;

/** What is done to a job; the queue checks whether it can be. */
export const actOfVerb: Readonly<
  Record<JobVerbName, (queue: Queue, job: JobRef, options: Options) => Promise<unknown>>
> = {
  finish: (queue, job, options) => queue.finish(job, options),
  retry: (queue, job, options) => queue.retry(job, options),
  fail: (queue, job, options) => queue.fail(job, options),
  bury: (queue, job, options) => queue.bury(job, options),
  kick: (queue, job) => queue.kick(idOfRef(job)),
  cancel: (queue, job) => queue.cancel(idOfRef(job)),
  touch: (queue, job, options) => queue.touch(job, options),
  requeue: async (queue, job, options) => {
    // Of several, those that are not there are passed over; who names one is told.
    await requireJob(queue, idOfRef(job));
    await queue.requeue([idOfRef(job)], options);
  },
};

export function idOfRef(job: JobRef): number {
  return typeof job === 'number' ? job : job.id;
}

/** @throws {QueueError} where there is none */
async function requireJob(queue: Queue, id: number): Promise<void> {
  if ((await queue.get(id)) === null) throw noSuchJob(id);
}

const verbRoute = <Name extends JobVerbName>(verb: Name) =>
  defineRoute('manage', {
    method: 'post',
    path: `/api/jobs/{id}/${verb}`,
    summary: summaries[verb],
    request: { params: idParam, ...optionalJsonBody(verbBodies[verb]) },
    responses: { 200: jsonResponse('The job after the change', changedSchema) },
  });

const updateRoute = defineRoute('manage', {
  method: 'patch',
  path: '/api/jobs/{id}',
  summary: 'Changes data, priority, time or rule of a job, in any state, without changing the state',
  request: {
    params: idParam,
    ...jsonBody(
      z.strictObject({
        data,
        priority,
        runAt: optional(whenSchema),
        repeat: z.string().max(1000).nullish().openapi({ description: 'Null: it stops repeating' }),
        token,
      }),
    ),
  },
  responses: { 200: jsonResponse('The job after the change', changedSchema) },
});

const deleteRoute = defineRoute('manage', {
  method: 'delete',
  path: '/api/jobs/{id}',
  summary: 'Removes a job with its runs and its ended children; for a running job, the token of its claim is needed',
  request: { params: idParam, query: z.strictObject({ token: tokenSchema.optional() }) },
  responses: { 200: jsonResponse('It was removed', changedSchema) },
});

/** Adding, ending, changing and removing jobs, each by the queue's own verb. */
export function addJobChangeRoutes(api: Api): void {
  api.use('/api/jobs', receiveChange);
  api.use('/api/jobs/*', receiveChange);
  api.openapi(addRoute, async (c) => {
    const body = c.req.valid('json');
    const isList = Array.isArray(body);
    const jobs = isList ? await readListExactly(c, body, 'data') : [await readExactly(c, body, 'data')];
    const items = await withSiteQueue(c, (queue) => queue.addManyUnique(jobs as readonly NewJob<unknown>[]));
    return answer(c, { items }, 201);
  });
  for (const verb of Object.keys(verbBodies) as JobVerbName[]) {
    api.openapi(verbRoute(verb), async (c) => {
      const { id } = c.req.valid('param');
      const { token: held, ...options } = await readExactly(c, c.req.valid('json') as Options, 'data', 'result');
      const job = held === undefined ? id : { id, token: held as string };
      return await withSiteQueue(c, async (queue) => {
        await actOfVerb[verb](queue, job, options);
        return answer(c, await describeChanged(queue, id));
      });
    });
  }
  api.openapi(updateRoute, async (c) => {
    const { id } = c.req.valid('param');
    const body = c.req.valid('json');
    const { token: held, ...options } = await readExactly(c, body, 'data');
    const job = held === undefined ? id : { id, token: held };
    return await withSiteQueue(c, async (queue) => {
      await queue.update(job, { ...options, ...(body.repeat === null && { repeat: null }) });
      return answer(c, await describeChanged(queue, id));
    });
  });
  api.openapi(deleteRoute, async (c) => {
    const { id } = c.req.valid('param');
    const { token: held } = c.req.valid('query');
    await withSiteQueue(c, (queue) => queue.delete(held === undefined ? id : { id, token: held }));
    return answer(c, { id, job: null });
  });
}

async function receiveChange(c: Context, next: () => Promise<void>): Promise<void> {
  if (['POST', 'PUT', 'PATCH'].includes(c.req.method)) await receiveBody(c, next);
  else await next();
}

/** The queue's verbs, in the name of who asks. */
export async function withSiteQueue<T>(c: Context<ApiEnv>, use: (queue: Queue) => Promise<T>): Promise<T> {
  const { site, caller } = c.var;
  return await site.changes.use((shared) => use(shared.as(caller.name)));
}

async function describeChanged(queue: Queue, id: number) {
  const job = await queue.get(id);
  return { id, job: job && jobRecord.toJson(job) };
}
