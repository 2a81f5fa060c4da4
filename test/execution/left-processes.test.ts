import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { runScript } from '../../src/execution/script/run-script.ts';
import { requestRun, runOne } from '../support/run-one.ts';
import { until } from '../support/until.ts';

test.for([
  ['sleep 30 &', '1 process'],
  ['sleep 30 & sleep 30 &', '2 processes'],
] as const)('what a script leaves running is noted: %s', async ([source, count]) => {
  const request = await requestRun('leaves.sh', `echo $$ >"$RUNNER_ROOT/group"\n${source}\n`);
  const end = await runScript(request);
  // Still there: it is the script's own business.
  process.kill(-Number(readFileSync(join(request.root, 'group'), 'utf8')), 'SIGKILL');
  expect(end).toMatchObject({
    outcome: 'succeeded',
    warning: `left ${count} running, and their further output is not kept`,
  });
});

test.for([
  ['that is about to end', 'sleep 0.02 &'],
  ['that the script has waited for', 'sleep 0.01 & wait'],
] as const)('a process %s is not', async ([, source]) => {
  // A busy machine may end it late.
  const isTidy = async () => (await runOne('tidy.sh', `${source}\n`)).warning === null;
  await until('nothing is said to be left', isTidy);
});
