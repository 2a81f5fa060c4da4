import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import { openPlace, runAlone } from '../../support/run.ts';

const MB = 1024 * 1024;

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
