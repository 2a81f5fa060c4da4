import { readSync } from 'node:fs';

/** One line of a file. */
export interface Line {
  /** Null: it is longer than any line may be. */
  readonly text: string | null;
  /** False: the file ends in the middle of it. */
  readonly isWhole: boolean;
}

const CHUNK_BYTES = 64 * 1024;
const LINE_FEED = 0x0a;

/** A file's lines, each read when it is asked for; of what is too long, nothing is kept in memory. */
export function* readLines(fd: number, maxLineBytes: number): Generator<Line> {
  let begun: Buffer[] = [];
  let bytes = 0;
  const keep = (piece: Buffer): void => {
    bytes += piece.length;
    if (bytes <= maxLineBytes) begun.push(piece);
    else begun = [];
  };
  const end = (isWhole: boolean): Line => {
    const text = bytes <= maxLineBytes ? Buffer.concat(begun).toString('utf8') : null;
    begun = [];
    bytes = 0;
    return { text, isWhole };
  };
  for (const chunk of readChunks(fd)) {
    let start = 0;
    for (let at = chunk.indexOf(LINE_FEED); at !== -1; at = chunk.indexOf(LINE_FEED, start)) {
      keep(chunk.subarray(start, at));
      yield end(true);
      start = at + 1;
    }
    if (start < chunk.length) keep(chunk.subarray(start));
  }
  if (bytes > 0) yield end(false);
}

function* readChunks(fd: number): Generator<Buffer> {
  for (;;) {
    const chunk = Buffer.alloc(CHUNK_BYTES);
    const length = readSync(fd, chunk);
    if (length === 0) return;
    yield chunk.subarray(0, length);
  }
}
