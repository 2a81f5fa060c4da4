import { z } from '@hono/zod-openapi';
import type { Context } from 'hono';
import { HTTPException } from 'hono/http-exception';
import { givenOptions, jobOptions, verbOptions } from '../../../queue/add/options.ts';
import { QueueError } from '../../../queue/errors.ts';
import type { VerbQueue } from '../../../queue/queue.ts';
import type { JobSelection } from '../../../queue/settle/many.ts';
import { permissionOf, type VerbName, verbNames, verbOf } from '../../../queue/settle/verbs.ts';
import { changePlanRecord, jobRecord } from '../../../report/model/jobs.ts';
import { ExactJson, itemsOf, memberOf } from '../../../system/base/exact-json.ts';
import { field } from '../../../system/base/record.ts';
import { answer, idSchema } from '../fields.ts';
import { jobFilterFields, readJobFilter } from '../job-filter.ts';
import { type Api, type ApiEnv, defineRoute, jsonResponse, refuseCaller } from '../route.ts';
import { schemaOfField } from '../schema-of.ts';
import { jobNameSchema, jsonBody, optional, optionFields, readBodyText, said, tokenSchema } from './bodies.ts';

export const idParam = z.object({ id: idSchema });

const exampleJob = { name: 'mail/welcome', data: { to: 'ada@example.org' }, runAt: '+10 minutes', retries: 3 };

const newJobSchema = z.strictObject({ ...optionFields(jobOptions), name: jobNameSchema }).openapi('NewJob');

const MOST_AT_ONCE = 1_000;

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

const addRoute = defineRoute('run', {
  operationId: 'addJobs',
  method: 'post',
  path: '/api/jobs',
  summary: 'Adds a job, or several in their order, all or none',
  request: jsonBody(
    z.union([newJobSchema, z.array(newJobSchema).min(1).max(MOST_AT_ONCE)]).openapi({ example: exampleJob }),
  ),
  responses: {
    200: jsonResponse('Nothing was added: the numbers of the jobs that have their unique keys', addedSchema),
    201: {
      ...jsonResponse('Their numbers, in their order', addedSchema),
      headers: z.object({ Location: z.string().optional().openapi({ description: 'Of one job: its address' }) }),
    },
  },
});

/** How a job stands after a verb. */
const changedSchema = z
  .object({
    id: z.int(),
    job: schemaOfField(
      field.one(jobRecord).orNull.about('As it was before, if it was deleted. Null: it was not kept after its end'),
    ),
  })
  .openapi('ChangedJob');

const exampleOptions: Readonly<Partial<Record<VerbName, object>>> = {
  finish: { result: { sent: true } },
  retry: { delay: '10m' },
  fail: { reason: 'no address', mayRetry: true },
  bury: { reason: 'to be looked at' },
  touch: { lease: '10m' },
  update: { priority: 900 },
};

/** A verb that is posted to the path of its name, or the change of a job by PATCH. */
function verbRoute(verb: Exclude<VerbName, 'delete'>) {
  const { summary, options, takesToken = false, needsOption = false } = verbOf(verb);
  const taken = Object.fromEntries(options.map((name) => [name, verbOptions[name]]));
  const fields = { ...optionFields(taken), ...(takesToken && { token: optional(tokenSchema) }) };
  const body = z.strictObject(fields).openapi({ example: exampleOptions[verb] ?? {} });
  const isUpdate = verb === 'update';
  return defineRoute(permissionOf(verb), {
    operationId: `${verb}Job`,
    method: isUpdate ? 'patch' : 'post',
    path: isUpdate ? '/api/jobs/{id}' : `/api/jobs/{id}/${verb}`,
    summary,
    request: { params: idParam, body: { required: needsOption, content: { 'application/json': { schema: body } } } },
    responses: { 200: jsonResponse('The job after the change', changedSchema) },
  });
}

const deleteRoute = defineRoute(permissionOf('delete'), {
  operationId: 'deleteJob',
  method: 'delete',
  path: '/api/jobs/{id}',
  summary: verbOf('delete').summary,
  request: { params: idParam, query: z.strictObject({ token: tokenSchema.optional() }) },
  responses: { 200: jsonResponse('It was removed', changedSchema) },
});

const kickRoute = defineRoute('run', {
  operationId: 'kickJobs',
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

const filterSchema = z
  .strictObject({
    ...jobFilterFields,
    parent: z.int().min(1).optional(),
    after: z.int().min(1).optional().openapi({ description: 'Only jobs with higher numbers: `next` of an answer' }),
    before: z.int().min(1).optional().openapi({ description: 'Only jobs with lower numbers' }),
  })
  .openapi('JobSelection');

const toldSchema = z.object({
  items: z
    .array(
      z.object({
        id: z.int(),
        ok: z.boolean(),
        reason: z
          .string()
          .nullable()
          .openapi({ description: 'Why it was refused; null: it was not', example: 'There is no job 1.' }),
      }),
    )
    .openapi({ description: 'Empty for a dry run' }),
  plan: schemaOfField(field.one(changePlanRecord).orNull.about('Of a dry run; null: it was done')),
  next: z
    .int()
    .nullable()
    .openapi({ description: 'The filter chooses further jobs: ask again with this as `after`. Null: these were all' }),
});

const batchRoute = defineRoute('run', {
  operationId: 'changeJobs',
  method: 'post',
  path: '/api/jobs/batch',
  summary: 'Applies one verb to many jobs, each by itself: a refused job does not stop the others',
  request: jsonBody(
    z
      .strictObject({
        verb: z.enum(verbNames),
        ids: optional(z.array(z.int().min(1)).max(MOST_AT_ONCE)),
        filter: optional(filterSchema).openapi({
          description: `In place of ids, the words of GET /api/jobs; one request changes up to ${MOST_AT_ONCE} jobs`,
        }),
        dryRun: optional(z.boolean()).openapi({ description: 'Of a filter: only count what would be changed' }),
        options: optional(z.strictObject(optionFields(verbOptions))).openapi({
          description: 'The options of the verb',
        }),
      })
      .openapi({ example: { verb: 'kick', filter: { state: 'failed', name: 'mail/*' }, dryRun: true } }),
  ),
  responses: { 200: jsonResponse('The outcome for each job', toldSchema) },
});

type Options = Readonly<Record<string, unknown>>;

/** Adding jobs, and what is done to one, to many, and to all of a name: each by the queue's own verb. */
export function addJobChangeRoutes(api: Api): void {
  api.openapi(addRoute, async (c) => {
    const [body, json] = [c.req.valid('json'), await readBodyText(c)];
    const [bodies, texts] = Array.isArray(body) ? [body, itemsOf(json)] : [[body], [json]];
    const jobs = bodies.map((job, index) => ({
      ...givenOptions(jobOptions, job, texts[index] ?? json),
      name: job.name,
    }));
    const items = await withSiteQueue(c, (queue) => queue.addManyUnique(jobs));
    const [only, other] = items;
    if (only !== undefined && other === undefined) c.header('Location', `jobs/${only.id}`);
    return answer(c, { items }, items.some(({ added }) => added) ? 201 : 200);
  });
  api.openapi(kickRoute, async (c) => {
    const { names, count = Number.MAX_SAFE_INTEGER } = said(c.req.valid('json'));
    return answer(c, { kicked: await withSiteQueue(c, (queue) => queue.kickMany(names, count)) });
  });
  api.openapi(batchRoute, async (c) => {
    const { verb, ids, filter, dryRun = false, options } = said(c.req.valid('json'));
    const refused = refuseCaller(c.var.caller, permissionOf(verb));
    if (refused !== null) throw new HTTPException(403, { message: refused });
    if ((ids === undefined) === (filter === undefined)) {
      throw new QueueError('invalid', 'A batch needs either ids or a filter.');
    }
    if (dryRun && filter === undefined) throw new QueueError('invalid', 'A dry run needs a filter.');
    const json = memberOf(await readBodyText(c), 'options') ?? new ExactJson('{}');
    const given = givenOptions(verbOptions, options ?? {}, json);
    const selection = filter && readSelection(filter, c.var.site.now());
    return await withSiteQueue(c, async (queue) => {
      if (dryRun && selection !== undefined) {
        const plan = await queue.planChange(verb, selection);
        return answer(c, { items: [], plan: changePlanRecord.toJson(plan), next: plan.next });
      }
      const step = selection ? await queue.selectStep(selection) : { ids: [...new Set(ids)], next: null };
      return answer(c, { items: await queue.applyToMany(verb, step.ids, given), plan: null, next: step.next });
    });
  });
  for (const verb of verbNames) {
    if (verb === 'delete') continue;
    api.openapi(verbRoute(verb), async (c) => {
      const { token, ...options } = givenOptions(verbOptions, c.req.valid('json'), await readBodyText(c));
      return answer(c, await change(c, verb, { id: c.req.valid('param').id, token }, options));
    });
  }
  api.openapi(deleteRoute, async (c) => {
    const { id } = c.req.valid('param');
    return answer(c, await change(c, 'delete', { id, ...c.req.valid('query') }, {}));
  });
}

interface NamedClaim {
  readonly id: number;
  readonly token?: unknown;
}

/** Applies the verb to a job, and says how the job stands then. */
async function change(c: Context<ApiEnv>, verb: VerbName, { id, token }: NamedClaim, options: Options) {
  return await withSiteQueue(c, async (queue) => {
    const before = verb === 'delete' ? await queue.get(id) : null;
    await queue.apply(verb, token === undefined ? id : { id, token: String(token) }, options);
    const job = before ?? (await queue.get(id));
    return { id, job: job && jobRecord.toJson(job) };
  });
}

/** The queue's verbs, in the name of who asks. */
async function withSiteQueue<T>(c: Context<ApiEnv>, use: (queue: VerbQueue) => Promise<T>): Promise<T> {
  const { site, caller } = c.var;
  return await site.changes.use((shared) => use(shared.as(caller.name)));
}

function readSelection({ parent, after, before, ...words }: z.infer<typeof filterSchema>, nowMs: number): JobSelection {
  return { ...readJobFilter(words, nowMs), parent, after, before };
}
