import { mkdirSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { describe, expect, test } from 'vitest';
import type { RunEnd } from '../../../src/execution/result/result.ts';
import { runScript } from '../../../src/execution/script/run-script.ts';
import type { StateFolder } from '../../../src/system/place/state-folder.ts';
import { runPass } from '../../support/command.ts';
import { requestRun, runOne } from '../../support/run.ts';

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
    file: '1.1.log.gz',
    fileBytes: expect.any(Number),
  });
});

test('standard output and error stand in the order they were written', async () => {
  const { output } = await runOne('both.sh', 'echo 1\necho 2 >&2\necho 3\necho 4 >&2\n');
  expect(output.text).toBe('1\n2\n3\n4\n');
});

test('binary output becomes text, and its bytes are counted as they were', async () => {
  const { output } = await runOne('binary.pl', String.raw`print "a\0b\xff\xfe", "\xc3\xa4", "\xe2\x82", "\n";`);
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
    expect({ outcome, text: output.text }).toEqual({ outcome: 'succeeded', text: 'before\nafter\n' });
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
  mkdirSync(join(request.state.output, '1.1.log.gz'));
  const { outcome, output } = await runScript(request);
  expect(outcome).toBe('succeeded');
  expect(output).toMatchObject({ bytes: 200 * KB, droppedBytes: 136 * KB, file: null, fileBytes: null });
  expect(output.text).toHaveLength(64 * KB + `\n[… ${136 * KB} bytes left out …]\n`.length);
});

test('after a pass nothing is left but what is too long for the log', () => {
  const { root, run } = runPass({
    'long.sh': 'head -c 70000 /dev/zero\n',
    'short.mjs': `console.log('x');\n`,
    'throws.mjs': `throw new Error('x');\n`,
  });
  const listed = (folder: string) => readdirSync(join(root, '.runner', folder));
  expect(listed('output')).toEqual([`${run('long').key}.log.gz`]);
  expect(listed('results')).toEqual([]);
  expect(listed('tmp')).toEqual([]);
});

describe('secrets are masked', () => {
  const environment = { SHOP_TOKEN: 'tok-0123456789' };
  const env = '# @env SHOP_TOKEN\n';
  const readFile = ({ output }: RunEnd, state: StateFolder): string =>
    gunzipSync(readFileSync(join(state.output, output.file as string))).toString();

  test('in the text, and its bytes are counted as they were', async () => {
    const { output } = await runOne('a.sh', `${env}echo "with $SHOP_TOKEN!"\n`, { environment });
    expect(output).toMatchObject({ text: 'with [SHOP_TOKEN]!\n', bytes: 21 });
  });

  test('in what ended the run: message, stack and reason', async () => {
    const end = await runOne(
      'a.mjs',
      '// @env SHOP_TOKEN\nthrow new TypeError(`no ${process.env.SHOP_TOKEN} here`);\n',
      { environment },
    );
    expect(end.reason).toBe('exit code 1: TypeError: no [SHOP_TOKEN] here');
    expect(end.error?.message).toBe('no [SHOP_TOKEN] here');
    expect(end.error?.stack).toContain('no [SHOP_TOKEN] here');
    expect(JSON.stringify(end)).not.toContain('tok-');
  });

  test('in the file and at both ends of what the log keeps of it', async () => {
    const request = await requestRun(
      'long.pl',
      `${env}my $s = $ENV{SHOP_TOKEN};
print 'x' x (${32 * KB} - 7), $s, 'x' x ${40 * KB}, $s, 'x' x (${32 * KB} - 7);\n`,
      { environment },
    );
    const end = await runScript(request);
    expect(end.output.text).toMatch(/^x+\[SHOP_TOKEN\]\n\[… \d+ bytes left out …\]\n\[SHOP_TOKEN\]x+$/);
    expect(readFile(end, request.state)).toMatch(/^x+\[SHOP_TOKEN\]x+\[SHOP_TOKEN\]x+$/);
  });

  test('wherever the file was cut, and wherever it is read in pieces', async () => {
    const request = await requestRun('endless.pl', `${env}$| = 1; for (1 .. 40_000) { print "$ENV{SHOP_TOKEN} " }\n`, {
      environment,
      maxOutputBytes: 128 * KB,
    });
    const end = await runScript(request);
    expect(end.output.droppedBytes).toBeGreaterThan(0);
    for (const kept of [end.output.text, readFile(end, request.state)]) {
      expect(kept).toContain('[SHOP_TOKEN] [SHOP_TOKEN]');
      const rest = kept.replaceAll('[SHOP_TOKEN]', '').replace(/\[… .* …\]/g, '');
      // At most three characters of one that was cut.
      expect(rest.replace(/\s+/g, '').length).toBeLessThanOrEqual(6);
      expect(rest).not.toMatch(/tok-|6789/);
    }
  });

  test('by a pass, in all that is stored and mailed', () => {
    const pass = runPass(
      { 'a.sh': `${env}echo "$SHOP_TOKEN $DB_LOGIN $FIXED_PASSWORD" >&2\nexit 3\n` },
      {
        env: { SHOP_TOKEN: 'tok-0123456789', DB_LOGIN: 'not passed on' },
        files: {
          'runner.config.json': JSON.stringify({
            env: { FIXED_PASSWORD: 'horse-battery', DB_LOGIN: 'me:staple' },
            secrets: ['DB_LOGIN'],
          }),
        },
      },
    );
    expect(pass.run('a').output).toBe('[SHOP_TOKEN] [DB_LOGIN] [FIXED_PASSWORD]\n');
    expect(pass.stderr).toContain('| [SHOP_TOKEN] [DB_LOGIN] [FIXED_PASSWORD]');
    expect(JSON.stringify(pass)).not.toMatch(/tok-|horse|staple/);
    expect(readFileSync(join(pass.root, '.runner/activity.db')).toString('latin1')).not.toMatch(/tok-|horse|staple/);
  });
});
