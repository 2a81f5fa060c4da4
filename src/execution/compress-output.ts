import { createReadStream, createWriteStream } from 'node:fs';
import { pipeline } from 'node:stream/promises';
import { createGzip } from 'node:zlib';
import { headBytes } from './output-guard.ts';
import { omission, type WrittenOutput } from './written-output.ts';

/** Compresses the first `size` bytes of an output file, with a line where bytes were dropped. */
export async function compressOutput(
  output: WrittenOutput,
  size: number,
  path: string,
): Promise<void> {
  await pipeline(readWithGap(output, size), createGzip(), createWriteStream(path, { mode: 0o600 }));
}

async function* readWithGap({ fd, droppedBytes, maxBytes }: WrittenOutput, size: number) {
  const read = (start: number, end: number) =>
    createReadStream('', { fd, start, end: end - 1, autoClose: false });
  const head = droppedBytes === 0 ? size : Math.min(size, headBytes(maxBytes));
  if (head > 0) yield* read(0, head);
  if (droppedBytes > 0) yield Buffer.from(omission(droppedBytes));
  if (size > head) yield* read(head, size);
}
