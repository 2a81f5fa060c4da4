import { readFileSync } from 'node:fs';
import { isClass } from '../call-handler.ts';

/**
 * Finds an export that looks made to be called but is not: the runner calls a default function only, and the file
 * itself does not call it. In doubt, an export counts as called.
 *
 * @param exported the module, without a default function
 * @returns `it exports run(), which nothing calls`; null: no such export
 */
export function describeUncalled(exported: unknown, path: string): string | null {
  try {
    const callable = listCallable(exported);
    if (callable.length === 0) return null;
    const code = readCode(path);
    return callable.find(({ name }) => !isUsed(code, name))?.sentence ?? null;
  } catch {
    // An export may be anything, and may throw when it is read.
    return null;
  }
}

interface Callable {
  /** The name under which it is exported. */
  readonly name: string;
  readonly sentence: string;
}

function listCallable(exported: unknown): readonly Callable[] {
  if (typeof exported === 'function') return [{ name: DEFAULT, sentence: describeDefault(exported) as string }];
  if (typeof exported !== 'object' || exported === null) return [];
  const { default: inner, ...named } = { ...methodsOf(exported), ...exported } as Record<string, unknown>;
  const ofDefault = inner === exported ? null : describeDefault(inner);
  return [
    ...(ofDefault === null ? [] : [{ name: DEFAULT, sentence: ofDefault }]),
    ...Object.entries(named).flatMap(([name, value]) => {
      const what = describeExport(name, value);
      return what === null ? [] : [{ name, sentence: `it exports ${what}, which nothing calls` }];
    }),
  ];
}

const DEFAULT = 'default';

function describeDefault(value: unknown): string | null {
  if (typeof value === 'function') return 'its default export is a class, which nothing calls';
  const [method] = Object.keys(methodsOf(value));
  return method === undefined ? null : `its default export is an object with ${method}(), which nothing calls`;
}

function describeExport(name: string, value: unknown): string | null {
  if (typeof value === 'function') return isClass(value) ? `the class ${name}` : `${name}()`;
  const [method] = Object.keys(methodsOf(value));
  return method === undefined ? null : `${name}, an object with ${method}()`;
}

/** Functions of an object and of its own class; built-in ones, such as a promise's, are left out. */
function methodsOf(value: unknown): Record<string, unknown> {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return {};
  const prototype: unknown = Object.getPrototypeOf(value);
  const isOfClass = typeof prototype === 'object' && prototype !== null && isClass(prototype.constructor);
  const names = [...Object.keys(value), ...(isOfClass ? Object.getOwnPropertyNames(prototype) : [])];
  const methods = names.filter((name) => name !== 'constructor' && typeof readPlainly(value, name) === 'function');
  return Object.fromEntries(methods.map((name) => [name, readPlainly(value, name)]));
}

/** Does not call a getter, which may do anything. */
function readPlainly(value: object, name: string): unknown {
  const found = Object.getOwnPropertyDescriptor(value, name);
  return (found ?? Object.getOwnPropertyDescriptor(Object.getPrototypeOf(value), name))?.value;
}

/** The file without comments and string literals. */
function readCode(path: string): string {
  const source = readFileSync(path, 'utf8');
  return source.replace(/\/\*[\s\S]*?\*\/|\/\/.*|'(?:\\.|[^'\\\n])*'|"(?:\\.|[^"\\\n])*"|`[^`$]*`/g, ' ');
}

/** An export or a declaration of a name does not count as a use. */
function isUsed(code: string, name: string): boolean {
  const local = name === DEFAULT ? /\bexport\s+default\s+([\w$]+)\s*(?:;|$)/m.exec(code)?.[1] : localName(code, name);
  const own = local ?? /\bmodule\.exports\s*=\s*([\w$]+)\s*(?:;|$)/m.exec(code)?.[1];
  if (own === undefined) return false;
  const word = own.replace(/\$/g, '\\$');
  const rest = code
    .replace(
      /\bexport\s*\{[^}]*\}|\bexport\s+default\s+[\w$]+|\bexports(?:\.[\w$]+)?\s*=\s*(?:\{[^}]*\}?|[\w$]*)/g,
      ' ',
    )
    .replace(new RegExp(`\\b(?:function\\s*\\*?|class|const|let|var)\\s+${word}(?![\\w$])`, 'g'), ' ')
    // A method.
    .replace(new RegExp(`(?<![\\w$.])${word}\\s*\\([^()]*\\)\\s*(?::[^{;=]*)?\\{`, 'g'), ' ');
  return new RegExp(`(?<![\\w$])${word}(?![\\w$])`).test(rest);
}

/** The name that the file itself uses: `job` for `run` in `export { job as run }`. */
function localName(code: string, name: string): string {
  const word = name.replace(/\$/g, '\\$');
  return new RegExp(`([\\w$]+)\\s+as\\s+${word}(?![\\w$])`).exec(code)?.[1] ?? name;
}
