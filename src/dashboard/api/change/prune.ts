import { z } from '@hono/zod-openapi';
import type { SharedQueue } from '../../../queue/queue.ts';
import { readTimeSpan } from '../../../report/text/filters.ts';
import { type PruneStep, pruningOf } from '../../../store/statements/pruning.ts';
import type { StoreSession } from '../../../store/store.ts';
import { removeOutput } from '../../../system/place/state-folder.ts';
import type { LiveSite } from '../../site.ts';
import { answer, timeSchema } from '../fields.ts';
import { type Api, type Caller, defineRoute, InvalidParameter, jsonResponse } from '../route.ts';

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

/** Removing what ended or happened before a time. */
export function addPruneRoutes(api: Api): void {
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
