import { createWriteStream, readSync } from 'node:fs';
import { pipeline } from 'node:stream/promises';
import { createGzip } from 'node:zlib';
import { headBytes, omission, type WrittenOutput } from '../watch/output-guard.ts';

const PIECE_BYTES = 256 * 1024;

/** Compresses the first `size` bytes of an output file, masked, with a line where bytes were dropped. */
export async function compressOutput(
  output: WrittenOutput,
  size: number,
  path: string,
): Promise<void> {
  await pipeline(readWithGap(output, size), createGzip(), createWriteStream(path, { mode: 0o600 }));
}

async function* readWithGap(output: WrittenOutput, size: number) {
  const { fd, droppedBytes, maxBytes, masker } = output;
  const isCut = droppedBytes > 0;
  const head = isCut ? Math.min(size, headBytes(maxBytes)) : size;
  if (head > 0) yield* masker.stream(readPieces(fd, 0, head), { end: isCut });
  if (isCut) yield Buffer.from(omission(droppedBytes));
  if (size > head) yield* masker.stream(readPieces(fd, head, size), { start: true });
}

/** No stream: that closes the file when it is left early, as on a full disk, `autoClose` or not. */
function* readPieces(fd: number, start: number, end: number): Generator<Buffer> {
  for (let position = start; position < end; ) {
    const piece = Buffer.alloc(Math.min(PIECE_BYTES, end - position));
    const length = readSync(fd, piece, 0, piece.length, position);
    if (length === 0) return;
    yield piece.subarray(0, length);
    position += length;
  }
}
