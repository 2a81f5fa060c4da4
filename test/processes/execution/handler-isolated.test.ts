import { readdirSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { openPlace } from '../../support/run.ts';

const MB = 1024 * 1024;
const isolated = (code: string): string => `// @isolate\nexport default async (job) => { ${code} };\n`;

describe('a handler that asks for a process of its own', () => {
  test('gets a new one for each job, and nothing is left of it', async () => {
    const place = openPlace({ 'a.ts': isolated('job.log(job.data); return process.pid;') });
    const first = await place.run('a', { data: 1 });
    const second = await place.run('a', { data: 2 });
    expect(first).toMatchObject({
      outcome: 'succeeded',
      exitCode: 0,
      result: String(place.pids[0]),
      output: { text: '1\n' },
      measuredBy: 'self',
    });
    expect(second).toMatchObject({ result: String(place.pids[1]), output: { text: '2\n' } });
    expect(place.pids[0]).not.toBe(place.pids[1]);
    expect(place.runner.pid).toBeNull();
    await place.runner.close();
    const { output, results, temporary } = place.state;
    expect([output, results, temporary].flatMap((folder) => readdirSync(folder))).toEqual([]);
  });

  test('leaves the process that waits for others as it is', async () => {
    const place = openPlace({ 'a.ts': isolated(''), 'warm.ts': 'export default () => process.pid;\n' });
    const first = await place.run('warm');
    await place.run('a');
    expect(await place.run('warm')).toMatchObject({ result: first.result, warning: null });
  });

  test.each([
    ['a throw', `throw new TypeError('no luck');`, { reason: 'TypeError: no luck', exitCode: 1 }],
    [
      'an uncaught error',
      `setTimeout(() => { throw new Error('late'); }, 5); await new Promise((resolve) => setTimeout(resolve, 60_000));`,
      { reason: 'Error: late', exitCode: 1 },
    ],
    [
      'process.exit(0)',
      'process.exit(0);',
      { reason: 'Error: process.exit(0) was called before the handler had ended', exitCode: 13 },
    ],
    [
      'a promise that never settles',
      'await new Promise(() => {});',
      { reason: "Error: the handler's promise never settled", exitCode: 13 },
    ],
    ['a result that is no JSON', 'return 1n;', { exitCode: 1, error: null }],
    [
      'retry',
      `job.retry({ delay: '10s' });`,
      {
        outcome: 'released',
        exitCode: 75,
        reason: 'asked for another try in 10s',
        ask: { kind: 'retry', delayMs: 10_000 },
      },
    ],
    ['fail', `job.fail('no use');`, { reason: 'no use', ask: { kind: 'fail', reason: 'no use' } }],
  ])('ends as others do by %s', async (_, code, expected) => {
    const place = openPlace({ 'a.mjs': isolated(code) });
    const end = await place.run('a');
    expect(end).toMatchObject({ outcome: 'failed', ...expected });
    expect(end).not.toHaveProperty('result');
  });

  test('is not waited for once it has ended, whatever it left open', async () => {
    const place = openPlace({ 'a.mjs': isolated('setInterval(() => {}, 1000); return 1;') });
    expect(await place.run('a')).toMatchObject({ outcome: 'succeeded', result: '1' });
  });

  test('without a function is refused', async () => {
    const place = openPlace({ 'a.mjs': '// @isolate\nconsole.log(1);\n' });
    const end = await place.run('a');
    expect(end).toMatchObject({ outcome: 'failed', error: null });
    expect(end.reason).toContain('a.mjs exports no function to call');
  });

  test('is given data of 1 MiB and gives it back, and finds nothing more to read', async () => {
    const place = openPlace({
      'a.mjs': `// @isolate\nimport { readFileSync } from 'node:fs';
export default ({ data }) => ({ data, rest: readFileSync(0, 'utf8') });\n`,
    });
    const data = '"'.repeat(MB / 2 - 100);
    expect((await place.run('a', { data })).result).toBe(JSON.stringify({ data, rest: '' }));
  });

  test('tells of its progress in order, also of much', async () => {
    const place = openPlace({
      'a.mjs': isolated(
        `for (let done = 1; done < 4; done += 1) await job.update({ done, pad: 'x'.repeat(300_000) });`,
      ),
    });
    const done: number[] = [];
    const onUpdate = async (data: string) => {
      await new Promise((resolve) => setTimeout(resolve, 10));
      done.push(JSON.parse(data).done);
    };
    expect(await place.run('a', { onUpdate })).toMatchObject({ outcome: 'succeeded' });
    expect(done).toEqual([1, 2, 3]);
  });

  test('is told whether its progress is in the log, or why it is not', async () => {
    const place = openPlace({
      'a.mjs': isolated(`const told = [];
for (const data of job.data) await job.update(data).then(() => told.push('written'), (error) => told.push(error.message));
return told;`),
    });
    const onUpdate = async (data: string) => {
      await new Promise((resolve) => setTimeout(resolve, 10));
      if (data === '2') throw new Error('another worker has it');
    };
    const end = await place.run('a', { data: [1, 2, 3], onUpdate });
    expect(end.result).toBe('["written","another worker has it","written"]');
  });

  test('has told of its progress also where it does not wait to hear of it', async () => {
    const place = openPlace({ 'a.mjs': isolated(`job.update(1); job.update('x'.repeat(${MB - 2}));`) });
    const seen: string[] = [];
    const onUpdate = async (data: string) => {
      await new Promise((resolve) => setTimeout(resolve, 50));
      seen.push(data.slice(0, 3));
    };
    expect(await place.run('a', { onUpdate })).toMatchObject({ outcome: 'succeeded', warning: null });
    expect(seen).toEqual(['1', '"xx']);
  });

  test('is told to have left a program running, which goes on', async () => {
    const place = openPlace({
      'a.mjs': `// @isolate\nimport { spawn } from 'node:child_process';
export default () => spawn('sleep', ['30'], { stdio: 'ignore' }).pid;\n`,
    });
    const end = await place.run('a');
    process.kill(Number(end.result), 'SIGKILL');
    const warning = `left 1 process running: sleep (pid ${end.result}); its further output is not kept`;
    expect(end).toMatchObject({ outcome: 'succeeded', warning });
  });

  test('that is killed is measured from outside', async () => {
    const place = openPlace({ 'a.mjs': isolated(`process.kill(process.pid, 'SIGKILL'); await job.update(1);`) });
    const end = await place.run('a');
    expect(end).toMatchObject({ outcome: 'killed', signal: 'SIGKILL', exitCode: null, measuredBy: 'sampled' });
    expect(end.userCpuMs).toBeGreaterThan(0);
  });

  test('has a signal, and a time limit', async () => {
    const place = openPlace({
      'a.mjs': isolated(`await new Promise((resolve) => {
  const timer = setTimeout(resolve, 60_000);
  job.signal.addEventListener('abort', () => { clearTimeout(timer); resolve(); });
}); job.log('tidied up');`),
    });
    expect(await place.run('a', { timeoutMs: 1500 })).toMatchObject({
      outcome: 'timed-out',
      reason: expect.stringMatching(/exited with code 0 after SIGTERM$/),
      output: { text: 'tidied up\n' },
    });
  });
});
