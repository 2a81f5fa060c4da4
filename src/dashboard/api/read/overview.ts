import { overviewRecord, readOverview } from '../../../report/model/overview.ts';
import { readStatus, statusRecord, withFigures } from '../../../report/model/status.ts';
import { record, shown } from '../../../system/base/record.ts';
import { readClosedWindow, textSchema, windowFields } from '../fields.ts';
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
  logProblem: shown.text.orNull.about('Why the log cannot be read; null: it can be read, or there is none'),
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
  read: async (site) => ({ ...withFigures(await readStatus(site)), logProblem: site.problem }),
});

export const overviewViews = [overviewView, statusView];
