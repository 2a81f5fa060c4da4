import { createHash } from 'node:crypto';
import { mkdirSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { describe, expect, test } from 'vitest';
import type { RunEnd } from '../../../src/execution/result/result.ts';
import { runScript } from '../../../src/execution/script/run-script.ts';
import type { RunRequest } from '../../../src/execution/start/process.ts';
import type { StateFolder } from '../../../src/system/place/state-folder.ts';
import { runPass } from '../../support/command.ts';
import { requestRun, runOne } from '../../support/run.ts';
import { until } from '../../support/until.ts';

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

const MB = 1024 * 1024;

interface Watched {
  readonly end: RunEnd;
  /** The largest size that the output file was seen to have. */
  readonly largestBytes: number;
  readonly kept: Buffer;
}

async function runWatched(request: RunRequest): Promise<Watched> {
  let largestBytes = 0;
  const path = join(request.state.output, '1.1.log');
  const timer = setInterval(() => {
    largestBytes = Math.max(largestBytes, statSync(path, { throwIfNoEntry: false })?.size ?? 0);
  }, 1);
  const end = await runScript(request);
  clearInterval(timer);
  const file = join(request.state.output, end.output.file ?? '');
  return { end, largestBytes, kept: gunzipSync(readFileSync(file)) };
}

/** Numbered lines of 100 bytes, each in a write of its own: a lost or doubled one would show. */
const writeLines = (count: number) => `syswrite(STDOUT, sprintf("%099d\\n", $_)) for 1..${count};\n`;

test('100 MB stay small on the disk, and every byte of them is accounted for', async () => {
  const { end, largestBytes, kept } = await runWatched(
    await requestRun('fast.pl', writeLines(MB), { maxOutputBytes: MB }),
  );
  expect(end).toMatchObject({ outcome: 'succeeded', output: { bytes: 100 * MB, file: '1.1.log.gz' } });
  const { droppedBytes } = end.output;
  expect(droppedBytes).toBeGreaterThan(60 * MB);
  expect(largestBytes).toBeLessThan(40 * MB);
  const omission = `\n[… ${droppedBytes} bytes left out …]\n`;
  const [head = '', tail = '', ...more] = kept.toString('latin1').split(Buffer.from(omission).toString('latin1'));
  expect(more).toEqual([]);
  expect(head.length + tail.length + Number(droppedBytes)).toBe(100 * MB);
  expect(head).toBe(linesFrom(1, head.length));
  expect(tail).toBe(linesUpTo(MB, tail.length));
});

function linesFrom(first: number, bytes: number): string {
  const count = Math.ceil(bytes / 100);
  return Array.from({ length: count }, (_, index) => line(first + index))
    .join('')
    .slice(0, bytes);
}

function linesUpTo(last: number, bytes: number): string {
  const count = Math.ceil(bytes / 100);
  return linesFrom(last - count + 1, count * 100).slice(-bytes);
}

const line = (number: number): string => `${String(number).padStart(99, '0')}\n`;

test('several writers at once lose nothing uncounted either', async () => {
  const each = 20 * MB;
  const { end } = await runWatched(
    await requestRun(
      'many.sh',
      `for i in 1 2 3; do perl -e 'syswrite(STDOUT, "x" x 99 . "\\n") for 1..${each / 100}' & done; wait\n`,
      { maxOutputBytes: MB },
    ),
  );
  expect(end).toMatchObject({ outcome: 'succeeded', output: { bytes: 3 * Math.floor(each / 100) * 100 } });
  expect(end.output.droppedBytes).toBeGreaterThan(0);
});

test('output below the limit is kept whole', async () => {
  const { end, kept } = await runWatched(await requestRun('megabyte.pl', `print pack('L', $_) for 1..${MB / 4};\n`));
  expect(end.output).toMatchObject({ bytes: MB, droppedBytes: 0, fileBytes: expect.any(Number) });
  const written = Buffer.alloc(MB);
  for (let index = 0; index < MB / 4; index += 1) written.writeUInt32LE(index + 1, index * 4);
  const hash = (bytes: Buffer) => createHash('sha256').update(bytes).digest('hex');
  expect(hash(kept)).toBe(hash(written));
});

test('who opens the output a second time is bounded and counted, too', async () => {
  const lines = `perl -e '${writeLines(300_000).trim()}'`;
  const { end, kept } = await runWatched(
    await requestRun('reopens.sh', `${lines} >/dev/stderr\necho end\n`, { maxOutputBytes: MB }),
  );
  expect(end).toMatchObject({ outcome: 'succeeded', output: { bytes: 30_000_004 } });
  expect(kept.length).toBeLessThan(2 * MB + 100);
  expect(kept.toString('latin1')).toMatch(new RegExp(`^${linesFrom(1, 1000)}[^\\0]*${line(300_000)}end\n$`));
});

test.for([
  ['sleep 30 &', /^left 1 process running: sleep \(pid \d+\); its further output is not kept$/],
  [
    'sleep 30 & sleep 30 &',
    /^left 2 processes running: sleep \(pid \d+\), sleep \(pid \d+\); their further output is not kept$/,
  ],
] as const)('what a script leaves running is noted: %s', async ([source, warning]) => {
  const request = await requestRun('leaves.sh', `echo $$ >"$RUNNER_ROOT/group"\n${source}\n`);
  const end = await runScript(request);
  // Still there: it is the script's own business.
  process.kill(-Number(readFileSync(join(request.root, 'group'), 'utf8')), 'SIGKILL');
  expect(end).toMatchObject({ outcome: 'succeeded', warning: expect.stringMatching(warning) });
});

const NODE = `import { spawn } from 'node:child_process';
spawn('sleep', ['30'], { detached: true, stdio: 'ignore' }).unref();\n`;

test.for<[string, string, string, string]>([
  ['a Node script starts', 'a.mjs', NODE, 'succeeded'],
  [
    'a shell starts',
    'a.sh',
    'setsid sleep 30 &\nuntil grep -qs sleep /proc/$!/comm; do sleep 0.01; done\n',
    'succeeded',
  ],
  ['a program starts that has ended', 'a.sh', `sh -c 'setsid sleep 30 & sleep 0.1'\n`, 'succeeded'],
  ['is there at the time limit', 'a.mjs', `${NODE}setInterval(() => {}, 1000);\n`, 'timed-out'],
])('a process in a session of its own that %s is named', async ([, name, source, outcome]) => {
  const end = await runOne(name, source, { timeoutMs: 3_000 });
  const [, pid] =
    /^left 1 process running: sleep \(pid (\d+)\); its further output is not kept$/.exec(end.warning ?? '') ?? [];
  expect(pid, end.warning ?? 'no warning').toBeDefined();
  // It goes on: it may be a daemon.
  process.kill(Number(pid), 'SIGKILL');
  expect(end.outcome).toBe(outcome);
});

test('a process of another run is none of this one', async () => {
  const [one, other] = await Promise.all([
    runOne('a.sh', 'setsid sleep 30 &\necho $! >"$RUNNER_ROOT/pid"; sleep 0.3\n', { key: '1.1' }),
    runOne('b.sh', 'sleep 0.2\n', { key: '1.2' }),
  ]);
  process.kill(Number(/pid (\d+)/.exec(one.warning ?? '')?.[1]), 'SIGKILL');
  expect(other.warning).toBe(null);
});

test.for([
  ['that is about to end', 'sleep 0.02 &'],
  ['that the script has waited for', 'sleep 0.01 & wait'],
] as const)('a process %s is not', async ([, source]) => {
  // A busy machine may end it late.
  const isTidy = async () => (await runOne('tidy.sh', `${source}\n`)).warning === null;
  await until('nothing is said to be left', isTidy);
});
