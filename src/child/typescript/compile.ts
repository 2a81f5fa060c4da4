import { stripTypeScriptTypes } from 'node:module';
import { withoutSourceLine } from '../source-line.ts';
import type { Compiled, ModuleFormat } from './cache.ts';

/** The code of the error when the compiler is gone. */
export const PACKAGE_REPLACED = 'RUNNER_PACKAGE_REPLACED';

/** Compiles TypeScript to JavaScript whose stacks show the lines and columns of the source. */
export function compileTypeScript(path: string, source: string): Compiled {
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
export function detectModuleFormat(path: string, code: string): ModuleFormat {
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
