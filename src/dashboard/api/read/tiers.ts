import type { Discovery } from '../../../discovery/script.ts';
import type { Site } from '../../../discovery/site.ts';
import { listWaiters } from '../../../queue/claim/waiters.ts';
import { waiterRecord } from '../../../report/model/status.ts';
import { readTierStates, type TierState, tierStateRecord } from '../../../report/model/tier.ts';
import {
  countWorkers,
  selectAtWork,
  selectWorkers,
  workerAtWorkRecord,
  workerRecord,
} from '../../../report/model/workers.ts';
import { noSuchTier } from '../../../report/names.ts';
import { field, quoting, record, shown } from '../../../system/base/record.ts';
import { oneOf, pagedOf, pageFields, pageOf, readPage, readTotal, textSchema } from '../fields.ts';
import { view } from '../view.ts';
import { scriptFileRecord, withPause } from './scripts.ts';

const tierRecord = record('Tier', { ...tierStateRecord.fields, scripts: shown.list(shown.one(scriptFileRecord)) });

const tiersRecord = record(null, {
  ...pageOf(tierRecord).fields,
  handlers: shown.list(shown.one(scriptFileRecord)),
  unread: shown.list(shown.one(record(null, { tier: shown.text.like('hourly'), reason: quoting }))),
  ignored: field.list(
    field.one(
      record(null, { path: field.text.like('jobs/hourly/clean-tmp.ts'), reason: field.text.like('exit code 3') }),
    ),
  ),
  warnings: shown.list(shown.text),
  settingsProblem: shown.text
    .like('runner.config.json:2: concurrency must be a whole number from 1 to 64, found 0')
    .orNull.about('Why nothing is started until the settings are fixed'),
});

const tiersView = view({
  operationId: 'listTiers',
  path: '/api/tiers',
  summary: 'The tiers of jobs/ with their scripts, and the ignored files with their reasons',
  permission: 'wall',
  says: 'The tiers',
  answers: tiersRecord,
  read: async (site) => {
    const { discovery, settingsProblem } = await site.jobs();
    const { tiers, handlers, unread, ignored, warnings } = discovery;
    const pauses = await site.pauses();
    return {
      items: await readTiers(site, tiers),
      next: null,
      handlers: handlers.map((script) => withPause(script, pauses)),
      ...{ unread, ignored, warnings, settingsProblem },
    };
  },
});

const tierView = view({
  operationId: 'getTier',
  path: '/api/tiers/{tier}',
  summary: 'One tier with its scripts',
  permission: 'wall',
  params: { tier: textSchema.openapi({ example: 'hourly' }) },
  says: 'The tier',
  answers: tierRecord,
  read: async (site, { tier: name }) => {
    const { tiers } = (await site.jobs()).discovery;
    const [tier] = await readTiers(
      site,
      tiers.filter((each) => each.name === name),
    );
    if (tier !== undefined) return tier;
    throw noSuchTier(
      name,
      tiers.map((each) => each.name),
    );
  },
});

/** As many as a page shows. */
const MOST_AT_WORK = 500;

const workersView = view({
  operationId: 'listWorkers',
  path: '/api/workers',
  summary: 'Passes and workers of the queue, the newest first, and other programs that wait for jobs',
  permission: 'wall',
  query: {
    ...pageFields(1),
    kind: oneOf(['tier', 'script', 'backlog', 'queue']).optional(),
    tier: textSchema.optional(),
    state: oneOf(['running', 'finished', 'skipped', 'crashed']).optional(),
  },
  says: 'Workers',
  answers: record(null, {
    ...pagedOf(workerRecord).fields,
    atWork: shown.list(shown.one(workerAtWorkRecord)).about('All that run now, whatever was asked for'),
    waiting: shown.list(shown.one(waiterRecord)),
  }),
  read: async ({ view, states, nowMs }, { limit, cursor, count, ...filter }) => {
    const log = await view();
    const { db } = log;
    const [beforeId] = cursor ?? [];
    const select = (most: number) => selectWorkers(db, { ...filter, beforeId, limit: most });
    const page = await readPage(limit, select, ({ id }) => [id]);
    const total = await readTotal(count, () => countWorkers(db, filter));
    const atWork = await selectAtWork(log, MOST_AT_WORK);
    return { ...page, total, atWork, waiting: states().flatMap((state) => listWaiters(state, nowMs)) };
  },
});

export const tierViews = [tiersView, tierView, workersView];

async function readTiers(site: Site, tiers: Discovery['tiers']) {
  const names = tiers.map(({ name }) => name);
  const { states } = await readTierStates(site, names);
  const pauses = await site.pauses();
  return tiers.map(({ scripts }, index) => ({
    ...(states[index] as TierState),
    scripts: scripts.map((script) => withPause(script, pauses)),
  }));
}
