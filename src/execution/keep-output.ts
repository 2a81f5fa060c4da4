import { createReadStream, createWriteStream, fstatSync, readSync, statSync } from 'node:fs';
import { basename } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { createGzip } from 'node:zlib';
import { headBytes } from './output-guard.ts';
import type { KeptOutput } from './run-end.ts';
import { withDescriptor } from './run-files.ts';

/** How much of a run's output its row holds. */
const ROW_BYTES = 64 * 1024;
const HALF_ROW_BYTES = ROW_BYTES / 2;

/** Reads what the row keeps of a run's output; the rest goes to one compressed file beside it. */
export async function keepOutput(
  path: string,
  droppedBytes: number,
  maxBytes: number,
): Promise<KeptOutput> {
  const { size } = statSync(path);
  const bytes = size + droppedBytes;
  if (bytes <= ROW_BYTES) {
    return { text: readText(path, 0, size), bytes, droppedBytes, file: null, fileBytes: null };
  }
  const file = `${path}.gz`;
  await compress(path, file, droppedBytes, headBytes(maxBytes));
  const text = readEnds(path, size, bytes);
  return { text, bytes, droppedBytes, file: basename(file), fileBytes: statSync(file).size };
}

/** The line that stands for bytes left out. */
export function omission(bytes: number): string {
  return `\n[… ${bytes} bytes left out …]\n`;
}

function readEnds(path: string, size: number, bytes: number): string {
  const head = readText(path, 0, HALF_ROW_BYTES);
  const tail = readText(path, size - HALF_ROW_BYTES, HALF_ROW_BYTES);
  return head + omission(bytes - ROW_BYTES) + tail;
}

/** Text that SQLite's own shell can show: no NUL, and no broken UTF-8. */
function readText(path: string, position: number, length: number): string {
  return withDescriptor(path, 'r', (fd) => {
    const buffer = Buffer.alloc(Math.min(length, fstatSync(fd).size - position));
    const read = readSync(fd, buffer, 0, buffer.length, position);
    return buffer.toString('utf8', 0, read).replaceAll('\0', '\uFFFD');
  });
}

async function compress(
  from: string,
  to: string,
  droppedBytes: number,
  headLength: number,
): Promise<void> {
  await pipeline(
    readWithGap(from, droppedBytes, headLength),
    createGzip(),
    createWriteStream(to, { mode: 0o600 }),
  );
}

async function* readWithGap(path: string, droppedBytes: number, headLength: number) {
  if (droppedBytes === 0) return yield* createReadStream(path);
  yield* createReadStream(path, { end: headLength - 1 });
  yield Buffer.from(omission(droppedBytes));
  yield* createReadStream(path, { start: headLength });
}
