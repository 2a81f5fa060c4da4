import { spawn } from 'node:child_process';
import { closeSync, openSync, writeFileSync } from 'node:fs';
import { describe, expect, onTestFinished, test } from 'vitest';
import type { RunEnd } from '../../../src/execution/result/result.ts';
import { runFilesOf } from '../../../src/execution/run-files.ts';
import { checkLiveness, identifyProcess, type ProcessIdentity } from '../../../src/system/process/identity.ts';
import { endLostRun, type LostRunRequest } from '../../../src/worker/recovery/dead-workers.ts';
import { identifyDeadProcess } from '../../support/faults/faults.ts';
import { requestRun } from '../../support/run.ts';
import { until } from '../../support/until.ts';

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
  const child = spawn('/bin/sleep', ['30'], {
    ...{ detached: true, stdio: 'ignore' },
    env: { RUNNER_ROOT: request.root, RUNNER_RUN: request.key },
  });
  const process = identifyProcess(child.pid as number);
  let end: RunEnd | null = null;
  await until('it is old enough', async () => {
    end = await endLostRun({ ...request, process, timeoutMs: 0 });
    return end !== null;
  });
  expect(end).toMatchObject({ outcome: 'timed-out', maxRssBytes: 7 * MB, measuredBy: 'sampled' });
});

describe('a process that only the log calls the run’s is not ended', () => {
  test.each<[string, (pid: number) => Partial<ProcessIdentity>]>([
    ['by its number', (pid) => ({ pid })],
    ['by its number, without its start', (pid) => ({ pid, startTicks: null, bootId: null })],
    ['by the number of all processes', () => ({ pid: 1, startTicks: null, bootId: null })],
    ['by the number of this process group', () => ({ pid: 0, startTicks: null, bootId: null })],
    ['by a number that is none', () => ({ pid: -1, startTicks: null, bootId: null })],
  ])('%s', async (_, lie) => {
    const request = await requestLost();
    const child = spawn('/bin/sleep', ['30'], { detached: true, stdio: 'ignore' });
    onTestFinished(() => void child.kill('SIGKILL'));
    const own = identifyProcess(child.pid as number);
    const process = { ...own, ...lie(own.pid) };
    let end: RunEnd | null = null;
    await until('it is old enough', async () => {
      end = await endLostRun({ ...request, process, timeoutMs: 0, now: Date.now() });
      return end !== null;
    });
    expect(end).toMatchObject({ outcome: 'crashed' });
    expect(checkLiveness(own)).toBe('alive');
  });
});

test('a process that was started without variables is the run’s by the file that it writes to', async () => {
  const request = await requestLost();
  const output = openSync(runFilesOf(request.state, request.key).output, 'a');
  const child = spawn('/bin/sleep', ['30'], { detached: true, stdio: ['ignore', output, output], env: {} });
  closeSync(output);
  const process = identifyProcess(child.pid as number);
  let end: RunEnd | null = null;
  await until('it is old enough', async () => {
    end = await endLostRun({ ...request, process, timeoutMs: 0 });
    return end !== null;
  });
  expect(end).toMatchObject({ outcome: 'timed-out' });
});
