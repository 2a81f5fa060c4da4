import { readFileSync } from 'node:fs';
import { type LoadHookContext, type LoadHookSync, type ResolveHookSync, registerHooks } from 'node:module';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { withoutSourceLine } from '../source-line.ts';
import { compileCached } from './cache.ts';
import { compileTypeScript, detectModuleFormat } from './compile.ts';

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
