import { statSync } from 'node:fs';
import { dirname, relative, resolve } from 'node:path';
import { hashSmall, readScriptFile } from './script-file.ts';

/** What stands in a Node script for a file of its own: `import … from './lib.ts'`, `require('../lib')`. */
const importPattern = /\b(?:from|import|require)\b\s{0,9}\(?\s{0,9}(['"])(\.{1,2}\/[^'"\n]+)\1/g;

const suffixes = ['', '.ts', '.mts', '.cts', '.js', '.mjs', '.cjs', '.json', '/index.ts', '/index.js'];

/** More than any script has, and no more than a pass can read in a moment. */
const MOST_FILES = 200;

interface Content {
  readonly mark: string;
  readonly hash: string | null;
  /** Paths of what it imports. */
  readonly imports: readonly string[];
}

/** Scripts share what they import: each file is read once, and again when it has changed. */
const known = new Map<string, Content>();

/**
 * The hash of a Node script with all that it imports by relative paths, these files' imports included, as far as it lies
 * in the root. Packages are left out.
 *
 * @returns the script's own hash where it imports nothing
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

/** As TypeScript has it, `./lib.js` may be `./lib.ts`. */
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
