import { z } from '@hono/zod-openapi';
import { readListedJob } from '../../../queue/read/jobs.ts';
import { verbsFor } from '../../../queue/settle/verbs.ts';
import { incidentRecord, readOpenIncidents } from '../../../report/model/incidents.ts';
import { readScriptVerbs, scriptVerbsField } from '../../../report/model/overview.ts';
import { readRun, runDetailsRecord } from '../../../report/model/runs/details.ts';
import { readRunOutput } from '../../../report/model/runs/output.ts';
import { readOutputFrom } from '../../../report/model/runs/output-part.ts';
import type { RunRecord } from '../../../report/model/runs/run.ts';
import { countMatchingRuns, selectRunPage, tellRun, toldRunRecord } from '../../../report/model/runs/run-pages.ts';
import { findRun, findScripts } from '../../../report/names.ts';
import { createClock } from '../../../report/text/clock.ts';
import { outcomes } from '../../../store/words.ts';
import { field, record, shown } from '../../../system/base/record.ts';
import {
  anyOf,
  idSchema,
  pagedOf,
  pageFields,
  readLog,
  readPage,
  readTotal,
  readWindow,
  searchSchema,
  textSchema,
  wholeNumber,
  windowFields,
  zoneField,
} from '../fields.ts';
import { type Api, defineRoute } from '../route.ts';
import { view } from '../view.ts';
import { jobVerbsField } from './jobs.ts';

const zone = zoneField('times within sentences');

const runsView = view({
  operationId: 'listRuns',
  path: '/api/runs',
  summary: 'Runs of all scripts and handlers, the newest first',
  query: {
    ...windowFields,
    ...pageFields(2),
    script: textSchema.optional().openapi({ example: 'hourly/*', description: 'A name, or a pattern' }),
    search: searchSchema.openapi({
      description: 'Text in the name of the script or in the error, A to Z in either case; or the number of a run',
    }),
    tier: textSchema.optional(),
    job: idSchema.optional().openapi({ description: 'The number of a job of the queue: its tries alone' }),
    outcome: anyOf(outcomes).optional().openapi({ example: 'failed,timed-out' }),
    zone,
  },
  says: 'Runs',
  answers: pagedOf(toldRunRecord),
  read: async (site, { limit, cursor, script: word, tier, job, outcome: asked, search, count, zone, ...window }) => {
    const { nowMs } = site;
    const log = await site.view();
    const after = cursor && { startedAtMs: cursor[0] as number, id: cursor[1] as number };
    const scripts = word === undefined ? undefined : await findScripts(site, word);
    const filter = { ...readWindow(window, nowMs), scripts, tier, job, outcomes: asked, search };
    const query = { ...filter, after };
    const placeOf = ({ startedAtMs, id }: RunRecord) => [startedAtMs, id];
    const { items, next } = await readPage(limit, (most) => selectRunPage(log, { ...query, limit: most }), placeOf);
    const clock = createClock(nowMs, zone);
    const total = await readTotal(count, () => countMatchingRuns(log, filter));
    return { items: await Array.fromAsync(items, (run) => tellRun(log, run, clock)), next, total };
  },
});

const runPageRecord = record('RunDetails', {
  ...runDetailsRecord.fields,
  scriptVerbs: scriptVerbsField.about('What can be done to its script now'),
  queueJob: shown
    .one(record(null, { id: shown.integer, name: shown.text.like('mail/welcome'), verbs: jobVerbsField }))
    .orNull.about('Its job; null: it is a run of a script, or the job was removed'),
  incidents: shown.list(field.one(incidentRecord)).about('Open incidents of its script'),
});

const runView = view({
  operationId: 'getRun',
  path: '/api/runs/{id}',
  summary: 'One run, with its tries, the usual figures of its script, and the changes since that last succeeded',
  params: { id: idSchema },
  query: {
    with: idSchema.optional().openapi({ description: 'Compares it with this run, of whatever script', example: 3 }),
    zone,
  },
  says: 'The run',
  answers: runPageRecord,
  read: async (site, { id, with: other, zone }) => {
    const { store, nowMs } = site;
    const run = await readRun(site, id, createClock(nowMs, zone), other);
    const job = store === null || run.jobId === null ? null : await readListedJob(store, run.jobId);
    return {
      ...run,
      scriptVerbs: await readScriptVerbs(site, run.script),
      queueJob: job && { ...job, verbs: verbsFor(job, nowMs) },
      incidents: await readOpenIncidents(site, run.script),
    };
  },
});

export const runViews = [runsView, runView];

const flag = z.enum(['true', 'false']);

const outputRoute = defineRoute('read', {
  operationId: 'getRunOutput',
  method: 'get',
  path: '/api/runs/{id}/output',
  summary: 'The output of a run, also while it runs',
  description:
    'The text that is kept, as it was written: secrets are masked, terminal sequences are included. With `from`, the ' +
    'text from that byte on, at most 512 KB: to follow a run, ask again from `X-Next` until it is over.',
  request: {
    params: z.object({ id: idSchema }),
    query: z.strictObject({ from: wholeNumber(0, Number.MAX_SAFE_INTEGER).optional() }),
  },
  responses: {
    200: {
      description: 'The text',
      headers: z.object({
        'X-Next': z.string().optional().openapi({ description: 'The byte from which to ask next time' }),
        'X-Anew': flag.optional().openapi({ description: 'The text replaces everything that came before it' }),
        'X-Over': flag.optional().openapi({ description: 'No output will follow' }),
      }),
      content: { 'text/plain': { schema: z.string().openapi({ example: 'reading orders.csv\n' }) } },
    },
  },
});

export function addOutputRoute(api: Api): void {
  api.openapi(outputRoute, async (c) => {
    const { id } = c.req.valid('param');
    const { from } = c.req.valid('query');
    const { site } = c.var;
    if (from === undefined) {
      const run = await readLog(site, async (found) => findRun(await found.view(), id));
      const text = ReadableStream.from(readRunOutput(site.state, run, true)).pipeThrough(new TextEncoderStream());
      // Piece by piece, which the type of a text knows nothing of.
      return c.body(text as ReadableStream, 200, { 'content-type': 'text/plain; charset=UTF-8' }) as never;
    }
    const part = await readLog(site, async (found) => {
      const log = await found.view();
      return await readOutputFrom(log, await findRun(log, id), from);
    });
    const { text, next, isAnew, isOver } = part;
    return c.text(text, 200, { 'X-Next': String(next), 'X-Anew': String(isAnew), 'X-Over': String(isOver) });
  });
}
