import { z } from '@hono/zod-openapi';
import { tierNames } from '../../../discovery/jobs-folder.ts';
import { listHandlerNames } from '../../../discovery/look-into-jobs.ts';
import { overviewToJson, statusToJson } from '../../../report/json.ts';
import { readOverview } from '../../../report/model/overview.ts';
import { readStatus } from '../../../report/model/status.ts';
import { answer, knownNumber, knownText, orNull, readClosedWindow, textSchema, windowFields } from '../fields.ts';
import { type Api, defineRoute, jsonResponse } from '../route.ts';
import {
  incidentSchema,
  knownInstant,
  livenessSchema,
  outcomeSchema,
  pauseSchema,
  runningSchema,
  runSchema,
  waitingSchema,
} from '../schemas.ts';

const presenceSchema = z.enum(['present', 'gone', 'unknown']).openapi('Presence');

const passFields = {
  id: z.int(),
  state: z.enum(['running', 'finished', 'skipped', 'crashed']),
  scheduledFor: knownInstant,
  startedAt: knownInstant,
  finishedAt: knownInstant,
  reason: knownText,
};

const passSchema = z.object(passFields).openapi('Pass');

const lastPassSchema = z
  .object({
    ...passFields,
    succeeded: z.int(),
    failed: z.int(),
    running: z.int(),
    liveness: orNull(livenessSchema),
  })
  .openapi('LastPass');

const gapSchema = z.object({ from: knownInstant, to: knownInstant, count: z.int() });

const tierSchema = z
  .object({
    tier: z.string(),
    periodMs: knownNumber,
    presence: presenceSchema,
    lastPass: orNull(lastPassSchema),
    passes: z.int(),
    skippedPasses: z.int(),
    lastSkippedPass: orNull(passSchema),
    missedPasses: z.object({ count: z.int(), gaps: z.array(gapSchema) }).nullable(),
    pause: orNull(pauseSchema),
  })
  .openapi('TierOverview');

export const scriptOverviewFields = {
  script: z.string(),
  tier: z.string(),
  presence: presenceSchema,
  runs: z.int(),
  succeeded: z.int(),
  failed: z.int(),
  released: z.int(),
  successRate: knownNumber,
  p50DurationMs: knownNumber,
  p95DurationMs: knownNumber,
  maxDurationMs: knownNumber,
  totalDurationMs: knownNumber,
  cpuMs: knownNumber,
  totalCpuMs: knownNumber,
  maxRssBytes: knownNumber,
  lastRun: orNull(runSchema),
  lastError: knownText,
  recentRuns: z.array(z.object({ id: z.int(), outcome: outcomeSchema, durationMs: knownNumber })),
  pause: orNull(pauseSchema),
  waiting: orNull(waitingSchema),
};

export const scriptOverviewSchema = z.object(scriptOverviewFields).openapi('ScriptOverview');

const overviewSchema = z
  .object({
    since: knownInstant,
    until: knownInstant,
    tiers: z.array(tierSchema),
    scripts: z.array(scriptOverviewSchema),
    running: z.array(runningSchema),
    totals: z.object({
      runs: z.int(),
      succeeded: z.int(),
      failed: z.int(),
      released: z.int(),
      successRate: knownNumber,
      durationMs: knownNumber,
      cpuMs: knownNumber,
      maxRssBytes: knownNumber,
    }),
  })
  .openapi('Overview');

export const WEEK_MS = 7 * 86_400_000;

const overviewRoute = defineRoute('read', {
  method: 'get',
  path: '/api/overview',
  summary: 'All scripts with their figures in a window of time: what `runner report --json` prints',
  request: { query: z.strictObject({ ...windowFields, tier: textSchema.optional() }) },
  responses: { 200: jsonResponse('The overview', overviewSchema) },
});

export const holderSchema = z
  .object({
    kind: z.enum(['tier', 'script', 'backlog', 'queue']).nullable(),
    pid: z.int(),
    host: z.string(),
    since: knownInstant,
  })
  .openapi('TierHolder');

export const tierStateFields = {
  tier: z.string(),
  periodMs: knownNumber,
  lastPass: z.object({ state: passFields.state, startedAt: knownInstant }).nullable(),
  lastCalledBySchedule: knownInstant,
  nextCall: knownInstant,
  isOverdue: z.boolean(),
  isDueAgain: z.boolean(),
  holder: orNull(holderSchema),
  pause: orNull(pauseSchema),
};

export const waiterSchema = z
  .object({ host: z.string(), pid: z.int(), patterns: z.array(z.string()), since: knownInstant })
  .openapi('Waiter');

const queueSchema = z
  .object({
    ready: z.int().nullable(),
    delayed: z.int().nullable(),
    running: z.int().nullable(),
    paused: z.int().nullable(),
    failed: z.int().nullable(),
    workers: z.int().nullable(),
    idleWorkers: z.int().nullable(),
    waiting: z.array(waiterSchema),
    withoutHandler: z.array(z.object({ name: z.string(), jobs: z.int(), nearest: knownText })),
  })
  .openapi('QueueStatus');

const statusSchema = z
  .object({
    at: knownInstant,
    incidents: z.array(incidentSchema),
    running: z.array(z.object({ ...runningSchema.shape, usualDurationMs: knownNumber })),
    waiting: z.array(waitingSchema),
    pauses: z.array(pauseSchema),
    queue: queueSchema,
    tiers: z.array(z.object(tierStateFields).openapi('TierState')),
    isLogUnread: z.boolean(),
    logProblem: knownText.openapi({ description: 'Why the log cannot be read; null: it can, or there is none' }),
    spooledRuns: z.int(),
    quarantinedLogs: z.array(z.string()),
  })
  .openapi('Status');

const statusRoute = defineRoute('read', {
  method: 'get',
  path: '/api/status',
  summary: 'What is wrong, runs, waits and is paused now: what `runner status --json` prints',
  request: { query: z.strictObject({}) },
  responses: { 200: jsonResponse('The status', statusSchema) },
});

export function addOverviewRoutes(api: Api): void {
  api.openapi(overviewRoute, async (c) => {
    const { site } = c.var;
    const { tier, ...window } = c.req.valid('query');
    const known = await site.knownTiers();
    const overview = await site.read(({ nowMs, pauses, view }) =>
      readOverview(view, { ...readClosedWindow(window, nowMs, WEEK_MS), tier, known, pauses }),
    );
    return answer(c, overviewToJson(overview));
  });
  api.openapi(statusRoute, async (c) => {
    const { root, states, read } = c.var.site;
    const tiers = tierNames(root);
    const handlers = await listHandlerNames(root);
    const status = await read(async ({ view, nowMs, pauses, problem: logProblem }) => {
      const found = await readStatus(view, {
        states,
        tiers,
        handlers,
        pauses,
        nowMs,
        isLogUnread: logProblem !== null,
      });
      return { ...statusToJson(found), logProblem };
    });
    return answer(c, status);
  });
}
