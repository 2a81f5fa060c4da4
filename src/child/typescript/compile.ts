import { stripTypeScriptTypes } from 'node:module';
import { withoutSourceLine } from '../source-line.ts';
import type { Compiled, ModuleFormat } from './cache.ts';

/** The code of the error where what compiles is gone. */
export const PACKAGE_REPLACED = 'RUNNER_PACKAGE_REPLACED';

/** Makes JavaScript of TypeScript, with the lines and columns of the source in every stack. */
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

/** Enums, namespaces and parameter properties need more than stripping, and a library for that. */
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

/** What the code is decides, as Node itself does where no package.json says anything. */
export function detectModuleFormat(path: string, code: string): ModuleFormat {
  if (/\.m[jt]s$/i.test(path)) return 'module';
  if (/\.c[jt]s$/i.test(path)) return 'commonjs';
  // Loaded for this alone: from the second run on a script does without it.
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

/** The compilers know neither the file nor that their own frames help nobody: `:3`, a line, a caret. */
function nameFile(error: unknown, path: string): Error {
  const [excerpt = ''] = String((error as Error).stack ?? error).split('\n    at ');
  const line = /^:(\d+)$/m.exec(excerpt)?.[1];
  const named = new SyntaxError(`${String((error as Error).message ?? error)} (${path}:${line})`);
  // Without a frame Node would show it in brackets.
  named.stack = `${path}${excerpt}\n    at ${path}:${line}`;
  return named;
}
