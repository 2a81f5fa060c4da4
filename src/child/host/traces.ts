import { syncBuiltinESMExports } from 'node:module';
import timers from 'node:timers';
import type { Trace } from '../contract.ts';

/** Kept from before any job: the check must hold even if a job has replaced them. */
const { ownKeys, getOwnPropertyDescriptor, getPrototypeOf } = Reflect;

type Named = Record<PropertyKey, unknown>;

/** An object of the language or of Node that all code of a process shares, with its functions. */
interface Shared {
  readonly name: string;
  readonly object: Named;
  readonly keys: readonly PropertyKey[];
  readonly functions: readonly unknown[];
}

/** A property of the global object that Node computes at its first use: `WebSocket`, `crypto`. */
interface Lazy {
  readonly key: PropertyKey;
  readonly get: () => unknown;
}

/** The global object or a prototype; faulty code or foreign data may add properties to it. */
interface Open {
  readonly name: string;
  readonly object: object;
  readonly keys: ReadonlySet<PropertyKey>;
  readonly visible: number;
}

/**
 * The built-in functions of a process. It finds out whether a job has replaced one, or added a property that others
 * see. It compares functions only, about 1,000 in 20 µs; listing the names of each object as well would take ten times
 * as long.
 */
export class BuiltIns {
  readonly #shared: readonly Shared[];
  readonly #lazy: readonly Lazy[];
  readonly #open: readonly Open[];

  constructor() {
    const objects = findSharedObjects();
    this.#shared = objects.map(takeFunctions);
    this.#lazy = ownKeys(globalThis).flatMap((key) => {
      const get = getOwnPropertyDescriptor(globalThis, key)?.get;
      return get === undefined ? [] : [{ key, get }];
    });
    this.#open = objects.filter(isOpen).map(({ name, object }) => {
      return { name, object, keys: new Set(ownKeys(object)), visible: countVisible(object) };
    });
  }

  /** The name of the changed property, such as `JSON.parse`; null: none. */
  findChange(): string | null {
    return this.#findReplaced() ?? this.#findReplacedLazy() ?? this.#findAdded();
  }

  #findReplaced(): string | null {
    for (let index = 0; index < this.#shared.length; index += 1) {
      const { name, object, keys, functions } = this.#shared[index] as Shared;
      for (let at = 0; at < keys.length; at += 1) {
        const key = keys[at] as PropertyKey;
        if (object[key] !== functions[at]) return nameOf(name, key);
      }
    }
    return null;
  }

  /** Node itself replaces the accessor by its value at the first use. */
  #findReplacedLazy(): string | null {
    for (let index = 0; index < this.#lazy.length; index += 1) {
      const { key, get } = this.#lazy[index] as Lazy;
      const now = getOwnPropertyDescriptor(globalThis, key);
      const isSame = now?.get === get || (now !== undefined && 'value' in now && now.value === get.call(globalThis));
      if (!isSame) return nameOf('globalThis', key);
    }
    return null;
  }

  #findAdded(): string | null {
    for (let index = 0; index < this.#open.length; index += 1) {
      const { name, object, keys, visible } = this.#open[index] as Open;
      // The prototype of all objects deserves a longer look, which also finds properties that no loop sees.
      const isSame =
        object === Object.prototype ? ownKeys(object).length === keys.size : countVisible(object) === visible;
      if (!isSame) return nameOf(name, ownKeys(object).find((key) => !keys.has(key)) ?? '');
    }
    return null;
  }
}

/** The global object, the objects in it and their prototypes, `process`, and the loaded modules of Node. */
function findSharedObjects(): { readonly name: string; readonly object: object }[] {
  // The prototype of all others comes first, because its properties are seen in each of them.
  const found = new Map<object, string>([
    [Object.prototype, 'Object.prototype'],
    [globalThis, 'globalThis'],
  ]);
  const add = (name: string, object: unknown): void => {
    if (isObject(object) && !found.has(object)) found.set(object, name);
  };
  for (const key of ownKeys(globalThis)) {
    // Reading an accessor would load the value behind it.
    const value: unknown = getOwnPropertyDescriptor(globalThis, key)?.value;
    if (!isObject(value)) continue;
    add(String(key), value);
    const prototype: unknown = getOwnPropertyDescriptor(value, 'prototype')?.value;
    if (!isObject(prototype)) continue;
    add(`${String(key)}.prototype`, prototype);
    // For example the prototype of all typed arrays.
    add(`the prototype of ${String(key)}.prototype`, getPrototypeOf(prototype));
  }
  add('process', process);
  for (const name of listLoadedModules()) add(name, process.getBuiltinModule(name));
  return Array.from(found, ([object, name]) => ({ name, object }));
}

const NATIVE = 'NativeModule ';

/** The public modules of Node that this process has loaded. */
function listLoadedModules(): string[] {
  const { moduleLoadList } = process as unknown as { readonly moduleLoadList: readonly string[] };
  const names = moduleLoadList.filter((each) => each.startsWith(NATIVE)).map((each) => each.slice(NATIVE.length));
  return names.filter((name) => !name.startsWith('internal/') && !name.startsWith('_'));
}

function takeFunctions({ name, object }: { readonly name: string; readonly object: object }): Shared {
  const keys = ownKeys(object).filter((key) => {
    const property = getOwnPropertyDescriptor(object, key);
    return typeof property?.value === 'function' && (property.writable || property.configurable);
  });
  return { name, object: object as Named, keys, functions: keys.map((key) => (object as Named)[key]) };
}

/**
 * Whether properties are added to an object by mistake or by foreign data: true for the global object and all
 * prototypes.
 */
function isOpen({ object }: { readonly object: object }): boolean {
  return object === globalThis || getOwnPropertyDescriptor(object, 'constructor') !== undefined;
}

/** How many properties a loop over this object sees, including those of its prototypes. */
function countVisible(object: object): number {
  let count = 0;
  for (const _ in object) count += 1;
  return count;
}

function isObject(value: unknown): value is object {
  return (typeof value === 'object' && value !== null) || typeof value === 'function';
}

const LONGEST_NAME = 60;

/** Hides a key that is no plain name: it may be a customer's data. */
function nameOf(object: string, key: PropertyKey): string {
  const text = typeof key === 'symbol' ? `[${String(key)}]` : String(key);
  if (/^[\w$]+$/.test(text) && text.length <= LONGEST_NAME) return `${object}.${text}`;
  return `a property of ${object}`;
}

/**
 * The intervals that jobs start. An interval that its job has neither cleared nor unreferenced runs on in later jobs.
 */
class Intervals {
  #started: NodeJS.Timeout[] = [];

  /** @param isInJob whether the caller is a job */
  constructor(isInJob: () => boolean) {
    const start = timers.setInterval;
    const startNoted = (...args: Parameters<typeof start>): NodeJS.Timeout => {
      const timer = start(...args);
      if (isInJob()) this.#started.push(timer);
      return timer;
    };
    globalThis.setInterval = timers.setInterval = startNoted as typeof start;
    // For modules that import it by its name.
    syncBuiltinESMExports();
  }

  /** Whether any interval started since the last call is still running. */
  takeRunning(): boolean {
    if (this.#started.length === 0) return false;
    const started = this.#started;
    this.#started = [];
    return started.some(isRunning);
  }
}

function isRunning(timer: NodeJS.Timeout): boolean {
  return timer.hasRef() && !(timer as unknown as { readonly _destroyed: boolean })._destroyed;
}

/** Changes by jobs to their process that cannot be undone, so that another process has to serve the next job. */
export class Traces {
  readonly #intervals: Intervals;
  /** Null: no handler was imported, so none was called. */
  #builtIns: BuiltIns | null = null;

  constructor(isInJob: () => boolean) {
    this.#intervals = new Intervals(isInJob);
  }

  /** Accepts what a module has changed on import: it applies to all its jobs. */
  accept(): void {
    this.#builtIns = new BuiltIns();
  }

  /** The trace that the last job has left; undefined: none. */
  find(): Trace | undefined {
    const isLeft = this.#intervals.takeRunning();
    const changed = this.#builtIns?.findChange() ?? null;
    if (changed !== null) return { kind: 'changed', what: changed };
    return isLeft ? { kind: 'running', what: 'setInterval' } : undefined;
  }
}
