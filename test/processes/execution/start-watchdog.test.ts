import { existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { runScript } from '../../../src/execution/script/run-script.ts';
import { requestRun } from '../../support/run.ts';

const HUNG =
  "hung before its first line: for 600ms Node made no progress and did not end; probably the host's limit of processes is nearly reached; run fewer scripts at the same time, or set limits.maxProcesses to wait";

/** What Node loads before the probe: it stands where a Node that hangs does. */
async function requestWithStart(start: string, script: string) {
  const request = await requestRun('late.mjs', script, { hangAfterMs: 600 });
  const path = join(request.root, 'start.cjs');
  const probe = `require(${JSON.stringify(request.probePath)});\n`;
  writeFileSync(path, `${start}\n${probe}`);
  return { ...request, probePath: path };
}

const wait = 'Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0';
const fine = `console.log('fine');\n`;

describe('a Node that hangs before its first line', () => {
  test('is ended and started a second time', async () => {
    const once = `const fs = require('fs'); const flag = process.env.RUNNER_ROOT + '/flag';
if (!fs.existsSync(flag)) { fs.writeFileSync(flag, ''); console.log('lost'); ${wait}); }`;
    const request = await requestWithStart(once, fine);
    const pids: number[] = [];
    const end = await runScript({ ...request, onStarted: (pid) => pids.push(pid) });
    expect(end).toMatchObject({ outcome: 'succeeded', reason: null, output: { text: 'fine\n' } });
    expect(end.warning).toBe(`was started a second time; the first time: ${HUNG}`);
    expect(new Set(pids).size).toBe(2);
    expect(end.durationMs).toBeGreaterThan(600);
  });

  test('and does so again is not started', async () => {
    const end = await runScript(await requestWithStart(`${wait});`, fine));
    expect(end).toMatchObject({
      outcome: 'not-started',
      reason: HUNG,
      warning: 'was started twice',
      output: { text: '' },
    });
    expect(end.durationMs).toBeGreaterThan(1200);
  });

  test('is noticed where a signal stopped it, too', async () => {
    // By itself: a signal from here might come when it has begun.
    const request = await requestWithStart(`process.kill(process.pid, 'SIGSTOP');`, fine);
    const pids: number[] = [];
    const end = await runScript({ ...request, onStarted: (pid) => pids.push(pid) });
    expect(end).toMatchObject({ outcome: 'not-started', signal: 'SIGKILL' });
    expect(pids.map((pid) => existsSync(`/proc/${pid}`))).toEqual([false, false]);
  });

  test('is not started again once the runner is told to stop', async () => {
    const stop = new AbortController();
    const request = await requestWithStart(`${wait});`, fine);
    let starts = 0;
    const end = await runScript({
      ...request,
      stop: stop.signal,
      onStarted: () => {
        starts += 1;
        stop.abort();
      },
    });
    expect(end).toMatchObject({
      outcome: 'failed',
      reason: 'stopped because the runner was stopped (Ctrl-C or kill), ended with SIGTERM',
    });
    expect(starts).toBe(1);
  });
});

describe('no hang is', () => {
  test('a start that gets on, however slowly', async () => {
    const slowly = `for (let step = 0; step < 12; step += 1) ${wait}, 150);`;
    const end = await runScript(await requestWithStart(slowly, fine));
    expect(end).toMatchObject({ outcome: 'succeeded', warning: null });
    expect(end.durationMs).toBeGreaterThan(1800);
  });

  test('a start that has nothing but the processor taken away', async () => {
    const busy = `const end = process.cpuUsage().user + 400_000; while (process.cpuUsage().user < end);`;
    const end = await runScript({ ...(await requestWithStart(busy, fine)), hangAfterMs: 300 });
    expect(end).toMatchObject({ outcome: 'succeeded', warning: null });
  });

  test('a script that waits, even with its output open on the number of the sign', async () => {
    const script = `import { openSync } from 'node:fs';
console.log(openSync('/dev/stdout', 'w'));
setTimeout(() => console.log('waited'), 2_000);\n`;
    const end = await runScript(await requestWithStart('', script));
    expect(end).toMatchObject({ outcome: 'succeeded', warning: null });
    expect(end.output.text).toContain('waited\n');
  });

  test('a shell script, which gives no sign', async () => {
    const request = await requestRun('sleepy.sh', 'sleep 1\n', { hangAfterMs: 200 });
    expect(await runScript(request)).toMatchObject({ outcome: 'succeeded', warning: null });
  });
});

test('a script finds no descriptor of the runner’s open', async () => {
  const script = `import { fstatSync } from 'node:fs';
const isFile = (fd) => { try { return fstatSync(fd).isFile(); } catch { return false; } };
console.log([...Array(40).keys()].filter(isFile).join());\n`;
  const end = await runScript(await requestRun('descriptors.mjs', script));
  expect(end.output.text).toBe('1,2\n');
});
