import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import { openPlace, runAlone } from '../../support/run.ts';
import { standStill, until } from '../../support/until.ts';

const MB = 1024 * 1024;
const forever = 'await new Promise((resolve) => setTimeout(resolve, 60_000));';
const heeds = `export default async ({ signal, log, data }) => {
  await new Promise((resolve) => {
    const timer = setTimeout(resolve, 60_000);
    signal.addEventListener('abort', () => { clearTimeout(timer); resolve(); });
  });
  log('tidied up');
  return data;
};\n`;
const good = 'export default ({ signal }) => signal.aborted;\n';

describe('at its time limit', () => {
  test('a handler that never looks at its signal ends at once, and the process is replaced', async () => {
    const place = openPlace({ 'a.mjs': `export default async () => { ${forever} };\n`, 'good.mjs': good });
    expect(await place.run('a', { timeoutMs: 2_000 })).toMatchObject({
      outcome: 'timed-out',
      exitCode: null,
      signal: 'SIGTERM',
      reason: expect.stringMatching(/^timed out after 2(\.\d)?s \(limit 2s\), ended with SIGTERM$/),
    });
    expect(place.runner.pid).toBeNull();
    expect(await place.run('good')).toMatchObject({ outcome: 'succeeded', result: 'false' });
  });

  test('one that has ended in time is taken for that by a runner that stood still', async () => {
    const place = openPlace({
      'a.mjs': `import { writeFileSync } from 'node:fs';
export default async () => {
  await new Promise((resolve) => setTimeout(resolve, 20));
  setTimeout(() => writeFileSync(process.env.RUNNER_ROOT + '/over', ''), 100);
};\n`,
    });
    const begun = performance.now();
    const onStarted = (): void => {
      const isLate = (): boolean => performance.now() - begun > 1_000;
      setImmediate(() => standStill(() => isLate() && existsSync(join(place.root, 'over'))));
    };
    const end = await place.run('a', { timeoutMs: 800, onStarted });
    expect(end).toMatchObject({ outcome: 'succeeded', reason: null });
  });

  test('one that never lets go of the processor, too', async () => {
    const place = openPlace({ 'a.mjs': 'export default () => { for (;;); };\n' });
    const end = await place.run('a', { timeoutMs: 2_000 });
    expect(end).toMatchObject({ outcome: 'timed-out', signal: 'SIGTERM', measuredBy: 'sampled' });
    expect(end.userCpuMs).toBeGreaterThan(0);
  });

  test('one that heeds its signal has timed out all the same, and its result does not count', async () => {
    const place = openPlace({ 'a.mjs': heeds, 'good.mjs': good });
    const end = await place.run('a', { timeoutMs: 2_000 });
    expect(end).toMatchObject({
      outcome: 'timed-out',
      exitCode: null,
      signal: null,
      reason: expect.stringMatching(/\(limit 2s\), exited after SIGTERM$/),
      output: { text: 'tidied up\n' },
    });
    expect(end).not.toHaveProperty('result');
    expect(place.runner.pid).toBeNull();
    expect(await place.run('good')).toMatchObject({ outcome: 'succeeded', result: 'false' });
    expect(new Set(place.pids).size).toBe(2);
  });

  test('one that asks for another try then has asked', async () => {
    const place = openPlace({
      'a.mjs': heeds.replace('return data;', `retry({ delay: '1m', data: { at: 4 } });`).replace('log,', 'log, retry,'),
    });
    expect(await place.run('a', { timeoutMs: 2_000 })).toMatchObject({
      outcome: 'timed-out',
      ask: { kind: 'retry', delayMs: 60_000, data: '{"at":4}' },
    });
  });

  test('one that ignores SIGTERM is killed after the grace, with what it has started', async () => {
    const place = openPlace({
      'a.mjs': `import { spawn } from 'node:child_process';
export default async () => {
  process.on('SIGTERM', () => console.log('ignored'));
  spawn('/bin/sh', ['-c', 'trap "" TERM; echo $$ > child; while :; do sleep 0.1; done'], { stdio: 'ignore' });
  ${forever}
};\n`,
    });
    const end = await place.run('a', { timeoutMs: 5_000, graceMs: 200 });
    expect(end).toMatchObject({
      outcome: 'timed-out',
      signal: 'SIGKILL',
      reason: expect.stringMatching(/ended with SIGKILL after 200ms of grace$/),
      output: { text: 'ignored\n' },
    });
    const child = Number(readFileSync(join(place.root, 'child'), 'utf8'));
    await until('what it has started is gone', () => !existsSync(`/proc/${child}`));
  });
});

describe('when the runner is told to stop', () => {
  test('what runs is ended', async () => {
    const place = openPlace({ 'a.mjs': `export default async () => { ${forever} };\n` });
    const stop = new AbortController();
    const run = place.run('a', { stop: stop.signal });
    await until('it runs', () => place.pids.length > 0);
    stop.abort();
    expect(await run).toMatchObject({
      outcome: 'failed',
      reason: 'stopped because the runner was stopped (Ctrl-C or kill), ended with SIGTERM',
    });
  });

  test('what ignores that is killed when it is to end at once', async () => {
    const place = openPlace({
      'a.mjs': `import { writeFileSync } from 'node:fs';
export default async () => { process.on('SIGTERM', () => writeFileSync('told', '')); writeFileSync('begun', ''); ${forever} };\n`,
    });
    const [stop, kill] = [new AbortController(), new AbortController()];
    const run = place.run('a', { stop: stop.signal, kill: kill.signal });
    await until('it runs', () => existsSync(join(place.root, 'begun')));
    stop.abort();
    await until('it was told', () => existsSync(join(place.root, 'told')));
    kill.abort();
    expect(await run).toMatchObject({ outcome: 'failed', signal: 'SIGKILL' });
  });
});

describe('resident memory', () => {
  const grows = `export default async () => {
  const kept = Buffer.alloc(${250 * MB}, 1);
  await new Promise((resolve) => setTimeout(resolve, 3_000));
  return kept.length;
};\n`;

  test('above @max-rss ends the run', async () => {
    const place = openPlace({ 'a.mjs': `// @max-rss 200mb\n// @rss-sustain 100ms\n${grows}` });
    const end = await place.run('a');
    expect(end).toMatchObject({ outcome: 'failed', signal: 'SIGTERM' });
    expect(end.reason).toMatch(/^used .* of resident memory for .* \(limit 200 MB\), ended with/);
  });

  test('above @warn-rss is noted', async () => {
    const place = openPlace({ 'a.mjs': `// @warn-rss 200mb\n${grows.replace('3_000', '100')}` });
    const end = await place.run('a');
    expect(end).toMatchObject({ outcome: 'succeeded', result: String(250 * MB) });
    expect(end.warning).toMatch(/more than its warning limit of 200 MB$/);
  });

  test('is told to who asks for it, but not of runs that are over in no time', async () => {
    const place = openPlace({
      'a.mjs': `export default ({ data }) => new Promise((resolve) => setTimeout(resolve, data));\n`,
    });
    const samples: number[] = [];
    const onSample = (bytes: number) => samples.push(bytes);
    await place.run('a', { data: 0 });
    await place.run('a', { data: 10, onSample });
    expect(samples).toEqual([]);
    await place.run('a', { data: 300, onSample });
    expect(samples.length).toBeGreaterThan(0);
  });
});

describe('a process that does not come to its first job', () => {
  test('is started a second time, and then given up', async () => {
    const place = openPlace({ 'a.mjs': good });
    const variables = { NODE_OPTIONS: '--no-such-option' };
    const end = await place.run('a', { variables });
    expect(end).toMatchObject({ outcome: 'not-started', exitCode: null, output: { text: '' } });
    expect(end.reason).toMatch(
      /^the process for handlers ended with exit code 9 before it called one; its last words: .*--no-such-option/,
    );
    expect(place.pids.length).toBe(2);
    expect(await place.run('a')).toMatchObject({ outcome: 'succeeded', warning: null });
  });

  test('because it hangs', async () => {
    const place = openPlace({ 'a.mjs': good });
    const hook = join(place.root, 'hang-once.cjs');
    const variables = { NODE_OPTIONS: `--require ${hook}` };
    writeFileSync(
      hook,
      `const fs = require('node:fs');\nif (!fs.existsSync('hung')) { fs.writeFileSync('hung', ''); Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0); }\n`,
    );
    const end = await place.run('a', { variables, hangAfterMs: 600 });
    expect(end).toMatchObject({ outcome: 'succeeded', result: 'false' });
    expect(end.warning).toMatch(/^hung before its first line: for 600ms Node made no progress and did not end/);
    expect(place.pids.length).toBe(2);
  });

  test('for want of a place for its files is none', async () => {
    const place = openPlace({ 'a.mjs': good });
    const state = { ...place.state, temporary: '/proc/nowhere' };
    const end = await place.run('a', { state });
    expect(end).toMatchObject({ outcome: 'not-started' });
    expect(end.reason).toMatch(/^its files could not be made: ENOENT/);
  });
});

describe('what a handler writes into the channel by its number', () => {
  const writes = `import { writeSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
export default async ({ data }) => {
  const bytes = Buffer.from(data.repeat ? 'x'.repeat(data.repeat) : data.text);
  for (let sent = 0; sent < bytes.length; ) {
    try {
      sent += writeSync(4, bytes, sent);
    } catch (error) {
      if (error.code !== 'EAGAIN') throw error;
      await sleep(1);
    }
  }
  if (data.lasts) await sleep(data.lasts);
  return 'written';
};\n`;
  const reason = 'it was ended because its process wrote to descriptor 4, which belongs to the runner';

  test.each<[string, { text?: string; repeat?: number; lasts?: number }]>([
    ['junk', { text: 'junk\n' }],
    ['junk, and ends at once', { text: 'junk\n', lasts: 0 }],
    ['a line of JSON', { text: '{"start":1,"end":5}\n' }],
    ['half an end', { text: '{"end":{}}\n' }],
    ['no end', { text: '{"end":null}\n' }],
    ['what would be no result', { text: '{"end":{"result":{}}}\n' }],
    ['without an end of the line', { repeat: 9 * MB }],
  ])('fails its own job: %s', async (_, { lasts = 60_000, ...data }) => {
    const place = openPlace({ 'writes.mjs': writes, 'good.mjs': 'export default ({ data }) => data;\n' });
    expect(await place.run('writes', { data: { ...data, lasts } })).toMatchObject({
      outcome: 'failed',
      signal: 'SIGKILL',
      reason,
    });
    expect(place.runner.pid).toBeNull();
    expect(await place.run('good', { data: 1 })).toMatchObject({ outcome: 'succeeded', result: '1', warning: null });
  });

  test.each([{ text: 'junk\n' }, { text: '5\nnull\n' }, { repeat: 9 * MB }])(
    'fails it in a process of its own, too: %j',
    async (data) => {
      const place = openPlace({ 'writes.mjs': `// @isolate\n${writes}` });
      const end = await place.run('writes', { data: { ...data, lasts: 60_000 } });
      expect(end).toMatchObject({ outcome: 'failed', signal: 'SIGKILL', reason });
    },
  );
});

describe('a process that waits and is killed', () => {
  const counts = `import { appendFileSync } from 'node:fs';\nexport default () => appendFileSync('ran', 'x');\n`;

  async function openCounting() {
    const place = openPlace({ 'counts.mjs': counts });
    const onStarted = (pid: number) => place.pids.push(pid);
    /** Kills the process that waits, and then gives it a job. */
    const runKilled = async (laterMs: number | null = null) => {
      const request = await place.request('counts', { onStarted });
      process.kill(place.pids.at(-1) as number, 'SIGKILL');
      if (laterMs !== null) await sleep(laterMs);
      const end = await runAlone(place.runner, request);
      place.runner.removeFiles(place.state, request.key);
      return end;
    };
    await place.run('counts');
    return { runKilled, countRuns: () => readFileSync(join(place.root, 'ran'), 'utf8').length };
  }

  test('is told of by the job that was on its way to it, which begins in another one', async () => {
    const { runKilled, countRuns } = await openCounting();
    for (let round = 0; round < 10; round += 1) {
      expect(await runKilled()).toMatchObject({
        outcome: 'succeeded',
        warning: 'the process that waited for it had ended by SIGKILL, so another one was started',
      });
    }
    expect(countRuns()).toBe(11);
  });

  test('harms no job, whenever that comes', async () => {
    const { runKilled, countRuns } = await openCounting();
    for (let round = 0; round < 20; round += 1) {
      expect(await runKilled(round % 4)).toMatchObject({ outcome: 'succeeded' });
    }
    expect(countRuns()).toBe(21);
  });
});

test('a job that has told of its progress has begun, though its process never heard the answer', async () => {
  const place = openPlace({
    'good.mjs': 'export default () => {};\n',
    'dies.mjs': `import { appendFileSync } from 'node:fs';
export default async ({ update }) => {
  appendFileSync('ran', 'x');
  update(1);
  await new Promise((resolve) => setImmediate(resolve));
  process.kill(process.pid, 'SIGKILL');
};\n`,
  });
  for (let round = 0; round < 10; round += 1) {
    await place.run('good');
    expect(await place.run('dies')).toMatchObject({ outcome: 'killed', signal: 'SIGKILL' });
  }
  expect(readFileSync(join(place.root, 'ran'), 'utf8')).toBe('x'.repeat(10));
});
