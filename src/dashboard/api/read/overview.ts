import { z } from '@hono/zod-openapi';
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

const presenceSchema = z.enum(['present', 'disabled', 'gone', 'unknown']).openapi('Presence');

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
    withWarning: z.int().openapi({ description: 'Of those that succeeded' }),
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
  summary: 'All scripts with their figures for a range of time, as `npx folder-runner report --json` prints them',
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
  isInCrontab: z.boolean().nullable().openapi({ description: 'Null: the crontab cannot be read' }),
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

export const nextTimeSchema = z
  .object({
    script: z.string(),
    tier: z.string(),
    schedule: knownText.openapi({ description: 'Null: it runs only after boots' }),
    timezone: knownText,
    isAfterBoot: z.boolean(),
    next: knownInstant.openapi({ description: 'A time in the past has come, and waits for a pass' }),
    nextPass: knownInstant.openapi({ description: 'When the pass of its tier that will run it is expected' }),
  })
  .openapi('NextTime');

const statusSchema = z
  .object({
    at: knownInstant,
    incidents: z.array(incidentSchema),
    running: z.array(z.object({ ...runningSchema.shape, usualDurationMs: knownNumber })),
    waiting: z.array(waitingSchema),
    pauses: z.array(pauseSchema),
    disabled: z.array(z.string()).openapi({ description: 'Disabled scripts and handlers' }),
    queue: queueSchema,
    tiers: z.array(z.object(tierStateFields).openapi('TierState')),
    scheduled: z.array(nextTimeSchema).openapi({ description: 'Scripts with times of their own' }),
    isLogUnread: z.boolean(),
    logProblem: knownText.openapi({
      description: 'Why the log cannot be read; null: it can be read, or there is none',
    }),
    spooledRuns: z.int(),
    quarantinedLogs: z.array(z.string()),
    differences: z.array(z.string()).openapi({ description: 'Scripts that differ between machines' }),
  })
  .openapi('Status');

const statusRoute = defineRoute('read', {
  method: 'get',
  path: '/api/status',
  summary: 'Incidents, running and waiting jobs, and pauses, as `npx folder-runner status --json` prints them',
  request: { query: z.strictObject({}) },
  responses: { 200: jsonResponse('The status', statusSchema) },
});

export function addOverviewRoutes(api: Api): void {
  api.openapi(overviewRoute, async (c) => {
    const { site } = c.var;
    const { tier, ...window } = c.req.valid('query');
    const { crontab } = site;
    const known = site.knownTiers();
    const overview = await site.read(({ nowMs, pauses, view }) =>
      readOverview(view, { ...readClosedWindow(window, nowMs, WEEK_MS), tier, known, pauses, crontab }),
    );
    return answer(c, overviewToJson(overview));
  });
  api.openapi(statusRoute, async (c) => {
    const { root, states, read, crontab } = c.var.site;
    const jobs = await c.var.site.lookIntoJobs();
    const status = await read(async ({ view, store, nowMs, pauses, problem: logProblem }) => {
      const found = await readStatus(view, {
        ...{ root, store, states, jobs, pauses, crontab, nowMs },
        isLogUnread: logProblem !== null,
      });
      return { ...statusToJson(found), logProblem };
    });
    return answer(c, status);
  });
}
