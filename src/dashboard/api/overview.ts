import { z } from '@hono/zod-openapi';
import { overviewToJson } from '../../report/json.ts';
import { readOverview } from '../../report/model/overview.ts';
import { parseTimeWindow } from '../../report/text/filters.ts';
import { type Api, defineRoute, instantSchema, jsonResponse } from './route.ts';

const nullable = <S extends z.ZodType>(schema: S) => schema.nullable();

const pauseSchema = z
  .object({
    name: z.string(),
    kind: z.enum(['pause', 'fail-fast']),
    until: nullable(instantSchema),
    since: nullable(instantSchema),
  })
  .openapi('Pause');

const tierSchema = z.looseObject({ tier: z.string(), pause: nullable(pauseSchema) }).openapi('TierOverview');
const scriptSchema = z.looseObject({ script: z.string(), tier: z.string() }).openapi('ScriptOverview');

const overviewSchema = z
  .object({
    since: nullable(instantSchema),
    until: nullable(instantSchema),
    tiers: z.array(tierSchema),
    scripts: z.array(scriptSchema),
    running: z.array(z.looseObject({ id: z.int(), script: z.string() })),
    totals: z.object({
      runs: z.int(),
      succeeded: z.int(),
      failed: z.int(),
      released: z.int(),
      successRate: nullable(z.number()),
      durationMs: nullable(z.number()),
      cpuMs: nullable(z.number()),
      maxRssBytes: nullable(z.number()),
    }),
  })
  .openapi('Overview');

const overviewRoute = defineRoute('read', {
  method: 'get',
  path: '/api/overview',
  summary: 'All scripts with their figures in a window of time: what `runner report --json` prints',
  request: {
    query: z.object({
      since: z.string().optional().openapi({ example: '24h' }),
      until: z.string().optional(),
      tier: z.string().optional(),
    }),
  },
  responses: { 200: jsonResponse('The overview', overviewSchema) },
});

export function addOverviewRoutes(api: Api): void {
  api.openapi(overviewRoute, async (c) => {
    const { site } = c.var;
    const { since, until, tier } = c.req.valid('query');
    const known = await site.knownTiers();
    const overview = await site.read(({ nowMs, pauses, view }) =>
      readOverview(view, { ...parseTimeWindow({ since, until }, nowMs), tier, known, pauses }),
    );
    return c.json(overviewToJson(overview), 200);
  });
}
