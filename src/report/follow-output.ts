import { closeSync, fstatSync, openSync, readSync } from 'node:fs';
import { StringDecoder } from 'node:string_decoder';
import { setTimeout as wait } from 'node:timers/promises';

export interface LiveOutput {
  /** The file that the run writes to; it goes away when the run has ended. */
  readonly path: string;
  /** Whether the run still goes on. */
  readonly isRunning: () => Promise<boolean>;
  readonly signal: AbortSignal;
  readonly pollMs: number;
}

const CHUNK_BYTES = 64 * 1024;

/**
 * What a running run writes, from its beginning, until it ends or the signal is given. Null at once
 * when there is no such file: then the run has ended, or not begun to write.
 */
export function openLiveOutput(live: LiveOutput): AsyncGenerator<string> | null {
  const fd = openIfThere(live.path);
  return fd === null ? null : follow(fd, live);
}

/** Once open, the file can be read to its end even after it was removed. */
async function* follow(fd: number, live: LiveOutput): AsyncGenerator<string> {
  const reader = new GrowingFile(fd);
  try {
    while (!live.signal.aborted) {
      // Asked before reading: what is written between the two would be missed the other way round.
      const isRunning = await live.isRunning();
      yield* reader.readNew();
      if (!isRunning) return;
      await pause(live);
    }
  } finally {
    closeSync(fd);
  }
}

/** What is in the file now, and nothing that comes later. */
export function* readSoFar(path: string): Generator<string> {
  const fd = openIfThere(path);
  if (fd === null) return;
  try {
    yield* new GrowingFile(fd).readNew();
  } finally {
    closeSync(fd);
  }
}

/** Remembers how far a file was read, and half a character at the end of what was read. */
class GrowingFile {
  readonly #fd: number;
  readonly #decoder = new StringDecoder('utf8');
  readonly #chunk = Buffer.alloc(CHUNK_BYTES);
  #position = 0;

  constructor(fd: number) {
    this.#fd = fd;
  }

  *readNew(): Generator<string> {
    const { size } = fstatSync(this.#fd);
    if (size < this.#position) {
      // The runner cut the middle out of a file that grew too long.
      this.#position = size;
      yield '\n[… output left out …]\n';
    }
    while (this.#position < size) {
      const length = Math.min(CHUNK_BYTES, size - this.#position);
      const read = readSync(this.#fd, this.#chunk, 0, length, this.#position);
      if (read === 0) return;
      this.#position += read;
      yield this.#decoder.write(this.#chunk.subarray(0, read));
    }
  }
}

/** Waits for the next look; an abort ends the wait at once. */
async function pause({ pollMs, signal }: LiveOutput): Promise<void> {
  await wait(pollMs, undefined, { signal }).catch(() => undefined);
}

function openIfThere(path: string): number | null {
  try {
    return openSync(path, 'r');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null;
    throw error;
  }
}
