import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { runWithFault } from '../../support/faults/faults.ts';
import { queryLog } from '../../support/log.ts';
import { makeTemporaryRoot } from '../../support/root.ts';

test('a run of a tier whose folder is gone, or only on other machines, is rescued by the passes of the others', async () => {
  const root = makeTemporaryRoot({ 'jobs/hourly/a.sh': 'true\n', 'jobs/daily/b.sh': 'true\n' });
  await runWithFault(root, ['hourly'], { at: 'after spawn#1' });
  rmSync(join(root, 'jobs/hourly'), { recursive: true });
  expect(await runWithFault(root, ['daily'])).toMatchObject({ status: 0 });
  const runs = queryLog(root, 'select script, outcome from runs order by id');
  expect(runs).toEqual([
    { script: 'hourly/a', outcome: 'crashed' },
    { script: 'daily/b', outcome: 'succeeded' },
  ]);
});
