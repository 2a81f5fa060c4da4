import type { ServerResponse } from 'node:http';
import { z } from '@hono/zod-openapi';
import type { Context } from 'hono';
import type { ClaimedJob } from '../../../queue/api.ts';
import type { SharedQueue } from '../../../queue/queue.ts';
import { claimedJobRecord } from '../../../report/model/jobs.ts';
import { parseDelayMs } from '../../../settings/readers.ts';
import { answer } from '../fields.ts';
import { type Api, type ApiEnv, defineRoute, jsonResponse } from '../route.ts';
import { schemaOf } from '../schema-of.ts';
import { durationSchema, jobNameSchema, optional, optionalJsonBody, prioritySchema, said } from './bodies.ts';
import { idParam } from './change-jobs.ts';

const LONGEST_WAIT_MS = 5 * 60_000;

const waitSchema = durationSchema
  .refine((text) => (parseDelayMs(text.trim()) ?? Number.POSITIVE_INFINITY) <= LONGEST_WAIT_MS, {
    error: 'must be a duration of at most 5m, such as 30s',
  })
  .openapi({ description: 'How long to wait for the first job; at most 5m. Default: not at all', example: '30s' });

const claimsSchema = z.object({
  jobs: z.array(schemaOf(claimedJobRecord)).openapi({ description: 'Empty: none came in time' }),
});

const MOST_AT_ONCE = 1_000;

const manyRoute = defineRoute('run', {
  operationId: 'claimJobs',
  method: 'post',
  path: '/api/jobs/claim',
  summary: 'Claims jobs, or waits for one; if the caller disconnects, nothing is claimed',
  description:
    'The jobs must be ended by their token before the lease expires: finish, retry, fail or bury; touch renews it.',
  request: optionalJsonBody(
    z.strictObject({
      wait: optional(waitSchema),
      names: optional(z.union([jobNameSchema, z.array(jobNameSchema).max(100)])).openapi({
        description: 'Name or glob of jobs, or a list of them: `mail/*`. Default: all',
      }),
      count: optional(z.int().min(1).max(MOST_AT_ONCE)),
      lease: optional(durationSchema),
      minPriority: optional(prioritySchema),
    }),
  ),
  responses: { 200: jsonResponse('The jobs', claimsSchema) },
});

const oneRoute = defineRoute('run', {
  operationId: 'claimJob',
  method: 'post',
  path: '/api/jobs/{id}/claim',
  summary: 'Claims this job; kicks it first if it is not due yet or has failed',
  request: { params: idParam, ...optionalJsonBody(z.strictObject({ lease: optional(durationSchema) })) },
  responses: { 200: jsonResponse('The job', schemaOf(claimedJobRecord)) },
});

/** Claims for workers that ask over HTTP. */
export function addClaimRoutes(api: Api): void {
  api.openapi(manyRoute, async (c) => {
    const { names = '*', count = 1, ...options } = said(c.req.valid('json'));
    // A caller that has gone, or a server that ends, waits no longer.
    const signal = AbortSignal.any([c.req.raw.signal, c.var.site.changes.closing]);
    const claim = (shared: SharedQueue) => shared.as(c.var.caller.name).claimMany(names, count, { ...options, signal });
    return answer(c, { jobs: await claimFor(c, claim) });
  });
  api.openapi(oneRoute, async (c) => {
    const { id } = c.req.valid('param');
    const options = said(c.req.valid('json'));
    const [job] = await claimFor(c, async (shared) => [await shared.as(c.var.caller.name).claimJob(id, options)]);
    return answer(c, job as ReturnType<typeof claimedJobRecord.toJson>);
  });
}

/**
 * Claims jobs for a caller. If the caller is gone before the answer, the jobs go back to the queue at once with their
 * tries unchanged.
 */
async function claimFor(c: Context<ApiEnv>, take: (shared: SharedQueue) => Promise<ClaimedJob[]>) {
  const { site, caller } = c.var;
  const jobs = await site.changes.use(take);
  const giveBack = () =>
    site.changes.use((shared) =>
      shared.as(caller.name).requeue(
        jobs.map(({ id }) => id),
        { forgetTry: true },
      ),
    );
  if (jobs.length > 0) site.changes.hold(wasRead(c).then((isRead) => (isRead ? 0 : giveBack())));
  return jobs.map(claimedJobRecord.toJson);
}

/** Whether the answer has left this process in whole. */
async function wasRead({ env, req }: Context): Promise<boolean> {
  const outgoing = (env as { readonly outgoing?: ServerResponse } | undefined)?.outgoing;
  // Called in process: whoever asks gets it, unless they have turned away.
  if (outgoing === undefined) return !req.raw.signal.aborted;
  if (outgoing.destroyed || outgoing.closed) return outgoing.writableFinished;
  return await new Promise((resolve) => {
    outgoing.once('finish', () => resolve(true));
    outgoing.once('close', () => resolve(outgoing.writableFinished));
  });
}
