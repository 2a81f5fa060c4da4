import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { expect, test } from 'vitest';
import { runFilesOf } from '../../../src/execution/run-files.ts';
import { openOneHandler, openPlace } from '../../support/run.ts';
import { until } from '../../support/until.ts';

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
