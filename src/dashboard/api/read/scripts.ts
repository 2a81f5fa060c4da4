import type { Discovery, Script } from '../../../discovery/script.ts';
import type { Site } from '../../../discovery/site.ts';
import { findPause, WHOLE_QUEUE } from '../../../queue/pauses.ts';
import { chainRecord, readChain } from '../../../report/model/chain.ts';
import { incidentRecord, readOpenIncidents } from '../../../report/model/incidents.ts';
import { readOverview, readScriptOverview, scriptRecord } from '../../../report/model/overview.ts';
import { pauseRecord } from '../../../report/model/pauses.ts';
import { runningRecord, selectRunning, tierOf } from '../../../report/model/runs/run.ts';
import { readUsual, selectVersions, usualRecord, versionRecord } from '../../../report/model/runs/script.ts';
import { findScript } from '../../../report/names.ts';
import { createClock } from '../../../report/text/clock.ts';
import { whyRecord, whyWithChainRecord } from '../../../report/why/explain.ts';
import { readWhy, withChain } from '../../../report/why/why.ts';
import type { Pause } from '../../../store/statements/pauses.ts';
import { outcomes } from '../../../store/words.ts';
import { field, record, shown } from '../../../system/base/record.ts';
import {
  anyOf,
  flagField,
  pageOf,
  readClosedWindow,
  textSchema,
  wholeNumber,
  windowFields,
  zoneField,
} from '../fields.ts';
import { view } from '../view.ts';
import { WEEK_MS } from './overview.ts';
import { optionsField } from './settings.ts';

const scriptsView = view({
  operationId: 'listScripts',
  path: '/api/scripts',
  summary: 'Scripts and handlers with their figures for a range of time',
  permission: 'wall',
  query: {
    ...windowFields,
    tier: textSchema.optional(),
    outcome: anyOf(outcomes).optional().openapi({ description: 'Only those with a run of this outcome in that time' }),
    limit: wholeNumber(1, 10_000).optional(),
  },
  says: 'The scripts',
  answers: pageOf(scriptRecord),
  read: async (site, { tier, outcome: asked, limit, ...words }) => {
    const window = readClosedWindow(words, site.nowMs, WEEK_MS);
    return { items: (await readOverview(site, { ...window, tier, outcomes: asked, limit })).scripts, next: null };
  },
});

/** A script's file, as it is now. */
export const scriptFileRecord = record('ScriptFile', {
  script: shown.text.like('hourly/clean-tmp').from('name'),
  path: shown.text.like('jobs/hourly/clean-tmp.ts'),
  options: optionsField,
  refusals: shown.list(shown.text).about('Why it is refused'),
  warnings: shown.list(shown.text),
  pause: shown.one(pauseRecord).orNull,
});

const zone = zoneField('times within sentences');

const name = textSchema.openapi({ example: 'hourly/clean-tmp' });

const pageRecord = record('Script', {
  ...scriptRecord.fields,
  since: shown.instant,
  until: shown.instant,
  file: shown.one(scriptFileRecord).orNull.about('Null: it is not in jobs/'),
  running: shown.list(field.one(runningRecord)),
  usual: shown.one(usualRecord),
  versions: shown.list(field.one(versionRecord)),
  incidents: shown.list(field.one(incidentRecord)).about('Open incidents'),
  chain: shown.one(chainRecord).orNull.about('Null: it waits for no script, and none waits for it'),
  why: field.one(whyRecord).orNull.about('Why it did or did not run; null: it was not asked for, or is a handler'),
});

const MOST_VERSIONS = 100;

const scriptView = view({
  operationId: 'getScript',
  path: '/api/scripts/{name{.+}}',
  summary: 'One script or handler: its figures, its file, its usual values, and its versions',
  params: { name },
  query: { ...windowFields, why: flagField('Also explain why it did or did not run'), zone },
  says: 'The script',
  answers: pageRecord,
  read: async (site, { name: word, why, zone, ...words }) => {
    const { nowMs, store } = site;
    const { discovery } = await site.jobs();
    const script = await findScript(site, word);
    const window = readClosedWindow(words, nowMs, WEEK_MS);
    const log = await site.view();
    const file = scriptsOf(discovery).find((each) => each.name === script) ?? null;
    return {
      ...(await readScriptOverview(site, script, window)),
      ...window,
      file: file && withPause(file, await site.pauses()),
      running: (await selectRunning(log)).filter((run) => run.script === script),
      usual: await readUsual(store, script, nowMs),
      versions: await selectVersions(log, script, MOST_VERSIONS),
      incidents: await readOpenIncidents(site, script),
      chain: await readChain(site, script),
      why: why === undefined || tierOf(script) === WHOLE_QUEUE ? null : await explain(site, script, zone),
    };
  },
});

const whyView = view({
  operationId: 'explainScript',
  path: '/api/why/{name{.+}}',
  summary: 'Why a script did or did not run, and what to do about it, as `npx folder-runner why --json` prints it',
  params: { name },
  query: { zone },
  says: 'The findings',
  answers: whyWithChainRecord,
  isWithoutLog: true,
  read: async (site, { name: word, zone }) => await withChain(site, await explain(site, word, zone)),
});

export const scriptViews = [scriptsView, scriptView, whyView];

function explain(site: Site, word: string, zone: string | undefined) {
  return readWhy(site, { word, cwd: site.root, clock: createClock(site.nowMs, zone) });
}

function scriptsOf({ tiers, handlers }: Discovery): Script[] {
  return [...tiers.flatMap(({ scripts }) => scripts), ...handlers];
}

/** Not spread: that would hash the script's content. */
export function withPause({ name, path, options, refusals, warnings }: Script, pauses: readonly Pause[]) {
  return { name, path, options, refusals, warnings, pause: findPause(pauses, name) };
}
