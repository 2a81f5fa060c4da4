import { z } from '@hono/zod-openapi';
import { checkCodes } from '../../../checks/list.ts';
import type { Site } from '../../../discovery/site.ts';
import { foresee } from '../../../monitor/alert/incidents.ts';
import { writePrometheus } from '../../../monitor/metrics/prometheus.ts';
import { healthToJson } from '../../../report/json.ts';
import {
  countIncidents,
  findingText,
  graded,
  incidentRecord,
  selectIncidents,
  withErrors,
} from '../../../report/model/incidents.ts';
import { muteRecord, pauseRecord } from '../../../report/model/pauses.ts';
import { readHealth } from '../../../report/model/verdict.ts';
import { incidentsOf } from '../../../store/statements/monitor/incidents.ts';
import { record, shown } from '../../../system/base/record.ts';
import { anyOf, oneOf, pagedOf, pageFields, pageOf, readLog, readPage, readTotal, textSchema } from '../fields.ts';
import { type Api, defineRoute } from '../route.ts';
import { view } from '../view.ts';

const incidentsView = view({
  operationId: 'listIncidents',
  path: '/api/incidents',
  summary: 'Current and past incidents, the newest first',
  permission: 'wall',
  query: {
    ...pageFields(1),
    state: oneOf(['open', 'over', 'all']).default('open'),
    subject: textSchema.optional().openapi({ example: 'hourly/import' }),
  },
  says: 'Incidents',
  answers: record(null, {
    ...pagedOf(incidentRecord).fields,
    mutes: shown.list(shown.one(muteRecord)).about('The mutes in force'),
  }),
  read: async (site, { limit, cursor, count, state, subject }) => {
    const log = await site.view();
    const [beforeId] = cursor ?? [];
    const select = (most: number) => selectIncidents(log, { state, subject, beforeId, limit: most });
    const { items, next } = await readPage(limit, select, ({ id }) => [id]);
    const foreseen = await foresee(site.store, site, items);
    const asked = foreseen.filter(({ recovered_at }) => state !== 'open' || recovered_at === null);
    const total = await readTotal(count, () => countIncidents(log, { state, subject }));
    return { items: (await withErrors(log, asked)).map(graded), next, total, mutes: await readMutes(site) };
  },
});

async function readMutes({ store, nowMs }: Pick<Site, 'store' | 'nowMs'>) {
  return store === null ? [] : await incidentsOf(store.statements).mutes(nowMs);
}

const mutesView = view({
  operationId: 'listMutes',
  path: '/api/mutes',
  summary: 'The mutes in force',
  permission: 'wall',
  says: 'Mutes',
  answers: pageOf(muteRecord),
  read: async (site) => ({ items: await readMutes(site), next: null }),
});

const pausesView = view({
  operationId: 'listPauses',
  path: '/api/pauses',
  summary: 'The pauses in force',
  permission: 'wall',
  says: 'Pauses',
  answers: pageOf(pauseRecord),
  read: async ({ pauses }) => ({ items: await pauses(), next: null }),
});

const checkStatus = shown.words(['ok', 'warning', 'critical', 'unknown'], 'CheckStatus');

const healthRecord = record('Health', {
  status: checkStatus,
  checks: shown.list(
    shown.one(
      record(null, {
        code: shown.words(checkCodes),
        status: checkStatus,
        subject: shown.text.like('hourly/clean-tmp'),
        message: findingText,
        hint: shown.text.like('`npx folder-runner why hourly/clean-tmp` tells more').orNull,
      }),
    ),
  ),
});

const healthView = view({
  operationId: 'getHealth',
  path: '/api/health',
  summary: 'The findings of the health checks, as `npx folder-runner check --json` prints them',
  permission: 'wall',
  query: { code: anyOf(checkCodes).optional() },
  says: 'What they find; also if something is wrong',
  answers: healthRecord,
  isWithoutLog: true,
  read: async (site, { code: codes = checkCodes }) => healthToJson(await readHealth(site, codes)),
});

export const monitorViews = [incidentsView, mutesView, pausesView, healthView];

const prometheusRoute = defineRoute('wall', {
  operationId: 'getPrometheusMetrics',
  method: 'get',
  path: '/metrics',
  summary: 'All metrics for Prometheus, as `npx folder-runner metrics --prometheus` prints them',
  request: { query: z.strictObject({}) },
  responses: {
    200: {
      description: 'The text format 0.0.4',
      content: { 'text/plain': { schema: z.string().openapi({ example: 'runner_up 1\n' }) } },
    },
  },
});

export function addPrometheusRoute(api: Api): void {
  api.openapi(prometheusRoute, async (c) => {
    const { site } = c.var;
    const metrics = await readLog(site, async ({ store, nowMs }) =>
      store === null ? '' : await writePrometheus(store, nowMs, site.version),
    );
    return c.text(metrics, 200, { 'content-type': 'text/plain; version=0.0.4; charset=utf-8' });
  });
}
