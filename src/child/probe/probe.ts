import { closeSync, readFileSync, readSync, renameSync, writeSync } from 'node:fs';
import { pathToFileURL } from 'node:url';
import { abortOnTermination, findDefault, isClass } from '../call-handler.ts';
import type { JobContext } from '../contexts.ts';
import { HOLD_FD, type Lingering, NOT_BEGUN, PROBE_VARIABLE, type ProbeOptions, SIGN_OF_LIFE_FD } from '../contract.ts';
import { openLog } from '../counts.ts';
import { noteRejection, recordEnd, writeResult } from '../record-end.ts';
import { installTypeScript } from '../typescript/hooks.ts';

/**
 * Passes on the script's exports once it has been evaluated. The script is Node's own entry point, so
 * `import.meta.main`, `require.main` and `process.argv` are as usual; this only joins it.
 */
function joinEntryPoint(scriptPath: string, use: (exported: unknown) => Promise<void>): void {
  setImmediate(() => {
    const main = process.mainModule;
    // The script threw, and a handler of its own went on. An import would run it a second time.
    if (main !== undefined) return main.loaded ? use(main.exports) : undefined;
    // This is the entry point's own module, not a second one. If it fails, Node reports the error itself.
    return import(pathToFileURL(scriptPath).href).then(use, () => {});
  });
}

function createContext({ script, facts }: ProbeOptions): JobContext {
  let signal: AbortSignal | undefined;
  return {
    script,
    args: process.argv.slice(2),
    // A script, unlike a handler, is always run for a time.
    scheduledFor: new Date(facts.scheduledFor as number),
    latenessMs: facts.latenessMs,
    attempt: facts.attempt,
    lastSuccess: facts.lastSuccess === null ? null : new Date(facts.lastSuccess),
    previouslyCrashed: facts.previouslyCrashed,
    // Only a script that reads the signal takes over the duty to end; any other dies of SIGTERM as usual.
    get signal() {
      signal ??= abortOnTermination().signal;
      return signal;
    },
    log: openLog(),
  };
}

/** The progress of a script's own code. */
interface CodeState {
  /** Why the process must not end by itself: its function has not ended. Null: it has, or there is none. */
  unsettled: string | null;
  /** Returns what keeps the process running. */
  findLingering: () => Lingering | null;
  /** An export that nothing calls; null: none. */
  uncalled: string | null;
}

/** Calls the script's default function once the script has been evaluated. */
function callDefault(options: ProbeOptions, state: CodeState): void {
  const { scriptPath, resultPath } = options;
  joinEntryPoint(scriptPath, async (exported) => {
    const run = findDefault<JobContext>(exported);
    if (run === null) {
      state.uncalled = describeUncalled(exported, scriptPath);
      state.findLingering = watchLingering(resultPath, fileEnd);
      return;
    }
    state.unsettled = "the promise of the script's default function never settled";
    const startedAt = performance.now();
    try {
      await run(createContext(options));
    } catch (thrown) {
      noteRejection(thrown);
      throw thrown;
    }
    state.unsettled = null;
    state.findLingering = watchLingering(resultPath, { isFunction: true, afterMs: performance.now() - startedAt });
  });
}

const fileEnd = { isFunction: false, afterMs: null };

/** A script without exports that runs this long may be waiting for something. */
const LASTING_MS = 100;

function noticeFileEnd({ scriptPath, resultPath }: ProbeOptions, state: CodeState): void {
  const join = async (): Promise<void> => {
    state.findLingering = watchLingering(resultPath, fileEnd);
  };
  setTimeout(() => joinEntryPoint(scriptPath, join), LASTING_MS).unref();
}

/** Most scripts have ended by this time. */
const FIRST_LOOK_MS = 20;
const LONGEST_GAP_MS = 60_000;

/**
 * Records what keeps a process running after its script's code has ended, and again when that changes: a runner that
 * ends it at its time limit can no longer ask it.
 *
 * @returns a function that gives the last record; null: none
 */
function watchLingering(resultPath: string, end: Omit<Lingering, 'resources'>): () => Lingering | null {
  let last: Lingering | null = null;
  const look = (delayMs: number): void => {
    const lingering = { ...end, resources: [...new Set(process.getActiveResourcesInfo())].slice(0, MOST_KINDS) };
    if (last?.resources.join() !== lingering.resources.join()) writeResult(resultPath, { lingering });
    last = lingering;
    lookAfter(Math.min(delayMs * 2, LONGEST_GAP_MS));
  };
  const lookAfter = (delayMs: number): void => {
    setTimeout(look, delayMs, delayMs).unref();
  };
  lookAfter(FIRST_LOOK_MS);
  return () => last;
}

/** Node knows about thirty kinds. */
const MOST_KINDS = 40;

// This is loaded into a Node script before it starts. Programs that the script starts are not affected. Workers always
// load it again but find no variable; forks inherit `execArgv`, from which it is removed.
const variable = process.env[PROBE_VARIABLE];
if (variable !== undefined) {
  delete process.env[PROBE_VARIABLE];
  forgetArgument(process.execArgv);
  const options = waitForTurn(JSON.parse(variable) as ProbeOptions);
  closeSync(SIGN_OF_LIFE_FD);
  installTypeScript(options.cacheFolder);
  join(options);
}

/**
 * A process that was started ahead waits here for its turn, before anything of its script is loaded. It ends if the
 * runner ends, or if its output file is gone: the process that removed the file relies on this one never beginning.
 */
function waitForTurn(options: ProbeOptions): ProbeOptions {
  const { hold, facts } = options;
  if (hold === undefined) return options;
  const message = Buffer.alloc(32);
  const length = readSync(HOLD_FD, message);
  if (length === 0) process.exit();
  try {
    renameSync(hold.heldOutput, hold.output);
  } catch {
    writeSync(HOLD_FD, NOT_BEGUN);
    process.exit();
  }
  closeSync(HOLD_FD);
  const latenessMs = Number(message.toString('latin1', 0, length));
  process.env.RUNNER_LATENESS_MS = String(latenessMs);
  return { ...options, facts: { ...facts, latenessMs } };
}

function join(options: ProbeOptions): void {
  const state: CodeState = { unsettled: null, findLingering: () => null, uncalled: null };
  if (options.exportsNothing) noticeFileEnd(options, state);
  else callDefault(options, state);
  recordEnd(options.resultPath, () => {
    const { unsettled, uncalled } = state;
    const lingering = state.findLingering();
    return { unsettled, ...(lingering && { lingering }), ...(uncalled !== null && { uncalled }) };
  });
}

function forgetArgument(args: string[]): void {
  const index = args.indexOf(__filename);
  if (index > 0) args.splice(index - 1, 2);
}

/**
 * Finds an export that looks made to be called but is not: the runner calls a default function only, and the file
 * itself does not call it. In doubt, an export counts as called.
 *
 * @param exported the module, without a default function
 * @returns `it exports run(), which nothing calls`; null: no such export
 */
function describeUncalled(exported: unknown, path: string): string | null {
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
