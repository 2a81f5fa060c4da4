import { overviewRecord, readOverview } from '../../../report/model/overview.ts';
import { failureRecord, readFailures } from '../../../report/model/runs/failures.ts';
import { findAnything, foundRecord } from '../../../report/model/search.ts';
import { readStatus, statusRecord, withFigures } from '../../../report/model/status.ts';
import { createClock } from '../../../report/text/clock.ts';
import { lateAfter } from '../../../system/base/clock.ts';
import { record, shown } from '../../../system/base/record.ts';
import { withoutPlaces } from '../../site.ts';
import { pageOf, readClosedWindow, textSchema, wholeNumber, windowFields, zoneField } from '../fields.ts';
import { view } from '../view.ts';

export const WEEK_MS = 7 * 86_400_000;

const overviewView = view({
  operationId: 'getOverview',
  path: '/api/overview',
  summary: 'All scripts with their figures for a range of time, as `npx folder-runner report --json` prints them',
  permission: 'wall',
  query: { ...windowFields, tier: textSchema.optional() },
  says: 'The overview',
  answers: overviewRecord,
  isWithoutLog: true,
  read: (site, { tier, ...words }) => readOverview(site, { ...readClosedWindow(words, site.nowMs, WEEK_MS), tier }),
});

const { spooledRuns, quarantinedLogs, differences, ...now } = statusRecord.fields;

const problemRecord = record('Status', {
  ...now,
  logProblem: shown.text
    .like('The activity log is not a database.')
    .orNull.about('Why the log cannot be read; null: it can be read, or there is none'),
  ...{ spooledRuns, quarantinedLogs, differences },
});

const statusView = view({
  operationId: 'getStatus',
  path: '/api/status',
  summary: 'Incidents, running and waiting jobs, and pauses, as `npx folder-runner status --json` prints them',
  permission: 'wall',
  says: 'The status',
  answers: problemRecord,
  isWithoutLog: true,
  read: async (site, _, live) => {
    const logProblem = site.problem === null ? null : withoutPlaces(site.problem, live);
    return { ...withFigures(await readStatus(site)), logProblem };
  },
});

const zone = zoneField('times within sentences');

const failuresView = view({
  operationId: 'listFailures',
  path: '/api/failures',
  summary: 'Failed runs by script and cause, the newest first',
  query: { ...windowFields, limit: wholeNumber(1, 100).default(10), zone },
  says: 'The newest run of each cause, and how many there are',
  answers: record(null, {
    ...pageOf(failureRecord).fields,
    isCut: shown.flag.about('Further failures were not compared: `times` counts the newest ones alone'),
  }),
  read: async (site, { limit, zone, ...words }) => {
    const window = readClosedWindow(words, site.nowMs, WEEK_MS);
    const found = await readFailures(await site.view(), { ...window, limit }, createClock(site.nowMs, zone));
    return { ...found, next: null };
  },
});

/** It is asked while somebody types. */
const LONGEST_FIND_MS = 150;

const searchView = view({
  operationId: 'searchSite',
  path: '/api/search',
  summary: 'Scripts, runs and jobs that a text names, a few of each',
  query: {
    q: textSchema.max(200, 'must be at most 200 characters').openapi({
      example: '4711',
      description: 'A name or a pattern, a number, or text in an error or in the data of a job',
    }),
    limit: wholeNumber(1, 20).default(5),
  },
  says: 'What was found',
  answers: foundRecord,
  read: (site, { q, limit }) => findAnything(site, q, limit, lateAfter(LONGEST_FIND_MS)),
});

export const overviewViews = [overviewView, statusView, failuresView, searchView];
