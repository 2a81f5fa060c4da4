import {
  createReadStream,
  createWriteStream,
  fstatSync,
  readSync,
  rmSync,
  statSync,
} from 'node:fs';
import { basename } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { createGzip } from 'node:zlib';
import { headBytes } from './output-guard.ts';
import type { CountedOutput } from './run-end.ts';
import { ifPossible } from './run-files.ts';

/** How much of a run's output its row holds. */
const ROW_BYTES = 64 * 1024;
const HALF_ROW_BYTES = ROW_BYTES / 2;

/** What is to be kept of which file. */
export interface WrittenOutput {
  readonly path: string;
  /** The file's, for reading: its path may lead to it no longer. */
  readonly fd: number;
  /** What was already cut out of it. */
  readonly droppedBytes: number;
  /** How much of it stays on the disk, at most. */
  readonly maxBytes: number;
}

/** Reads what the row keeps of a run's output; the rest goes to one compressed file beside it. */
export async function keepOutput(output: WrittenOutput): Promise<CountedOutput> {
  const { fd, droppedBytes } = output;
  const { size } = fstatSync(fd);
  const bytes = size + droppedBytes;
  if (bytes <= ROW_BYTES) {
    return { text: readText(fd, 0, size), bytes, droppedBytes, file: null, fileBytes: null };
  }
  const text = readEnds(fd, size, bytes);
  return { text, bytes, ...(await keepFile(output, size)) };
}

type KeptFile = Pick<CountedOutput, 'droppedBytes' | 'file' | 'fileBytes'>;

/** On a full disk only the row's part is kept: a run's end is recorded all the same. */
async function keepFile(output: WrittenOutput, size: number): Promise<KeptFile> {
  const { droppedBytes } = output;
  const file = `${output.path}.gz`;
  try {
    await pipeline(
      readWithGap(output, size),
      createGzip(),
      createWriteStream(file, { mode: 0o600 }),
    );
    return { droppedBytes, file: basename(file), fileBytes: statSync(file).size };
  } catch {
    ifPossible(() => rmSync(file, { force: true }));
    return {
      droppedBytes: droppedBytes + size - Math.min(size, ROW_BYTES),
      file: null,
      fileBytes: null,
    };
  }
}

/** The line that stands for bytes left out. */
export function omission(bytes: number): string {
  return `\n[… ${bytes} bytes left out …]\n`;
}

/** A script can cut the file itself: `> /dev/stderr` does, as it does to any file. */
function readEnds(fd: number, size: number, bytes: number): string {
  const head = readText(fd, 0, Math.min(size, HALF_ROW_BYTES));
  const tailBytes = Math.min(size - Math.min(size, HALF_ROW_BYTES), HALF_ROW_BYTES);
  const tail = readText(fd, size - tailBytes, tailBytes);
  return head + omission(bytes - Math.min(size, ROW_BYTES)) + tail;
}

/** Text that SQLite's own shell can show: no NUL, and no broken UTF-8. */
function readText(fd: number, position: number, length: number): string {
  const buffer = Buffer.alloc(length);
  const read = readSync(fd, buffer, 0, length, position);
  return buffer.toString('utf8', 0, read).replaceAll('\0', '\uFFFD');
}

async function* readWithGap({ fd, droppedBytes, maxBytes }: WrittenOutput, size: number) {
  const read = (start: number, end: number) =>
    createReadStream('', { fd, start, end: end - 1, autoClose: false });
  const head = droppedBytes === 0 ? size : Math.min(size, headBytes(maxBytes));
  if (head > 0) yield* read(0, head);
  if (droppedBytes > 0) yield Buffer.from(omission(droppedBytes));
  if (size > head) yield* read(head, size);
}
