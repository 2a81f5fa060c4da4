import { closeSync, constants, fstatSync, openSync, readFileSync, readSync, statSync } from 'node:fs';
import { dirname, relative, resolve } from 'node:path';
import { sha256 } from '@noble/hashes/sha2.js';

/** The facts about a file that the runner knows without running it. */
export interface ScriptFile {
  /** The first 64 KB at most. */
  readonly head: Buffer;
  /** Whether `head` is the whole file. */
  readonly isWhole: boolean;
  /** SHA-256 of the whole file, in hex; null: it is too large to be read by each pass. */
  readonly contentHash: string | null;
  readonly isExecutable: boolean;
}

type FileKind = 'folder' | 'special';

const headBytes = 64 * 1024;
const wholeBytes = 1024 * 1024;
const mostHashedBytes = 64 * 1024 * 1024;

/**
 * Reads a file, or says what else it is. Without `O_NONBLOCK` a named pipe would block the pass for ever.
 *
 * @throws the error of the file system: no such file, no permission …
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

/** Hashes in JavaScript: loading `node:crypto` would take 5 ms and 3.5 MB, more than hashing a tier. */
function hashSmall(content: Buffer): string {
  return Buffer.from(sha256(content)).toString('hex');
}

/** A large program must not be held in memory: it would slow down each start of a process. */
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

/** The text by which a Node script imports one of its own files: `import … from './lib.ts'`, `require('../lib')`. */
const importPattern = /\b(?:from|import|require)\b\s{0,9}\(?\s{0,9}(['"])(\.{1,2}\/[^'"\n]+)\1/g;

const suffixes = ['', '.ts', '.mts', '.cts', '.js', '.mjs', '.cjs', '.json', '/index.ts', '/index.js'];

/** More than any script has, and few enough for a pass to read in a moment. */
const MOST_FILES = 200;

interface Content {
  readonly mark: string;
  readonly hash: string | null;
  /** Paths of the files that it imports. */
  readonly imports: readonly string[];
}

/** Scripts share imports: each file is read once, and again after it has changed. */
const known = new Map<string, Content>();

/**
 * The hash of a Node script with all files that it imports by relative paths, including their imports, within the root.
 * Packages are left out.
 *
 * @returns the script's own hash if it imports nothing
 */
export function hashWithImports(root: string, path: string, contentHash: string | null, source: string): string | null {
  const waiting = [...findImports(path, source)];
  if (contentHash === null || waiting.length === 0) return contentHash;
  const found = new Map<string, string>();
  for (let file = waiting.pop(); file !== undefined && found.size < MOST_FILES; file = waiting.pop()) {
    if (found.has(file) || file === path || !file.startsWith(`${root}/`)) continue;
    const content = readContent(file);
    found.set(file, content?.hash ?? '');
    waiting.push(...(content?.imports ?? []));
  }
  const lines = [...found].map(([file, hash]) => `${hash} ${relative(root, file)}`).sort();
  return hashSmall(Buffer.from([contentHash, ...lines].join('\n')));
}

function findImports(path: string, source: string): string[] {
  if (!source.includes('./')) return [];
  return [...source.matchAll(importPattern)].flatMap(([, , name = '']) => findFile(resolve(dirname(path), name)));
}

/** As in TypeScript, `./lib.js` may be `./lib.ts`. */
function findFile(path: string): string[] {
  const candidates = [...suffixes.map((suffix) => path + suffix), path.replace(/\.([cm]?)js$/, '.$1ts')];
  const file = candidates.find((each) => statSync(each, { throwIfNoEntry: false })?.isFile());
  return file === undefined ? [] : [file];
}

/** Null: it cannot be read. */
function readContent(path: string): Content | null {
  const before = known.get(path);
  try {
    const { mtimeMs, size, ino } = statSync(path);
    const mark = `${mtimeMs} ${size} ${ino}`;
    if (before?.mark === mark) return before;
    const file = readScriptFile(path);
    if (typeof file === 'string') return null;
    const content = { mark, hash: file.contentHash, imports: findImports(path, file.head.toString('utf8')) };
    known.set(path, content);
    return content;
  } catch {
    return null;
  }
}
