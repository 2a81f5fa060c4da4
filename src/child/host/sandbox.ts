import { existsSync, lstatSync, mkdirSync, openSync, readdirSync, readSync, writeSync } from 'node:fs';
import { registerHooks } from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { type EndMessage, type HandlerEnd, ledgerPlaces, type ProbeResult, runVariableNames } from '../contract.ts';
import { takeCounts } from '../counts.ts';
import { FILE_CLOCK_STEP_MS, type FileState, readFileState, removeTree } from '../files.ts';

type Exit = typeof process.exit;

/**
 * Makes `process.exit()` throw for a caller that may no longer end the process.
 *
 * @returns the original function, which always ends the process
 */
export function guardExit(mayExit: () => boolean): Exit {
  const exit: Exit = process.exit.bind(process);
  process.exit = (code) => {
    if (mayExit()) exit(code);
    throw new Error(`process.exit(${code ?? ''}) was called`);
  };
  // Listeners for the end of the process may call it again.
  process.prependListener('exit', () => {
    process.exit = exit;
  });
  return exit;
}

/** A folder that is emptied after each job; few jobs put anything into it. */
export class TemporaryFolder {
  readonly #path: string;
  /** The folder's time of change, while it has been empty since; NaN: unknown. */
  #emptySince = Number.NaN;

  constructor(path: string) {
    this.#path = path;
  }

  /** Empties the folder as far as possible. A folder that is no longer private to its owner is made anew. */
  empty(): void {
    try {
      const mtimeMs = timeOfPrivateFolder(this.#path);
      // Listing the folder takes five times as long.
      if (mtimeMs === this.#emptySince) return;
      this.#emptySince = this.#removeAll() || Date.now() - mtimeMs < FILE_CLOCK_STEP_MS ? Number.NaN : mtimeMs;
    } catch {
      this.#emptySince = Number.NaN;
      makeAnew(this.#path);
    }
  }

  /** Returns whether there was anything. */
  #removeAll(): boolean {
    const names = readdirSync(this.#path);
    for (const name of names) removeTree(join(this.#path, name));
    return names.length > 0;
  }
}

/**
 * Returns the folder's time of change, in epoch milliseconds. @throws if a job has put a link there, which may lead
 * anywhere, or has changed its mode
 */
function timeOfPrivateFolder(path: string): number {
  const stats = lstatSync(path);
  if (!stats.isDirectory() || (stats.mode & 0o777) !== 0o700) throw new Error(`${path} is not a private folder`);
  return stats.mtimeMs;
}

function makeAnew(path: string): void {
  try {
    removeTree(path);
    // The parent only: if the whole state folder is gone, it must not be created again.
    if (!existsSync(dirname(path))) mkdirSync(dirname(path), { mode: 0o700 });
    mkdirSync(path, { mode: 0o700 });
  } catch {
    // Jobs do without a temporary folder until one can be made.
  }
}

/** Ends the measurement of a job by its end. */
export type MeasureJob = (
  end: HandlerEnd,
) => Pick<EndMessage, 'durationMs' | 'rssBytes'> & { readonly end: ProbeResult };

/** Resources that a process has used so far, and its present memory. */
interface Reading {
  readonly usage: NodeJS.ResourceUsage;
  /** Null: unknown. */
  readonly rssBytes: number | null;
}

/** The reading at the end of the last job. */
let lastReading: Reading | null = null;

/**
 * Measures what one job uses of a process that serves many.
 *
 * @param isNext true if the job follows the last one at once; then the moment in between counts as its own, because a
 * reading takes 20 µs
 */
export function startMeter(isNext: boolean): MeasureJob {
  const startedAt = performance.now();
  const before = isNext && lastReading !== null ? lastReading : read();
  return (ended) => {
    const durationMs = performance.now() - startedAt;
    const after = read();
    lastReading = after;
    const end = {
      ...ended,
      userCpuMs: (after.usage.userCPUTime - before.usage.userCPUTime) / 1000,
      systemCpuMs: (after.usage.systemCPUTime - before.usage.systemCPUTime) / 1000,
      maxRssBytes: peakBytes(before, after),
      ...growth(before, after),
      ...takeCounts(),
    };
    return { end, durationMs, rssBytes: after.rssBytes };
  };
}

function read(): Reading {
  return { usage: process.resourceUsage(), rssBytes: readRssBytes() };
}

/** The peak of the process is the peak of this job only if this job has raised it. */
function peakBytes(before: Reading, after: Reading): number | null {
  if (after.usage.maxRSS > before.usage.maxRSS) return after.usage.maxRSS * 1024;
  return before.rssBytes === null || after.rssBytes === null ? null : Math.max(before.rssBytes, after.rssBytes);
}

function growth(before: Reading, after: Reading): Pick<ProbeResult, 'rssDeltaBytes'> {
  if (before.rssBytes === null || after.rssBytes === null) return {};
  return { rssDeltaBytes: after.rssBytes - before.rssBytes };
}

const PAGE_BYTES = 4096;
const buffer = Buffer.alloc(128);
let fd: number | null = null;
let isStatmRight: boolean | null = null;

/** Resident memory of this process in bytes, null if unknown. It takes 2 µs; asking Node takes 10 µs. */
function readRssBytes(): number | null {
  if (isStatmRight === false) return askNode();
  const rssBytes = readStatm();
  isStatmRight ??= isAbout(rssBytes, askNode());
  return isStatmRight && rssBytes !== null ? rssBytes : askNode();
}

/** Null without `/proc`, because Node throws then. */
function askNode(): number | null {
  try {
    return process.memoryUsage.rss();
  } catch {
    return null;
  }
}

/** Null without `/proc`. */
function readStatm(): number | null {
  try {
    fd ??= openSync('/proc/self/statm', 'r');
    const [, pages] = buffer.toString('latin1', 0, readSync(fd, buffer, 0, 128, 0)).split(' ', 2);
    return Number(pages) * PAGE_BYTES;
  } catch {
    return null;
  }
}

/** Guards against another page size, and against a `/proc` of another container. */
function isAbout(one: number | null, other: number | null): boolean {
  return one !== null && other !== null && one > other / 2 && one < other * 2;
}

/**
 * The file in which a child notes the run that it begins, so that the run is known even if the child and its runner
 * die.
 */
export class Ledger {
  readonly #entry = Buffer.alloc(ledgerPlaces.revoked);
  readonly #revoked = Buffer.alloc(ledgerPlaces.end - ledgerPlaces.revoked);
  #fd: number | null = null;

  constructor(path: string) {
    try {
      this.#fd = openSync(path, 'r+');
    } catch {
      // The ledger was removed; what a run leaves behind still shows that it has begun.
    }
  }

  /**
   * Call it before a run begins. The child writes first and then looks, and so does a process that revokes the run: one
   * of them sees the other, so a job that was given back to others never begins here.
   *
   * @param keys of the runs whose ends may be missing in the log, and of this run
   * @returns whether the run may begin; if nothing could be written, only the first job of a message may
   */
  begin(keys: readonly string[], number: number, isFirst: boolean): boolean {
    if (!this.#write(keys, number)) return isFirst;
    if (this.#readRevoked() < number) return true;
    this.#write(keys.slice(0, -1), number - 1);
    return false;
  }

  #write(keys: readonly string[], number: number): boolean {
    if (this.#fd === null) return false;
    this.#entry.fill(' ', 0, ledgerPlaces.begun).write(listKeys(keys), 'latin1');
    this.#entry.writeDoubleLE(number, ledgerPlaces.begun);
    try {
      writeSync(this.#fd, this.#entry, 0, ledgerPlaces.revoked, 0);
      return true;
    } catch {
      // The disk is full: this counts like a removed ledger.
      return false;
    }
  }

  #readRevoked(): number {
    const length = this.#revoked.length;
    const read = readSync(this.#fd as number, this.#revoked, 0, length, ledgerPlaces.revoked);
    return read < length ? 0 : this.#revoked.readDoubleLE(0);
  }
}

/** Lists keys as `7.12-27 7.30`; the last ones if there is no room for all. */
function listKeys(keys: readonly string[]): string {
  let list = '';
  let end = keys.length;
  while (end > 0) {
    let start = end - 1;
    while (start > 0 && isNext(keys[start - 1] as string, keys[start] as string)) start -= 1;
    const first = keys[start] as string;
    const last = keys[end - 1] as string;
    const range = start === end - 1 ? last : `${first}-${last.slice(last.indexOf('.') + 1)}`;
    const longer = list === '' ? range : `${range} ${list}`;
    if (longer.length > ledgerPlaces.begun) return list === '' ? last : list;
    list = longer;
    end = start;
  }
  return list;
}

/** Whether the keys belong to two successive claims of one worker. */
function isNext(before: string, after: string): boolean {
  const dot = before.indexOf('.');
  if (dot === -1 || after.slice(0, dot + 1) !== before.slice(0, dot + 1)) return false;
  return Number(after.slice(dot + 1)) === Number(before.slice(dot + 1)) + 1;
}

const PACKAGES = '/node_modules/';

/** The lock file that `npm` writes at each change stands for installed packages, which are thousands of files. */
function standFor(path: string): string {
  const index = path.indexOf(PACKAGES);
  return index === -1 ? path : `${path.slice(0, index)}${PACKAGES}.package-lock.json`;
}

/** Listeners of these events change how the process ends; a removed one is put back. */
const endingEvents = ['SIGTERM', 'SIGINT', 'SIGHUP', 'uncaughtException', 'unhandledRejection'];

/** Listeners of these events tidy up; additional ones may stay. */
const lastEvents = ['beforeExit', 'exit'];
const isLast = (event: Event): boolean => lastEvents.includes(event as string);

/**
 * Records what a handler must not change for the next one: variables, arguments, title, current folder, umask, exit
 * code, listeners of the process.
 *
 * @returns a function that restores it
 */
function keepProcessState(): () => void {
  const cwd = process.cwd();
  const umask = process.umask();
  const variables = readVariables();
  const { title, argv } = process;
  const words = [...argv];
  const listeners = new Map<Event, readonly NodeJS.SignalsListener[]>();
  for (const event of [...endingEvents, ...lastEvents, ...process.eventNames()]) {
    listeners.set(event, process.listeners(asSignal(event)));
  }
  return () => {
    if (process.cwd() !== cwd) process.chdir(cwd);
    if (process.umask() !== umask) process.umask(umask);
    process.exitCode = undefined;
    restoreVariables(variables);
    if (process.title !== title) process.title = title;
    process.argv = argv;
    if (argv.length !== words.length || words.some((word, index) => argv[index] !== word)) {
      argv.splice(0, argv.length, ...words);
    }
    for (const [event, before] of listeners) restoreListeners(event, before);
    for (const event of process.eventNames()) if (!listeners.has(event)) process.removeAllListeners(event);
  };
}

type Event = string | symbol;

/** The types declare each event separately. */
const asSignal = (event: Event): 'SIGTERM' => event as 'SIGTERM';

function restoreListeners(event: Event, before: readonly NodeJS.SignalsListener[]): void {
  const signal = asSignal(event);
  for (const listener of before) {
    if (process.listenerCount(signal, listener) === 0) process.on(signal, listener);
  }
  // Comparing counts first avoids building a list of listeners for each job.
  if (process.listenerCount(signal) === before.length || isLast(event)) return;
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

/** Leaves out the variables that each job sets anew: reading one is a call into the system's library. */
function readVariables(): NodeJS.ProcessEnv {
  const variables: NodeJS.ProcessEnv = {};
  for (const name of Object.keys(process.env)) {
    if (!areSetAnew.has(name)) variables[name] = process.env[name];
  }
  return variables;
}

/** The handlers that a process has imported, and the state that their modules have set up. */
export class HandlerShelf {
  readonly #handlers = new Map<string, unknown>();
  readonly #onImported: () => void;
  readonly #noted = new Set<string>();
  #loaded: FileState[] = [];
  #restore = keepProcessState();

  /** @param onImported called when a module has set up the state that all its jobs share */
  constructor(onImported: () => void) {
    this.#onImported = onImported;
    registerHooks({
      load: (url, context, nextLoad) => {
        if (url.startsWith('file:')) this.#note(standFor(fileURLToPath(url)));
        return nextLoad(url, context);
      },
    });
  }

  /** Returns the module's exports. It is imported once for all jobs; @throws the error of the import */
  async take(path: string): Promise<unknown> {
    if (!this.#handlers.has(path)) {
      this.#note(path);
      this.#handlers.set(path, await import(pathToFileURL(path).href));
      this.#restore = keepProcessState();
      this.#onImported();
    }
    return this.#handlers.get(path);
  }

  has(path: string): boolean {
    return this.#handlers.has(path);
  }

  /** Files that were imported since the last call, in their state before they were read; undefined: none. */
  takeLoaded(): readonly FileState[] | undefined {
    if (this.#loaded.length === 0) return undefined;
    const loaded = this.#loaded;
    this.#loaded = [];
    return loaded;
  }

  /** Restores the process to its state before the last handler was called. */
  restore(): void {
    this.#restore();
  }

  #note(path: string): void {
    if (this.#noted.has(path)) return;
    this.#noted.add(path);
    this.#loaded.push(readFileState(path));
  }
}
