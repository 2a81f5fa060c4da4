import { uptime } from 'node:os';
import { z } from '@hono/zod-openapi';
import { checkCodes, runChecks, withoutLog } from '../../../checks/list.ts';
import { foresee } from '../../../monitor/alert/incidents.ts';
import { writePrometheus } from '../../../monitor/metrics/prometheus.ts';
import { healthToJson } from '../../../report/json.ts';
import { findingText, incidentRecord, selectIncidents } from '../../../report/model/incidents.ts';
import { muteRecord, pauseRecord } from '../../../report/model/pauses.ts';
import { incidentsOf } from '../../../store/statements/monitor/incidents.ts';
import { record, shown } from '../../../system/base/record.ts';
import { answer, cutPage, oneOf, pageFields, pageOf, readCursor, readLog, textSchema, wordsOf } from '../fields.ts';
import { type Api, defineRoute, jsonResponse } from '../route.ts';
import { schemaOf } from '../schema-of.ts';

const incidentsRoute = defineRoute('read', {
  method: 'get',
  path: '/api/incidents',
  summary: 'Current and past incidents, the newest first',
  request: {
    query: z.strictObject({
      ...pageFields(500, 100),
      state: oneOf(['open', 'over', 'all']).default('open'),
      subject: textSchema.optional().openapi({ example: 'hourly/import' }),
    }),
  },
  responses: { 200: jsonResponse('Incidents', schemaOf(pageOf(incidentRecord))) },
});

const mutesRoute = defineRoute('read', {
  method: 'get',
  path: '/api/mutes',
  summary: 'The mutes in force',
  request: { query: z.strictObject({}) },
  responses: { 200: jsonResponse('Mutes', schemaOf(pageOf(muteRecord))) },
});

const pausesRoute = defineRoute('read', {
  method: 'get',
  path: '/api/pauses',
  summary: 'The pauses in force',
  request: { query: z.strictObject({}) },
  responses: { 200: jsonResponse('Pauses', schemaOf(pageOf(pauseRecord))) },
});

const checkStatus = shown.words(['ok', 'warning', 'critical', 'unknown'], 'CheckStatus');

const healthRecord = record('Health', {
  status: checkStatus,
  checks: shown.list(
    shown.one(
      record(null, {
        code: shown.words(checkCodes),
        status: checkStatus,
        subject: shown.text,
        message: findingText,
        hint: shown.text.orNull,
      }),
    ),
  ),
});

const healthRoute = defineRoute('read', {
  method: 'get',
  path: '/api/health',
  summary: 'The findings of the health checks, as `npx folder-runner check --json` prints them',
  request: { query: z.strictObject({ code: wordsOf(checkCodes).optional() }) },
  responses: {
    200: jsonResponse('What they find; also if something is wrong', schemaOf(healthRecord)),
  },
});

const prometheusRoute = defineRoute('read', {
  method: 'get',
  path: '/metrics',
  summary: 'All metrics for Prometheus, as `npx folder-runner metrics --prometheus` prints them',
  request: { query: z.strictObject({}) },
  responses: {
    200: { description: 'The text format 0.0.4', content: { 'text/plain': { schema: z.string() } } },
  },
});

export function addMonitorRoutes(api: Api): void {
  api.openapi(incidentsRoute, async (c) => {
    const { limit, cursor, state, subject } = c.req.valid('query');
    const [beforeId] = readCursor(cursor, 1) ?? [];
    const page = await readLog(c.var.site, async ({ root, store, nowMs }, view) => {
      const found = await selectIncidents(view, { state, subject, beforeId, limit: limit + 1 });
      const { shown, next } = cutPage(found, limit, ({ id }) => [id]);
      const foreseen = await foresee(store, { root, nowMs }, shown);
      const items = foreseen
        .filter(({ recovered_at }) => state !== 'open' || recovered_at === null)
        .map(incidentRecord.toJson);
      return { items, next };
    });
    return answer(c, page);
  });
  api.openapi(mutesRoute, async (c) => {
    const mutes = await readLog(c.var.site, async ({ store, nowMs }) =>
      store === null ? [] : await incidentsOf(store.statements).mutes(nowMs),
    );
    return answer(c, { items: mutes.map(muteRecord.toJson), next: null });
  });
  api.openapi(pausesRoute, async (c) => {
    const pauses = await readLog(c.var.site, ({ pauses: read }) => read());
    return answer(c, { items: pauses.map(pauseRecord.toJson), next: null });
  });
  api.openapi(healthRoute, async (c) => {
    const { code: codes = checkCodes } = c.req.valid('query');
    const { findings } = await c.var.site.read(async ({ root, store, problem, nowMs, ...site }) => {
      const settings = await site.settings();
      if (store === null) return withoutLog(problem ?? 'nothing has run here yet, so there is no log', codes);
      const place = { root, states: site.states(), settings, nowMs, upMs: uptime() * 1000 };
      return await runChecks(store, place, codes);
    });
    return answer(c, healthToJson(findings));
  });
  api.openapi(prometheusRoute, async (c) => {
    const { site } = c.var;
    const metrics = await readLog(site, async ({ store, nowMs }) =>
      store === null ? '' : await writePrometheus(store, nowMs, site.version),
    );
    return c.text(metrics, 200, { 'content-type': 'text/plain; version=0.0.4; charset=utf-8' });
  });
}
