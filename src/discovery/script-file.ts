import { closeSync, constants, fstatSync, openSync, readFileSync, readSync, statSync } from 'node:fs';
import { sha256 } from '@noble/hashes/sha2.js';

/** What the runner knows of a file without running it. */
export interface ScriptFile {
  /** The first 64 KB, at most. */
  readonly head: Buffer;
  /** Whether that is all of it. */
  readonly isWhole: boolean;
  /** SHA-256 of the whole file, hex; null: it is too large to be read by each pass. */
  readonly contentHash: string | null;
  readonly isExecutable: boolean;
}

type FileKind = 'folder' | 'special';

const headBytes = 64 * 1024;
const wholeBytes = 1024 * 1024;
const mostHashedBytes = 64 * 1024 * 1024;

/**
 * Reads a file, or says what else it is. Without `O_NONBLOCK` a named pipe would stop the pass for ever.
 *
 * @throws what the file system says: no such file, no permission …
 */
export function readScriptFile(path: string): ScriptFile | FileKind {
  const file = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
  try {
    const stats = fstatSync(file);
    if (stats.isDirectory()) return 'folder';
    if (!stats.isFile()) return 'special';
    const content = stats.size <= wholeBytes ? readWhole(file) : readInPieces(file, stats.size <= mostHashedBytes);
    return { ...content, isExecutable: hasExecuteBit(stats) };
  } finally {
    closeSync(file);
  }
}

export function isExecutableFile(path: string): boolean {
  const stats = statSync(path, { throwIfNoEntry: false });
  return stats?.isFile() === true && hasExecuteBit(stats);
}

function hasExecuteBit({ mode }: { readonly mode: number }): boolean {
  return (mode & 0o111) !== 0;
}

function readWhole(file: number) {
  const content = readFileSync(file);
  const head = content.subarray(0, headBytes);
  return { head, isWhole: head.length === content.length, contentHash: hashSmall(content) };
}

/** In JavaScript: loading `node:crypto` would take 5 ms and 3.5 MB, more than hashing a tier. */
export function hashSmall(content: Buffer): string {
  return Buffer.from(sha256(content)).toString('hex');
}

/** A large program must not be held in memory: spawning would slow down with it. */
function readInPieces(file: number, isHashed: boolean) {
  const head = Buffer.alloc(headBytes);
  const length = readSync(file, head, 0, headBytes, 0);
  const contentHash = isHashed ? hashInPieces(file) : null;
  return { head: head.subarray(0, length), isWhole: false, contentHash };
}

function hashInPieces(file: number): string {
  const sum = process.getBuiltinModule('node:crypto').createHash('sha256');
  const piece = Buffer.alloc(wholeBytes);
  for (let size = readSync(file, piece); size > 0; size = readSync(file, piece)) sum.update(piece.subarray(0, size));
  return sum.digest('hex');
}
