import { expect } from 'vitest';
import { checksOf } from '../../../src/store/statements/monitor/checks.ts';
import { NOW } from '../../support/alerts.ts';
import { testOfSqlite } from '../../support/log.ts';
import { makeTemporaryRoot } from '../../support/root.ts';
import { explainQueries } from '../../support/store.ts';
import { writeLog } from '../../support/written-log.ts';

/** Indexes of the few rows that go on, wait or went wrong: reading all of one takes no time. */
const small = [
  ...[
    'runs_running',
    'jobs_of_scripts',
    'jobs_ready',
    'jobs_ready_by_name',
    'jobs_delayed',
    'jobs_blocked',
    'jobs_claimed',
  ],
  ...['workers_running', 'workers_crashed'],
];

// The plans are SQLite's.
testOfSqlite('the checks read no table whole, however many runs, jobs and workers there are', async () => {
  const root = makeTemporaryRoot();
  await (await writeLog(root)).addRun('hourly/clean', NOW);
  const plans = await explainQueries(root, async (store) => {
    const checks = checksOf(store.statements);
    await checks.present(NOW);
    await checks.scripts();
    await checks.running();
    await checks.due(NOW);
    await checks.ended('failed', NOW, 10);
    await checks.queueWorkers();
    await checks.isClaimedOutside();
    await checks.crashed(NOW);
  });
  expect(plans).toHaveLength(8);
  const scans = plans.flatMap((plan) => plan.split('; ')).filter((step) => /^SCAN (runs|jobs|workers)\b/.test(step));
  expect(scans.filter((step) => !small.some((index) => step.endsWith(` ${index}`)))).toEqual([]);
});
