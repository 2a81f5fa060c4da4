import { z } from '@hono/zod-openapi';
import type { Discovery, Script } from '../../../discovery/script.ts';
import { findPause } from '../../../queue/pauses.ts';
import { whyToJson } from '../../../report/json.ts';
import { incidentRecord } from '../../../report/model/incidents.ts';
import { readOverview, readScriptOverview, scriptRecord } from '../../../report/model/overview.ts';
import { pauseRecord } from '../../../report/model/pauses.ts';
import { runningRecord, selectRunning } from '../../../report/model/runs/run.ts';
import { readUsual, selectVersions, usualRecord, versionRecord } from '../../../report/model/runs/script.ts';
import { findScript } from '../../../report/names.ts';
import { createClock } from '../../../report/text/clock.ts';
import { readWhy } from '../../../report/why/why.ts';
import { incidentsOf } from '../../../store/statements/monitor/incidents.ts';
import type { Pause } from '../../../store/statements/pauses.ts';
import { outcomes } from '../../../store/words.ts';
import { field, record, shown } from '../../../system/base/record.ts';
import type { LiveSite } from '../../site.ts';
import {
  answer,
  pageOf,
  readClosedWindow,
  readLog,
  textSchema,
  type WindowWords,
  wholeNumber,
  windowFields,
  wordsOf,
  zoneField,
} from '../fields.ts';
import { type Api, defineRoute, jsonResponse } from '../route.ts';
import { schemaOf } from '../schema-of.ts';
import { WEEK_MS } from './overview.ts';
import { optionsField } from './settings.ts';

const scriptsRoute = defineRoute('read', {
  method: 'get',
  path: '/api/scripts',
  summary: 'Scripts and handlers with their figures for a range of time',
  request: {
    query: z.strictObject({
      ...windowFields,
      tier: textSchema.optional(),
      outcome: wordsOf(outcomes)
        .optional()
        .openapi({ description: 'Only those with a run of this outcome in that time' }),
      limit: wholeNumber(1, 10_000).optional(),
    }),
  },
  responses: { 200: jsonResponse('The scripts', schemaOf(pageOf(scriptRecord))) },
});

/** A script's file, as it is now. */
export const scriptFileRecord = record('ScriptFile', {
  script: shown.text.from('name'),
  path: shown.text,
  options: optionsField,
  refusals: shown.list(shown.text).about('Why it is refused'),
  warnings: shown.list(shown.text),
  pause: shown.one(pauseRecord).orNull,
});

const nameParam = z.object({ name: textSchema.openapi({ example: 'hourly/clean-tmp' }) });

const pageRecord = record('Script', {
  ...scriptRecord.fields,
  since: shown.instant,
  until: shown.instant,
  file: shown.one(scriptFileRecord).orNull.about('Null: it is not in jobs/'),
  running: shown.list(field.one(runningRecord)),
  usual: shown.one(usualRecord),
  versions: shown.list(field.one(versionRecord)),
  incidents: shown.list(field.one(incidentRecord)).about('Open incidents'),
});

const scriptRoute = defineRoute('read', {
  method: 'get',
  path: '/api/scripts/{name{.+}}',
  summary: 'One script or handler: its figures, its file, its usual values, and its versions',
  request: { params: nameParam, query: z.strictObject(windowFields) },
  responses: { 200: jsonResponse('The script', schemaOf(pageRecord)) },
});

const whyRecord = record('Why', {
  script: field.text.orNull,
  findings: field.list(
    field.one(
      record(null, {
        topic: field.text,
        verdict: field.words(['fine', 'notable', 'wrong']),
        text: field.text,
        cure: field.text.orNull,
      }),
    ),
  ),
  conclusion: field.text,
});

const whyRoute = defineRoute('read', {
  method: 'get',
  path: '/api/why/{name{.+}}',
  summary: 'Why a script did or did not run, and what to do about it, as `npx folder-runner why --json` prints it',
  request: { params: nameParam, query: z.strictObject({ zone: zoneField('times within sentences') }) },
  responses: { 200: jsonResponse('The findings', schemaOf(whyRecord)) },
});

export function addScriptRoutes(api: Api): void {
  api.openapi(scriptsRoute, async (c) => {
    const { site } = c.var;
    const { tier, outcome, limit, ...window } = c.req.valid('query');
    const { scripts } = await readLog(site, (found) =>
      readOverview(found, { ...readClosedWindow(window, found.nowMs, WEEK_MS), tier, outcomes: outcome, limit }),
    );
    return answer(c, { items: scripts.map(scriptRecord.toJson), next: null });
  });
  api.openapi(scriptRoute, async (c) => {
    const { name: word } = c.req.valid('param');
    const window = c.req.valid('query');
    return answer(c, await readScript(c.var.site, word, window));
  });
  addWhyRoute(api);
}

const MOST_VERSIONS = 100;

async function readScript(site: LiveSite, word: string, words: WindowWords) {
  return await readLog(site, async (found, view) => {
    const { nowMs, store } = found;
    const { discovery } = await found.jobs();
    const script = await findScript(found, word);
    const window = readClosedWindow(words, nowMs, WEEK_MS);
    const overview = await readScriptOverview(found, script, window);
    const file = scriptsOf(discovery).find(({ name }) => name === script) ?? null;
    const running = (await selectRunning(view)).filter((run) => run.script === script);
    const versions = await selectVersions(view, script, MOST_VERSIONS);
    const usual = await readUsual(store, script, nowMs);
    const incidents = store === null ? [] : await incidentsOf(store.statements).current([script]);
    const page = { ...overview, ...window, running, usual, versions, incidents };
    return pageRecord.toJson({ ...page, file: file && withPause(file, await found.pauses()) });
  });
}

function scriptsOf({ tiers, handlers }: Discovery): Script[] {
  return [...tiers.flatMap(({ scripts }) => scripts), ...handlers];
}

export function withPause(script: Script, pauses: readonly Pause[]) {
  return { ...script, pause: findPause(pauses, script.name) };
}

function addWhyRoute(api: Api): void {
  api.openapi(whyRoute, async (c) => {
    const { name: word } = c.req.valid('param');
    const { zone } = c.req.valid('query');
    const why = await c.var.site.read((site) =>
      readWhy(site, { word, cwd: site.root, clock: createClock(site.nowMs, zone) }),
    );
    return answer(c, whyToJson(why));
  });
}
