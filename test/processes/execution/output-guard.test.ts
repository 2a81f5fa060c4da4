import { createHash } from 'node:crypto';
import { readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { expect, test } from 'vitest';
import type { RunEnd } from '../../../src/execution/result/result.ts';
import { runScript } from '../../../src/execution/script/run-script.ts';
import type { RunRequest } from '../../../src/execution/start/process.ts';
import { requestRun } from '../../support/run.ts';

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
