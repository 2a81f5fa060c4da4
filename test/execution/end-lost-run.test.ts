import { spawn } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import type { RunEnd } from '../../src/execution/result/result.ts';
import { runFilesOf } from '../../src/execution/run-files.ts';
import { identifyProcess } from '../../src/system/process/identity.ts';
import { endLostRun, type LostRunRequest } from '../../src/worker/recovery/dead-workers.ts';
import { identifyDeadProcess } from '../support/dead-process.ts';
import { requestRun } from '../support/run-one.ts';
import { until } from '../support/until.ts';

const MB = 1024 * 1024;

async function requestLost(overrides: Partial<LostRunRequest> = {}): Promise<LostRunRequest> {
  const { root, state, masker } = await requestRun('lost.sh', 'true\n');
  writeFileSync(runFilesOf(state, '1.1').output, 'first\nlast\n');
  return {
    key: '1.1',
    root,
    state,
    masker,
    startedAt: 0,
    process: identifyDeadProcess(),
    runner: 'pid 4711 on web3',
    timeoutMs: 1000,
    graceMs: 1000,
    maxOutputBytes: MB,
    lastSeenRssBytes: null,
    now: 5000,
    ...overrides,
  };
}

test('a crash tells of the memory that its runner last wrote down', async () => {
  const end = await endLostRun(await requestLost({ lastSeenRssBytes: 312 * MB }));
  expect(end).toMatchObject({
    outcome: 'crashed',
    maxRssBytes: 312 * MB,
    measuredBy: 'sampled',
    reason: 'the runner (pid 4711 on web3) died while it ran; last seen with 312 MB; its last output line: last',
  });
});

test('without a word of it the memory stays unknown', async () => {
  const end = await endLostRun(await requestLost());
  expect(end).toMatchObject({ outcome: 'crashed', maxRssBytes: null, measuredBy: null });
  expect(end?.reason).not.toContain('last seen');
});

test('who ran into its time limit has it, too', async () => {
  const request = await requestLost({ lastSeenRssBytes: 7 * MB });
  const child = spawn('/bin/sleep', ['30'], { detached: true, stdio: 'ignore' });
  const process = identifyProcess(child.pid as number);
  let end: RunEnd | null = null;
  await until('it is old enough', async () => {
    end = await endLostRun({ ...request, process, timeoutMs: 0 });
    return end !== null;
  });
  expect(end).toMatchObject({ outcome: 'timed-out', maxRssBytes: 7 * MB, measuredBy: 'sampled' });
});
