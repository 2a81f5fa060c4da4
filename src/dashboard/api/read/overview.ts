import { z } from '@hono/zod-openapi';
import { overviewRecord, readOverview } from '../../../report/model/overview.ts';
import { readStatus, statusRecord, statusToJson } from '../../../report/model/status.ts';
import { record, shown } from '../../../system/base/record.ts';
import { answer, readClosedWindow, textSchema, windowFields } from '../fields.ts';
import { type Api, defineRoute, jsonResponse } from '../route.ts';
import { schemaOf } from '../schema-of.ts';

export const WEEK_MS = 7 * 86_400_000;

const overviewRoute = defineRoute('read', {
  method: 'get',
  path: '/api/overview',
  summary: 'All scripts with their figures for a range of time, as `npx folder-runner report --json` prints them',
  request: { query: z.strictObject({ ...windowFields, tier: textSchema.optional() }) },
  responses: { 200: jsonResponse('The overview', schemaOf(overviewRecord)) },
});

const { spooledRuns, quarantinedLogs, differences, ...now } = statusRecord.fields;

const problemRecord = record('Status', {
  ...now,
  logProblem: shown.text.orNull.about('Why the log cannot be read; null: it can be read, or there is none'),
  ...{ spooledRuns, quarantinedLogs, differences },
});

const statusRoute = defineRoute('read', {
  method: 'get',
  path: '/api/status',
  summary: 'Incidents, running and waiting jobs, and pauses, as `npx folder-runner status --json` prints them',
  request: { query: z.strictObject({}) },
  responses: { 200: jsonResponse('The status', schemaOf(problemRecord)) },
});

export function addOverviewRoutes(api: Api): void {
  api.openapi(overviewRoute, async (c) => {
    const { site } = c.var;
    const { tier, ...window } = c.req.valid('query');
    const overview = await site.read((found) =>
      readOverview(found, { ...readClosedWindow(window, found.nowMs, WEEK_MS), tier }),
    );
    return answer(c, overviewRecord.toJson(overview));
  });
  api.openapi(statusRoute, async (c) => {
    const status = await c.var.site.read(async (site) => {
      return { ...statusToJson(await readStatus(site)), logProblem: site.problem };
    });
    return answer(c, status);
  });
}
