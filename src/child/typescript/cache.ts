import { lstatSync, mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

export type ModuleFormat = 'module' | 'commonjs';

/** JavaScript made from one TypeScript file. */
export interface Compiled {
  readonly format: ModuleFormat;
  readonly code: string;
}

/**
 * Caches compiled code, so that each content of a file is compiled once. An entry contains the source that it was made
 * from and is used for exactly that source. The comparison costs nothing; loading `node:crypto` for a hash would cost a
 * script 5 ms at each start.
 */
export function compileCached(folder: string, path: string, source: string, compile: () => Compiled): Compiled {
  const file = join(folder, `${fileKey(path)}.js`);
  const kept = readEntry(file, source);
  if (kept !== null) return kept;
  const compiled = compile();
  writeEntry(folder, file, source, compiled);
  return compiled;
}

/** Two paths with one key take turns in one entry: slower, never wrong. The hash is FNV-1a, 32 bits. */
function fileKey(path: string): string {
  let hash = 0x811c9dc5;
  for (let index = 0; index < path.length; index += 1) {
    hash = Math.imul(hash ^ path.charCodeAt(index), 0x01000193);
  }
  return (hash >>> 0).toString(16).padStart(8, '0');
}

function readEntry(file: string, source: string): Compiled | null {
  try {
    // Opening a named pipe would wait for its other end.
    if (!lstatSync(file).isFile()) return null;
    const entry = readFileSync(file, 'utf8');
    const start = `${header('module')}${source}\n`;
    if (entry.startsWith(start)) return { format: 'module', code: entry.slice(start.length) };
    const other = `${header('commonjs')}${source}\n`;
    if (entry.startsWith(other)) return { format: 'commonjs', code: entry.slice(other.length) };
    return null;
  } catch {
    return null;
  }
}

/** Without a writable cache the script still runs, compiled anew each time. */
function writeEntry(folder: string, file: string, source: string, compiled: Compiled): void {
  try {
    makeFolder(folder);
    const temporary = `${file}.${process.pid}`;
    const entry = `${header(compiled.format)}${source}\n${compiled.code}`;
    writeFileSync(temporary, entry, { mode: 0o600, flag: 'wx' });
    renameSync(temporary, file);
  } catch {}
}

/** Makes the cache's own folder only: if its parent is gone, the state folder may be somewhere else by now. */
function makeFolder(path: string): void {
  try {
    mkdirSync(path, { mode: 0o700 });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
  }
}

/** The header names the version: another Node may strip types differently. */
function header(format: ModuleFormat): string {
  return `${process.version} ${format}\n`;
}
