import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { runScript } from '../../../src/execution/script/run-script.ts';
import { requestRun, runOne } from '../../support/run.ts';
import { until } from '../../support/until.ts';

test.for([
  ['sleep 30 &', /^left 1 process running: sleep \(pid \d+\); its further output is not kept$/],
  [
    'sleep 30 & sleep 30 &',
    /^left 2 processes running: sleep \(pid \d+\), sleep \(pid \d+\); their further output is not kept$/,
  ],
] as const)('what a script leaves running is noted: %s', async ([source, warning]) => {
  const request = await requestRun('leaves.sh', `echo $$ >"$RUNNER_ROOT/group"\n${source}\n`);
  const end = await runScript(request);
  // Still there: it is the script's own business.
  process.kill(-Number(readFileSync(join(request.root, 'group'), 'utf8')), 'SIGKILL');
  expect(end).toMatchObject({ outcome: 'succeeded', warning: expect.stringMatching(warning) });
});

const NODE = `import { spawn } from 'node:child_process';
spawn('sleep', ['30'], { detached: true, stdio: 'ignore' }).unref();\n`;

test.for<[string, string, string, string]>([
  ['a Node script starts', 'a.mjs', NODE, 'succeeded'],
  [
    'a shell starts',
    'a.sh',
    'setsid sleep 30 &\nuntil grep -qs sleep /proc/$!/comm; do sleep 0.01; done\n',
    'succeeded',
  ],
  ['a program starts that has ended', 'a.sh', `sh -c 'setsid sleep 30 & sleep 0.1'\n`, 'succeeded'],
  ['is there at the time limit', 'a.mjs', `${NODE}setInterval(() => {}, 1000);\n`, 'timed-out'],
])('a process in a session of its own that %s is named', async ([, name, source, outcome]) => {
  const end = await runOne(name, source, { timeoutMs: 3_000 });
  const [, pid] =
    /^left 1 process running: sleep \(pid (\d+)\); its further output is not kept$/.exec(end.warning ?? '') ?? [];
  expect(pid, end.warning ?? 'no warning').toBeDefined();
  // It goes on: it may be a daemon.
  process.kill(Number(pid), 'SIGKILL');
  expect(end.outcome).toBe(outcome);
});

test('a process of another run is none of this one', async () => {
  const [one, other] = await Promise.all([
    runOne('a.sh', 'setsid sleep 30 &\necho $! >"$RUNNER_ROOT/pid"; sleep 0.3\n', { key: '1.1' }),
    runOne('b.sh', 'sleep 0.2\n', { key: '1.2' }),
  ]);
  process.kill(Number(/pid (\d+)/.exec(one.warning ?? '')?.[1]), 'SIGKILL');
  expect(other.warning).toBe(null);
});

test.for([
  ['that is about to end', 'sleep 0.02 &'],
  ['that the script has waited for', 'sleep 0.01 & wait'],
] as const)('a process %s is not', async ([, source]) => {
  // A busy machine may end it late.
  const isTidy = async () => (await runOne('tidy.sh', `${source}\n`)).warning === null;
  await until('nothing is said to be left', isTidy);
});
