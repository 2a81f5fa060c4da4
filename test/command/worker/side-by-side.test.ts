import { expect, test } from 'vitest';
import { cronPlace, startCommand } from '../../support/command.ts';
import { queryLog } from '../../support/log.ts';
import { executable, makeTemporaryRoot } from '../../support/root.ts';

const TIERS = ['15min', 'hourly', 'daily'];
const SCRIPTS = 4;

test('three tiers and reports at the same moment, on a new log, lose no row', async () => {
  const root = makeTemporaryRoot(
    Object.fromEntries(
      TIERS.flatMap((tier) =>
        Array.from({ length: SCRIPTS }, (_, index) => [
          `jobs/${tier}/${index}.sh`,
          executable(`#!/bin/sh\necho ${tier} ${index}\n`),
        ]),
      ),
    ),
  );
  const place = cronPlace(root);
  const report = ['report', '--json', '--root', root];
  for (let round = 1; round <= 2; round += 1) {
    const passes = TIERS.map((tier) => startCommand([tier, '--root', root], place));
    const reports = [startCommand(report, place), startCommand(report, place)];
    for (const { ended } of passes) {
      expect(await ended).toEqual({ status: 0, stdout: '', stderr: '' });
    }
    for (const { ended } of reports) {
      const { status, stdout, stderr } = await ended;
      expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
      expect(JSON.parse(stdout)).toHaveProperty('scripts');
    }
  }
  const outputs = `select script, output, count(*) as runs from runs
    where outcome = 'succeeded' group by script, output order by script`;
  expect(queryLog(root, outputs)).toEqual(
    TIERS.toSorted().flatMap((tier) =>
      Array.from({ length: SCRIPTS }, (_, index) => ({
        script: `${tier}/${index}`,
        output: `${tier} ${index}\n`,
        runs: 2,
      })),
    ),
  );
  const events = 'select event, count(*) as count from activity group by event order by event';
  const jobs = 2 * TIERS.length * SCRIPTS;
  expect(queryLog(root, events)).toEqual([
    { event: 'job-finished', count: jobs },
    { event: 'run-started', count: jobs },
    { event: 'worker-finished', count: 2 * TIERS.length },
    { event: 'worker-started', count: 2 * TIERS.length },
  ]);
});
