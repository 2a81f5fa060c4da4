import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { describe, expect, test } from 'vitest';
import { runFilesOf } from '../../../src/execution/run-files.ts';
import { machineName } from '../../../src/system/process/identity.ts';
import { openOneHandler, openPlace } from '../../support/run.ts';
import { until } from '../../support/until.ts';

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

test('a run has its own part of what the process prints, by whichever way', async () => {
  const place = openOneHandler({
    a: `import { execSync } from 'node:child_process';
import { writeSync } from 'node:fs';
export default ({ data, log }) => {
  log('one', { of: data });
  console.error('two');
  execSync('echo three', { stdio: 'inherit' });
  writeSync(1, 'four\\n');
};\n`,
    quiet: 'export default () => {};\n',
  });
  const textOf = (data: number) => `one { of: ${data} }\ntwo\nthree\nfour\n`;
  for (const data of [1, 2]) {
    const { output } = await place.run('a', { data });
    expect(output).toMatchObject({ text: textOf(data), bytes: textOf(data).length });
    expect((await place.run('quiet')).output).toMatchObject({ text: '', bytes: 0 });
  }
  expect(new Set(place.pids).size).toBe(1);
});

test('bytes that are no text are shown as well as can be', async () => {
  const place = openPlace({
    'a.mjs': `import { writeSync } from 'node:fs';\nexport default () => { writeSync(1, Buffer.from([0, 255, 65, 10])); };\n`,
  });
  const { output } = await place.run('a');
  expect(output).toMatchObject({ text: '\uFFFD\uFFFDA\n', bytes: 4 });
});

test('secrets are masked in it', async () => {
  const place = openPlace({ 'a.mjs': `export default ({ log }) => log('is', process.env.API_KEY);\n` });
  const { output } = await place.run('a', { variables: { API_KEY: 'abcdef-secret' } });
  expect(output.text).toBe('is [API_KEY]\n');
});

test('what is long is compressed beside the log, what is too long is cut, run by run', async () => {
  const place = openPlace({
    'a.mjs': `export default async ({ data, log }) => {
  for (let line = 0; line < data; line += 1) {
    log('x'.repeat(999));
    if (line % 500 === 0) await new Promise((resolve) => setTimeout(resolve, 20));
  }
};\n`,
  });
  const long = await place.run('a', { data: 200 });
  expect(long.output).toMatchObject({ bytes: 200_000, droppedBytes: 0, file: '1.1.log.gz' });
  const kept = gunzipSync(readFileSync(join(place.state.output, '1.1.log.gz')));
  expect(kept.length).toBe(200_000);
  const cut = await place.run('a', { data: 5000, maxOutputBytes: 1_000_000 });
  expect(cut.output.bytes).toBe(5_000_000);
  expect(cut.output.droppedBytes).toBeGreaterThan(2_000_000);
  expect((await place.run('a', { data: 1 })).output.text).toBe(`${'x'.repeat(999)}\n`);
  expect(new Set(place.pids).size).toBe(1);
});

test('while a run goes on, its output is found under its key', async () => {
  const place = openPlace({
    'a.mjs': `import { existsSync } from 'node:fs';
export default async ({ log }) => {
  log('half');
  while (!existsSync('go')) await new Promise((resolve) => setTimeout(resolve, 10));
};\n`,
  });
  const { output } = runFilesOf(place.state, '1.1');
  const run = place.run('a');
  await until('it has printed', () => existsSync(output) && readFileSync(output, 'utf8') === 'half\n');
  writeFileSync(join(place.root, 'go'), '');
  expect(await run).toMatchObject({ outcome: 'succeeded', output: { text: 'half\n' } });
  expect(existsSync(output)).toBe(false);
});

test('what a quarantined log has left under the same key is none of it', async () => {
  const place = openPlace({ 'a.mjs': `export default () => { process.exit(1); };\n` });
  const files = runFilesOf(place.state, '1.1');
  writeFileSync(files.output, 'old');
  writeFileSync(files.result, '{"exitCode":0,"userCpuMs":1,"systemCpuMs":1,"maxRssBytes":1,"error":null}');
  expect(await place.run('a')).toMatchObject({ outcome: 'failed', reason: 'exit code 1', output: { text: '' } });
});

describe('a program as a handler', () => {
  test('reads its job as one line of JSON', async () => {
    const place = openPlace({ 'mail/a.sh': 'cat; test "$(wc -l </dev/stdin)" = 0\n' });
    const { output } = await place.run('mail/a', {
      job: {
        data: '{\n  "to": "a\\nb",\r\n  "big": 12345678901234567890\n}',
        attempt: 2,
        scheduledFor: 0,
        latenessMs: 5,
        parentData: '[1]',
      },
    });
    expect(output.text.split('\n')).toHaveLength(2);
    expect(output.text).toContain('12345678901234567890');
    expect(JSON.parse(output.text)).toEqual({
      id: 7,
      name: 'mail/a',
      data: { to: 'a\nb', big: Number('12345678901234567890') },
      attempt: 2,
      scheduledFor: '1970-01-01T00:00:00.000Z',
      latenessMs: 5,
      lastSuccess: null,
      previouslyCrashed: false,
      parentData: [1],
      children: { finished: [], failed: [], cancelled: [] },
    });
  });

  test('finds the same in the environment', async () => {
    const place = openPlace({
      'mail/a.sh':
        'echo "$RUNNER_JOB $RUNNER_NAME $RUNNER_SCRIPT $RUNNER_ATTEMPT [$RUNNER_SCHEDULED_FOR] $RUNNER_HOST"\n',
    });
    expect((await place.run('mail/a')).output.text).toBe(`7 mail/a queue/mail/a 1 [] ${machineName()}\n`);
  });

  test.each([
    ['an object', `echo '{"sent":true}'`, '{"sent":true}'],
    ['an array', `echo ' [1, 2] '`, '[1, 2]'],
    ['the last line that is not empty', `echo '{"a":1}'; echo '{"b":2}'; echo; echo '  '`, '{"b":2}'],
    ['a line without its end', `printf 'text\\n{"a":1}'`, '{"a":1}'],
    ['a long line', `printf '{"a":"%0300000d"}' 0`, `{"a":"${'0'.repeat(300_000)}"}`],
    ['nothing', 'true', undefined],
    ['a number, as it may stand there by chance', 'echo 3', undefined],
    ['a word', `echo '"done"'`, undefined],
    ['a value that is not JSON', `echo '[INFO] done'`, undefined],
    ['an earlier line', `echo '{"a":1}'; echo done`, undefined],
  ])('gives back %s', async (_, script, result) => {
    const place = openPlace({ 'a.sh': `${script}\n` });
    const end = await place.run('a');
    expect(end).toMatchObject({ outcome: 'succeeded', exitCode: 0, warning: null });
    expect(end.result).toBe(result);
  });

  test('cannot give back too much, which is noted', async () => {
    const place = openPlace({ 'a.sh': `printf '{"a":"%0${MB}d"}' 0\n` });
    const end = await place.run('a');
    expect(end).toMatchObject({
      outcome: 'succeeded',
      warning: `its last line is longer than a result may be (${MB} bytes), and was ignored`,
    });
    expect(end).not.toHaveProperty('result');
  });

  test.each([
    [75, { outcome: 'released', reason: 'exit code 75: asked for another try', ask: { kind: 'retry' } }],
    [1, { reason: 'exit code 1' }],
    [76, { reason: 'exit code 76' }],
  ])('that ends with %i', async (code, expected) => {
    const place = openPlace({ 'a.sh': `echo '{"a":1}'\nexit ${code}\n` });
    const end = await place.run('a');
    expect(end).toMatchObject({ outcome: 'failed', exitCode: code, ...expected });
    expect(end).not.toHaveProperty('result');
    expect('ask' in end).toBe(code === 75);
  });

  test('need not read what it is given, however long that is', async () => {
    const place = openPlace({ 'a.sh': 'exec sleep 0.1\n', 'closes.sh': 'exec <&-\nsleep 0.1\n' });
    const data = 'x'.repeat(MB);
    expect(await place.run('a', { data })).toMatchObject({ outcome: 'succeeded' });
    expect(await place.run('closes', { data })).toMatchObject({ outcome: 'succeeded' });
  });

  test('may read it twice as any file, and reads all of 1 MiB', async () => {
    const place = openPlace({ 'a.sh': `wc -c\n` });
    const { output } = await place.run('a', { data: 'x'.repeat(MB) });
    expect(Number(output.text)).toBeGreaterThan(MB);
  });

  test('may be of any language', async () => {
    const place = openPlace({
      'a.py': 'import json, sys\njob = json.load(sys.stdin)\nprint(json.dumps({"got": job["data"]}))\n',
    });
    expect((await place.run('a', { data: { n: 1 } })).result).toBe('{"got": {"n": 1}}');
  });

  test('has its time limit', async () => {
    const place = openPlace({ 'a.sh': 'sleep 60\n' });
    expect(await place.run('a', { timeoutMs: 200 })).toMatchObject({ outcome: 'timed-out' });
  });
});
