import { existsSync, statSync } from 'node:fs';
import { beforeEach, describe, expect, test } from 'vitest';
import { runFilesOf } from '../../../src/execution/run-files.ts';
import type { RunRequest } from '../../../src/execution/start/process.ts';
import { listPids } from '../../../src/system/process/tree.ts';
import { giveTo, type Limited, runLimited } from '../../faults/run-limited.ts';
import { commandPath, cronPlace, startProcess } from '../../support/command.ts';
import { checkInvariants, shellScript } from '../../support/faults/invariants.ts';
import { queryLog } from '../../support/log.ts';
import { makeTemporaryRoot } from '../../support/root.ts';
import { until } from '../../support/until.ts';

/** Nobody else's: the kernel counts the processes and threads of a user, and root's are not bound. */
const uid = 61_742;
const passUid = uid + 1;
const fine = `console.log('fine');\n`;
const ROOM = 'limits.maxProcesses to wait';

/** How many threads the runner itself has when it starts a script. */
async function countThreads(): Promise<number> {
  const source = 'cat /proc/$PPID/status\n';
  const end = await runLimited('threads.sh', source, { limits: '--nproc=200', uid });
  return Number(/^Threads:\s+(\d+)$/m.exec(end.output.text)?.[1]);
}

let own = 0;
beforeEach(async () => {
  own = await countThreads();
});

/** With room for so many processes or threads more. */
function runWith(room: number, more: Partial<Limited> = {}) {
  const limits = `--nproc=${own + room}`;
  return runLimited('fine.mjs', fine, { limits, uid, request: { hangAfterMs: 1500 }, ...more });
}

describe('at the limit of processes', () => {
  test('with room enough all is well', async () => {
    expect(await runWith(12)).toMatchObject({ outcome: 'succeeded', output: { text: 'fine\n' } });
  });

  test('a spawn that finds no room is tried again for five seconds, then not started', async () => {
    const end = await runWith(0);
    expect(end).toMatchObject({ outcome: 'not-started', exitCode: null, output: { bytes: 0 } });
    expect(end.reason).toMatch(/^no process could be started for node: the host's limit of processes/);
    expect(end.reason).toContain(ROOM);
    expect(end.durationMs).toBeGreaterThan(4_900);
    expect(end.durationMs).toBeLessThan(30_000);
  });

  test('a spawn succeeds once there is room', async () => {
    const place = { cwd: '/', env: {}, uid, gid: uid };
    const others = [...Array(12)].map(() => startProcess('/bin/sleep', ['60'], place));
    let request: RunRequest | undefined;
    const ending = runWith(12, {
      onRequest: (full) => {
        request = full;
      },
    });
    await until('the runner is at it', () => hasOutputFile(request));
    for (const other of others) other.kill('SIGKILL');
    expect(await ending).toMatchObject({ outcome: 'succeeded', output: { text: 'fine\n' } });
  });

  test('a Node that gets no thread is not started', async () => {
    const end = await runWith(1);
    expect(end).toMatchObject({ outcome: 'not-started', warning: 'was started twice' });
    expect(end.reason).toMatch(/^Node could not start: it got no thread/);
    expect(end.reason).toContain(ROOM);
  });

  test.for([2, 3, 4])('a Node that gets %i of its processes hangs, and is ended', async (room) => {
    const end = await runWith(room);
    expect(end).toMatchObject({ outcome: 'not-started', signal: 'SIGKILL' });
    expect(end.reason).toMatch(/^hung before its first line: for 1.5s Node made no progress and did not end/);
    expect(end.reason).toContain(ROOM);
    await until('nothing of it is left', () => !listPids().some(isOfUser));
  });
});

function hasOutputFile(request: RunRequest | undefined): boolean {
  return request !== undefined && existsSync(runFilesOf(request.state, request.key).output);
}

function isOfUser(pid: number): boolean {
  return statSync(`/proc/${pid}`, { throwIfNoEntry: false })?.uid === uid;
}

test('a whole pass at the limit records what it could not start, and the next one starts it', async () => {
  const root = makeTemporaryRoot({
    'runner.config.json': '{ "concurrency": 2 }',
    'jobs/hourly/a.sh': shellScript(),
    'jobs/hourly/b.sh': shellScript(),
    'jobs/daily/threads.sh': 'cat /proc/$PPID/status\n',
  });
  giveTo(passUid, root);
  const place = { ...cronPlace(root), uid: passUid, gid: passUid };
  const call = [process.execPath, commandPath, '--root', root];
  const pass = (tier: string, processes: number) =>
    startProcess('prlimit', [`--nproc=${processes}`, ...call, tier], place).ended;
  expect(await pass('daily', 200)).toMatchObject({ status: 0, stderr: '' });
  const [run] = queryLog<{ output: string }>(root, 'select output from runs');
  const threads = Number(/^Threads:\s+(\d+)$/m.exec(run?.output ?? '')?.[1]);
  expect((await pass('hourly', threads)).status).toBe(1);
  const told = 'select outcome, reason from runs where script <> ? order by id';
  const notStarted = { outcome: 'not-started', reason: expect.stringContaining(ROOM) };
  expect(queryLog(root, told, 'daily/threads')).toEqual([notStarted, notStarted]);
  const over = expect.stringMatching(/hourly\/a succeeds again[\s\S]*hourly\/b succeeds again/);
  expect(await pass('hourly', 200)).toMatchObject({ status: 0, stderr: over });
  expect(queryLog(root, told, 'daily/threads').slice(2)).toEqual([
    { outcome: 'succeeded', reason: null },
    { outcome: 'succeeded', reason: null },
  ]);
  checkInvariants(root);
});
