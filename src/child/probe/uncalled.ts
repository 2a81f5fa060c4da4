import { readFileSync } from 'node:fs';

/**
 * What a script exports for somebody to call, though nobody does: neither the runner, which calls a default function
 * alone, nor the file itself. In doubt it is called.
 *
 * @param exported the module, without a default function
 * @returns `it exports run(), which nothing calls`; null: nothing of the kind
 */
export function describeUncalled(exported: unknown, path: string): string | null {
  try {
    const callable = listCallable(exported);
    if (callable.length === 0) return null;
    const code = readCode(path);
    return callable.find(({ name }) => !isUsed(code, name))?.sentence ?? null;
  } catch {
    // Anything can be exported, and may throw when it is looked at.
    return null;
  }
}

interface Callable {
  /** By which it is exported. */
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

/** Functions of an object and of its own class; none of what is built in, such as a promise. */
function methodsOf(value: unknown): Record<string, unknown> {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return {};
  const prototype: unknown = Object.getPrototypeOf(value);
  const isOfClass = typeof prototype === 'object' && prototype !== null && isClass(prototype.constructor);
  const names = [...Object.keys(value), ...(isOfClass ? Object.getOwnPropertyNames(prototype) : [])];
  const methods = names.filter((name) => name !== 'constructor' && typeof readPlainly(value, name) === 'function');
  return Object.fromEntries(methods.map((name) => [name, readPlainly(value, name)]));
}

/** Not what a getter gives: it may do anything. */
function readPlainly(value: object, name: string): unknown {
  const found = Object.getOwnPropertyDescriptor(value, name);
  return (found ?? Object.getOwnPropertyDescriptor(Object.getPrototypeOf(value), name))?.value;
}

function isClass(value: unknown): boolean {
  return typeof value === 'function' && Function.prototype.toString.call(value).startsWith('class');
}

/** The file without comments and texts. */
function readCode(path: string): string {
  const source = readFileSync(path, 'utf8');
  return source.replace(/\/\*[\s\S]*?\*\/|\/\/.*|'(?:\\.|[^'\\\n])*'|"(?:\\.|[^"\\\n])*"|`[^`$]*`/g, ' ');
}

/** Where a name is exported or declared it is not used. */
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

/** Of `export { job as run }`, the name by which its file knows it. */
function localName(code: string, name: string): string {
  const word = name.replace(/\$/g, '\\$');
  return new RegExp(`([\\w$]+)\\s+as\\s+${word}(?![\\w$])`).exec(code)?.[1] ?? name;
}
