import { lstatSync, mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import {
  type LoadHookContext,
  type LoadHookSync,
  type ResolveHookSync,
  registerHooks,
  stripTypeScriptTypes,
} from 'node:module';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { withoutSourceLine } from '../record-end.ts';

/**
 * Lets scripts be TypeScript of any kind, on any Node: each content is compiled once, and imports work with or without
 * an extension. All other files are loaded as usual.
 */
export function installTypeScript(cacheFolder: string): void {
  const folder = join(cacheFolder, 'typescript');
  const load: LoadHookSync = (url, context, nextLoad) => {
    if (!isTypeScript(url) && !isOddlyWritten(url)) return nextLoad(url, context);
    const path = fileURLToPath(url);
    const source = readFileSync(path, 'utf8');
    const { format, code } = compileCached(folder, path, source, () =>
      isTypeScript(url) ? compileTypeScript(path, source) : { format: detectModuleFormat(path, source), code: source },
    );
    if (code.includes('\n//# sourceMappingURL=data:')) process.setSourceMapsEnabled(true);
    return { format: isModule(context) ? 'module' : format, source: code, shortCircuit: true };
  };
  registerHooks({ resolve, load });
}

const resolve: ResolveHookSync = (specifier, context, nextResolve) => {
  try {
    return nextResolve(specifier, context);
  } catch (error) {
    for (const candidate of alternatives(specifier)) {
      try {
        return nextResolve(candidate, context);
      } catch {
        // The next candidate may exist; if none does, the first error describes it best.
      }
    }
    throw withoutInsides(error, context.parentURL);
  }
};

/** Drops the frames inside Node: they do not help a reader who misses a module. */
function withoutInsides(error: unknown, importer: string | undefined): unknown {
  if (!(error instanceof Error) || typeof error.stack !== 'string') return error;
  const isFrame = (line: string): boolean => /^ +at /.test(line);
  const isInside = (line: string): boolean => line.includes('node:internal/') || line.includes(__filename);
  const lines = error.stack.split('\n').filter((line) => !isFrame(line) || !isInside(line));
  // Without a frame Node would print the error in brackets.
  if (importer?.startsWith('file:') && !lines.some(isFrame)) lines.push(`    at ${fileURLToPath(importer)}`);
  error.stack = lines.join('\n');
  return withoutSourceLine(error);
}

/** A package.json that says "module" is followed; "commonjs" proves nothing, because `npm init` writes it. */
function isModule({ format }: LoadHookContext): boolean {
  return format?.startsWith('module') ?? false;
}

/** Packages are JavaScript; Node refuses TypeScript under node_modules, too. */
function isTypeScript(url: string): boolean {
  return /^file:.*\.[cm]?ts$/i.test(url) && !url.includes('/node_modules/');
}

/** Node knows extensions in lower case only. */
function isOddlyWritten(url: string): boolean {
  return /^file:.*\.[cm]?js$/i.test(url) && !/\.[cm]?js$/.test(url);
}

/** `./x` may be x.ts or x/index.ts; `./x.js` may be x.ts before compilation. */
function alternatives(specifier: string): string[] {
  if (!/^(\.{0,2}\/|file:)/.test(specifier)) return [];
  const written = /^(.*)\.([cm]?)js$/.exec(specifier);
  if (written !== null) return [`${written[1]}.${written[2]}ts`];
  const endings = ['.ts', '.mts', '.cts', '.js', '.mjs', '.cjs', '/index.ts', '/index.js'];
  return endings.map((ending) => specifier + ending);
}

type ModuleFormat = 'module' | 'commonjs';

/** JavaScript made from one TypeScript file. */
interface Compiled {
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

function writeEntry(folder: string, file: string, source: string, compiled: Compiled): void {
  try {
    makeFolder(folder);
    const temporary = `${file}.${process.pid}`;
    const entry = `${header(compiled.format)}${source}\n${compiled.code}`;
    writeFileSync(temporary, entry, { mode: 0o600, flag: 'wx' });
    renameSync(temporary, file);
  } catch {
    // Without a writable cache the script still runs, compiled anew each time.
  }
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

/** The code of the error when the compiler is gone. */
export const PACKAGE_REPLACED = 'RUNNER_PACKAGE_REPLACED';

/** Compiles TypeScript to JavaScript whose stacks show the lines and columns of the source. */
function compileTypeScript(path: string, source: string): Compiled {
  const code = stripOrTransform(path, source);
  return { format: detectModuleFormat(path, code), code };
}

function stripOrTransform(path: string, source: string): string {
  try {
    return withoutWarning(() => stripTypeScriptTypes(source));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ERR_UNSUPPORTED_TYPESCRIPT_SYNTAX') {
      return transform(path, source);
    }
    throw withoutSourceLine(nameFile(error, path));
  }
}

/** Enums, namespaces and parameter properties need more than stripping, and a library for it. */
function transform(path: string, source: string): string {
  const { transformTypeScript } = loadTransformer(path);
  try {
    return transformTypeScript(path, source);
  } catch (error) {
    throw withoutSourceLine(nameFile(error, path));
  }
}

function loadTransformer(path: string): typeof import('./transform.ts') {
  try {
    return require('./transform-typescript.cjs');
  } catch (cause) {
    throw Object.assign(new Error(`${path} cannot be compiled: the package was replaced`, { cause }), {
      code: PACKAGE_REPLACED,
    });
  }
}

/** The code itself decides, as in Node without a package.json. */
function detectModuleFormat(path: string, code: string): ModuleFormat {
  if (/\.m[jt]s$/i.test(path)) return 'module';
  if (/\.c[jt]s$/i.test(path)) return 'commonjs';
  // Loaded only for this: from its second run on, a script does without it.
  const { compileFunction } = process.getBuiltinModule('node:vm');
  try {
    compileFunction(code, ['exports', 'require', 'module', '__filename', '__dirname']);
    return 'commonjs';
  } catch {
    return 'module';
  }
}

/** Type stripping announces itself as experimental on stderr, which cron would mail. */
function withoutWarning<T>(run: () => T): T {
  const { emitWarning } = process;
  process.emitWarning = () => {};
  try {
    return run();
  } finally {
    process.emitWarning = emitWarning;
  }
}

/**
 * Puts the file's name into a compiler's error, whose stack begins with `:3`, a line, a caret. The compiler's own
 * frames are dropped.
 */
function nameFile(error: unknown, path: string): Error {
  const [excerpt = ''] = String((error as Error).stack ?? error).split('\n    at ');
  const line = /^:(\d+)$/m.exec(excerpt)?.[1];
  const named = new SyntaxError(`${String((error as Error).message ?? error)} (${path}:${line})`);
  // Without a frame Node would print the error in brackets.
  named.stack = `${path}${excerpt}\n    at ${path}:${line}`;
  return named;
}
