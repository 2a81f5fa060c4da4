import { z } from '@hono/zod-openapi';
import { HTTPException } from 'hono/http-exception';
import { changeToJson, runToJson } from '../../../report/json.ts';
import { findNames } from '../../../report/model/history.ts';
import type { LogView, RunRecord } from '../../../report/model/runs/run.ts';
import { readRunSummary, selectNeighbours, selectRunPage } from '../../../report/model/runs/run-pages.ts';
import { type RunWithOutput, selectHighestRunId, selectNewestRun, selectRun } from '../../../report/model/runs/runs.ts';
import { type Clock, createClock } from '../../../report/text/clock.ts';
import { describeChange, describeDeviation } from '../../../report/text/words.ts';
import { outcomes } from '../../../store/schema.ts';
import {
  answer,
  idSchema,
  knownText,
  pageFields,
  pageOf,
  readCursor,
  readLog,
  readWindow,
  requireScript,
  textSchema,
  windowFields,
  wordsOf,
  writeCursor,
} from '../fields.ts';
import { type Api, defineRoute, jsonResponse } from '../route.ts';
import { knownInstant, toldRunSchema } from '../schemas.ts';

const runsRoute = defineRoute('read', {
  method: 'get',
  path: '/api/runs',
  summary: 'Runs of all scripts and handlers, the newest first',
  request: {
    query: z.strictObject({
      ...windowFields,
      ...pageFields(500, 50),
      script: textSchema.optional().openapi({ example: 'hourly/clean-tmp' }),
      tier: textSchema.optional(),
      outcome: wordsOf(outcomes).optional().openapi({ example: 'failed,timed-out' }),
    }),
  },
  responses: { 200: jsonResponse('Runs', pageOf(toldRunSchema)) },
});

const idParam = z.object({ id: idSchema });

const runRoute = defineRoute('read', {
  method: 'get',
  path: '/api/runs/{id}',
  summary: 'One run, and what has changed since its script last succeeded',
  request: { params: idParam, query: z.strictObject({}) },
  responses: {
    200: jsonResponse(
      'The run',
      z
        .object({
          ...toldRunSchema.shape,
          change: z
            .object({ changedAt: knownInstant, lastSuccessAt: knownInstant })
            .nullable()
            .openapi({ description: 'Of one that failed: since its script last succeeded its content is another one' }),
          changeText: knownText.openapi({ description: 'The same in a sentence' }),
          lastGood: z.int().nullable().openapi({ description: 'The last run before it that succeeded' }),
          previous: z.int().nullable().openapi({ description: 'The run of the same script before it' }),
          next: z.int().nullable().openapi({ description: 'The run of the same script after it' }),
          hasOutput: z.boolean().openapi({ description: 'Something of what it wrote is kept' }),
        })
        .openapi('OneRun'),
    ),
  },
});

export function addRunRoutes(api: Api): void {
  api.openapi(runsRoute, async (c) => {
    const { site } = c.var;
    const { limit, cursor, script: word, tier, outcome, ...window } = c.req.valid('query');
    const place = readCursor(cursor, 2);
    const after = place === null ? undefined : { startedAtMs: place[0] as number, id: place[1] as number };
    const known = await site.knownTiers();
    const page = await readLog(site, async ({ nowMs, view }) => {
      const script = word === undefined ? undefined : requireScript(word, await findNames(view, known));
      // One more than asked for tells whether there are more.
      const query = { ...readWindow(window, nowMs), script, tier, outcomes: outcome, after, limit: limit + 1 };
      const runs = await selectRunPage(view, query);
      const last = runs.length > limit ? runs[limit - 1] : undefined;
      const clock = createClock(nowMs);
      const items: Awaited<ReturnType<typeof tellRun>>[] = [];
      for (const run of runs.slice(0, limit)) items.push(await tellRun(view, run, clock));
      return { items, next: last === undefined ? null : writeCursor(last.startedAtMs, last.id) };
    });
    return answer(c, page);
  });
  api.openapi(runRoute, async (c) => {
    const { id } = c.req.valid('param');
    const found = await readLog(c.var.site, async ({ nowMs, view }) => {
      const run = await findRun(view, id);
      const before = { untilMs: run.startedAtMs, outcomes: ['succeeded'] as const };
      const clock = createClock(nowMs);
      return {
        ...(await tellRun(view, run, clock)),
        change: changeToJson(run.change),
        changeText: run.change && describeChange(run.change, clock),
        lastGood: (await selectNewestRun(view, run.script, before))?.id ?? null,
        ...(await selectNeighbours(view, run)),
        hasOutput: run.filesKey !== null || run.outputFile !== null || (run.output ?? '') !== '',
      };
    });
    return answer(c, found);
  });
}

/** A run, and what is said of it. */
async function tellRun(view: LogView, run: RunRecord, clock: Clock) {
  return {
    ...runToJson(run),
    summary: await readRunSummary(view, run),
    unusual: run.deviations.map((deviation) => describeDeviation(deviation, clock)),
  };
}

/** @throws {HTTPException} where there is none */
export async function findRun(view: LogView, id: number): Promise<RunWithOutput> {
  const run = await selectRun(view, id);
  if (run !== null) return run;
  const newest = await selectHighestRunId(view.db);
  const hint = newest === null ? 'nothing has run yet' : `the newest is ${newest}`;
  throw new HTTPException(404, { message: `There is no run ${id} in the log: ${hint}.` });
}
