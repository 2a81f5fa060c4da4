import { mkdirSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { runScript } from '../../src/execution/run-script.ts';
import { requestRun, runOne } from '../support/run-one.ts';
import { runPass } from '../support/run-pass.ts';

const KB = 1024;
const nothing = { droppedBytes: 0, file: null, fileBytes: null };

test('no output is an empty text', async () => {
  const { output } = await runOne('silent.sh', 'true\n');
  expect(output).toEqual({ ...nothing, text: '', bytes: 0 });
});

test('64 KB stay whole in the log, one byte more becomes head, tail and a file', async () => {
  const { output } = await runOne('full.pl', `print 'x' x ${64 * KB};\n`);
  expect(output).toEqual({ ...nothing, text: 'x'.repeat(64 * KB), bytes: 64 * KB });
  const more = await runOne('more.pl', `print 'a' x ${40 * KB}, 'b' x ${24 * KB}, 'c';\n`);
  expect(more.output).toEqual({
    text: `${'a'.repeat(32 * KB)}\n[… 1 bytes left out …]\n${'a'.repeat(8 * KB - 1)}${'b'.repeat(24 * KB)}c`,
    bytes: 64 * KB + 1,
    droppedBytes: 0,
    file: '1.log.gz',
    fileBytes: expect.any(Number),
  });
});

test('standard output and error stand in the order they were written', async () => {
  const { output } = await runOne('both.sh', 'echo 1\necho 2 >&2\necho 3\necho 4 >&2\n');
  expect(output.text).toBe('1\n2\n3\n4\n');
});

test('binary output becomes text, and its bytes are counted as they were', async () => {
  const { output } = await runOne(
    'binary.pl',
    String.raw`print "a\0b\xff\xfe", "\xc3\xa4", "\xe2\x82", "\n";`,
  );
  expect(output).toEqual({ ...nothing, text: 'a\ufffdb\ufffd\ufffdä\ufffd\n', bytes: 10 });
});

test('binary output goes through the log and out again', () => {
  const { status, run } = runPass({ 'binary.sh': 'head -c 100000 /dev/urandom\n' });
  expect(status).toBe(0);
  expect(run('binary')).toMatchObject({ output_bytes: 100_000, output_dropped_bytes: 0 });
  expect(run('binary').output).not.toContain('\0');
});

describe('a script that tampers with its own output', () => {
  test('by removing the file takes nothing out of the log', async () => {
    const { outcome, output } = await runOne(
      'removes.sh',
      'echo before\nrm -f "$RUNNER_ROOT"/.runner/output/*\nsleep 0.3\necho after\n',
    );
    expect({ outcome, text: output.text }).toEqual({
      outcome: 'succeeded',
      text: 'before\nafter\n',
    });
  });

  test('by removing the whole state folder is recorded all the same', async () => {
    const end = await runOne('clears.sh', 'echo before\nrm -rf "$RUNNER_ROOT"/.runner\nexit 3\n');
    expect(end).toMatchObject({ outcome: 'failed', exitCode: 3, output: { text: 'before\n' } });
  });

  test('by cutting the file, as `> /dev/stderr` does, loses what it had written before', async () => {
    const { outcome, output } = await runOne('cuts.sh', 'echo before\necho after > /dev/stderr\n');
    expect(outcome).toBe('succeeded');
    expect(output).toEqual({ ...nothing, text: 'after\n', bytes: 6 });
  });

  test('by cutting it after megabytes is recorded all the same', async () => {
    const { outcome, output } = await runOne(
      'cuts-late.sh',
      'head -c 4000000 /dev/zero\nsleep 0.4\necho after > /dev/stderr\n',
      { maxOutputBytes: 128 * KB },
    );
    expect(outcome).toBe('succeeded');
    expect(output.text).toBe(`after\n\n[… ${output.droppedBytes} bytes left out …]\n`);
    expect(output.bytes).toBe(Number(output.droppedBytes) + 6);
  });
});

test('where the compressed file cannot be written, the log’s part is kept', async () => {
  const request = await requestRun('much.pl', `print 'x' x ${200 * KB};\n`);
  mkdirSync(join(request.state.output, '1.log.gz'));
  const { outcome, output } = await runScript(request);
  expect(outcome).toBe('succeeded');
  expect(output).toMatchObject({
    bytes: 200 * KB,
    droppedBytes: 136 * KB,
    file: null,
    fileBytes: null,
  });
  expect(output.text).toHaveLength(64 * KB + `\n[… ${136 * KB} bytes left out …]\n`.length);
});

test('after a pass nothing is left but what is too long for the log', () => {
  const { root, run } = runPass({
    'long.sh': 'head -c 70000 /dev/zero\n',
    'short.mjs': `console.log('x');\n`,
    'throws.mjs': `throw new Error('x');\n`,
  });
  const listed = (folder: string) => readdirSync(join(root, '.runner', folder));
  expect(listed('output')).toEqual([`${run('long').id}.log.gz`]);
  expect(listed('results')).toEqual([]);
  expect(listed('tmp')).toEqual([]);
});
