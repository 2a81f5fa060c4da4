import { fstatSync, readSync, rmSync, statSync } from 'node:fs';
import { basename } from 'node:path';
import { ifPossible } from '../run-files.ts';
import type { Cut } from '../secrets.ts';
import { omission, type WrittenOutput } from '../watch/output-guard.ts';
import type { CountedOutput } from './result.ts';

/** How much of a run's output its row holds. */
const ROW_BYTES = 64 * 1024;
const HALF_ROW_BYTES = ROW_BYTES / 2;

/** Reads what the row keeps of a run's output; the rest goes to one compressed file beside it. Both masked. */
export async function keepOutput(output: WrittenOutput): Promise<CountedOutput> {
  const { droppedBytes } = output;
  const { size } = fstatSync(output.fd);
  const bytes = size + droppedBytes;
  if (bytes <= ROW_BYTES) {
    return { text: readText(output, 0, size), bytes, droppedBytes, file: null, fileBytes: null };
  }
  const text = readEnds(output, size, bytes);
  return { text, bytes, ...(await keepFile(output, size)) };
}

type KeptFile = Pick<CountedOutput, 'droppedBytes' | 'file' | 'fileBytes'>;

/** On a full disk only the row's part is kept: a run's end is recorded all the same. */
async function keepFile(output: WrittenOutput, size: number): Promise<KeptFile> {
  const { droppedBytes } = output;
  const file = `${output.path}.gz`;
  try {
    // Most runs write little: they load no streams and no zlib.
    await (await import('./compress-output.ts')).compressOutput(output, size, file);
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

/** A script can cut the file itself: `> /dev/stderr` does, as it does to any file. */
function readEnds(output: WrittenOutput, size: number, bytes: number): string {
  const head = readText(output, 0, Math.min(size, HALF_ROW_BYTES), { end: true });
  const tailBytes = Math.min(size - Math.min(size, HALF_ROW_BYTES), HALF_ROW_BYTES);
  const tail = readText(output, size - tailBytes, tailBytes, { start: true });
  return head + omission(bytes - Math.min(size, ROW_BYTES)) + tail;
}

/** Text that SQLite's own shell can show: no NUL, no broken UTF-8, and no secrets. */
function readText(
  { fd, masker }: WrittenOutput,
  position: number,
  length: number,
  cut?: Cut,
): string {
  const buffer = Buffer.alloc(length);
  const read = readSync(fd, buffer, 0, length, position);
  const masked = masker.bytes(buffer.subarray(0, read), cut);
  return masked.toString('utf8').replaceAll('\0', '\uFFFD');
}

const HEAD_BYTES = 8 * 1024;

/** The beginning of an output file. */
export function readHead(fd: number): string {
  const head = Buffer.alloc(HEAD_BYTES);
  return head.toString('latin1', 0, readSync(fd, head, 0, HEAD_BYTES, 0));
}
