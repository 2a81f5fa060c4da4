import { registerHooks } from 'node:module';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { type FileState, readFileState, runVariableNames } from '../contract.ts';

interface LoadedFiles {
  /** Notes a file as it is now, before it is read. */
  note(path: string): void;
  /** What was noted since the last call; undefined: nothing. */
  take(): readonly FileState[] | undefined;
}

/**
 * Notes each file that is imported. Of installed packages, which are thousands of files, what `npm`
 * writes at their change stands for them.
 */
function watchLoadedFiles(): LoadedFiles {
  const known = new Set<string>();
  let fresh: FileState[] = [];
  const note = (path: string): void => {
    if (known.has(path)) return;
    known.add(path);
    fresh.push(readFileState(path));
  };
  registerHooks({
    load: (url, context, nextLoad) => {
      if (url.startsWith('file:')) note(standFor(fileURLToPath(url)));
      return nextLoad(url, context);
    },
  });
  return {
    note,
    take: () => {
      if (fresh.length === 0) return undefined;
      const taken = fresh;
      fresh = [];
      return taken;
    },
  };
}

const PACKAGES = '/node_modules/';

function standFor(path: string): string {
  const index = path.indexOf(PACKAGES);
  return index === -1 ? path : `${path.slice(0, index)}${PACKAGES}.package-lock.json`;
}

/** What a process is before a handler is called, to be so again after it. */
interface ProcessState {
  restore(): void;
}

/** Listeners of these change how the process ends: one that is left, or is gone, would do so for others' jobs. */
const endingEvents = ['SIGTERM', 'SIGINT', 'SIGHUP', 'uncaughtException', 'unhandledRejection'];

/** Listeners of these tidy up: one more is welcome. */
const lastEvents = ['beforeExit', 'exit'];

/**
 * Takes down what a handler must not change for the next one: variables, current folder, umask, exit
 * code, listeners that decide over the process's end.
 */
function keepProcessState(): ProcessState {
  const cwd = process.cwd();
  const umask = process.umask();
  const variables = readVariables();
  const listeners = [...endingEvents, ...lastEvents].map(
    (event) => [event, process.listeners(asSignal(event))] as const,
  );
  return {
    restore: () => {
      if (process.cwd() !== cwd) process.chdir(cwd);
      if (process.umask() !== umask) process.umask(umask);
      process.exitCode = undefined;
      restoreVariables(variables);
      for (const [event, before] of listeners) restoreListeners(event, before);
    },
  };
}

/** The types know each event by itself. */
const asSignal = (event: string): 'SIGTERM' => event as 'SIGTERM';

function restoreListeners(event: string, before: readonly NodeJS.SignalsListener[]): void {
  const signal = asSignal(event);
  for (const listener of before) {
    if (process.listenerCount(signal, listener) === 0) process.on(signal, listener);
  }
  // A list of them would be made for each job.
  if (process.listenerCount(signal) === before.length || lastEvents.includes(event)) return;
  for (const listener of process.listeners(signal)) {
    if (!before.includes(listener)) process.off(signal, listener);
  }
}

function restoreVariables(before: NodeJS.ProcessEnv): void {
  const now = readVariables();
  for (const name of Object.keys(now)) if (!Object.hasOwn(before, name)) delete process.env[name];
  for (const [name, value] of Object.entries(before)) {
    if (now[name] !== value) process.env[name] = value;
  }
}

const areSetAnew = new Set(runVariableNames);

/** Without those that are set anew for each job. Reading one is a call into the system's library. */
function readVariables(): NodeJS.ProcessEnv {
  const variables: NodeJS.ProcessEnv = {};
  for (const name of Object.keys(process.env)) {
    if (!areSetAnew.has(name)) variables[name] = process.env[name];
  }
  return variables;
}

/** The handlers that a process has imported, and what their modules have set up in it. */
export class HandlerShelf {
  readonly #handlers = new Map<string, unknown>();
  readonly #files: LoadedFiles = watchLoadedFiles();
  #state = keepProcessState();

  /** What the module exports. It is imported once, and for all jobs; @throws as the import does. */
  async take(path: string): Promise<unknown> {
    if (!this.#handlers.has(path)) {
      this.#files.note(path);
      this.#handlers.set(path, await import(pathToFileURL(path).href));
      this.#state = keepProcessState();
    }
    return this.#handlers.get(path);
  }

  has(path: string): boolean {
    return this.#handlers.has(path);
  }

  /** Files that were imported since the last call; undefined: none. */
  takeLoaded(): readonly FileState[] | undefined {
    return this.#files.take();
  }

  /** Puts the process back to what it was before the last handler was called. */
  restore(): void {
    this.#state.restore();
  }
}
