import { type FSWatcher, statSync, watch } from 'node:fs';
import { availableParallelism } from 'node:os';
import { basename } from 'node:path';
import type { StateFolder } from '../../system/place/state-folder.ts';
import { releaseReserve } from '../../system/place/state-folder.ts';
import { kindOfStoreFailure, mayBeFull } from '../failures.ts';
import { oneByOne } from '../shared/sql/statements.ts';
import { type ChangeWatch, type Store, sessionOf, type WaitEnd } from '../store.ts';
import type { Connection, DriverName } from './driver.ts';
import type { OpenFile } from './file.ts';
import { asLogError, SqliteSession } from './session.ts';
import { sqliteTaking } from './take-jobs.ts';

/** The log in one file, with what only a file of SQLite has. */
export interface SqliteStore extends Store {
  readonly driver: DriverName;
  readonly connection: Connection;
}

interface StoreMarks {
  readonly isReadOnly?: boolean;
  readonly quarantined?: string | null;
}

/** Around a connection to a sound log, which the store closes. */
export function createSqliteStore(
  folder: StateFolder,
  { connection, isWal }: OpenFile,
  { isReadOnly = false, quarantined = null }: StoreMarks = {},
): SqliteStore {
  const session = new SqliteSession(connection, {
    isWal,
    path: folder.database,
    checkFile: createFileCheck(folder.database),
    isReadOnly,
  });
  const asking = oneByOne(session, (work) => session.ask(work));
  const inTransaction = sessionOf(session, sqliteTaking(session));
  return {
    ...sessionOf(asking, sqliteTaking(asking)),
    engine: 'sqlite',
    fleet: null,
    driver: connection.driver,
    connection,
    isReadOnly,
    quarantined,
    transaction: (work, durability = 'durable') => session.transaction(() => work(inTransaction), durability),
    sync: () => session.sync(),
    onDurable: (notify) => session.onDurable(notify),
    retryWhenFull: (work) => retryWhenFull(folder, work),
    queries: async () => {
      const { buildQueries } = await import('../shared/queries.ts');
      return buildQueries('sqlite', asking.all);
    },
    shrink: (pages) => session.ask(async () => shrink(connection, pages)),
    watch: () => watchLog(folder, session),
    close: () => session.close(),
  };
}

function shrink(connection: Connection, pages: number): void {
  try {
    connection.exec(`pragma incremental_vacuum(${pages})`);
  } catch (error) {
    // The next pass that finds nobody else at it gives them back.
    if (kindOfStoreFailure(error) !== 'locked') throw error;
  }
}

/** With WAL, SQLite itself goes on writing to a log that was quarantined by another runner. */
function createFileCheck(path: string): () => void {
  const { ino } = statSync(path);
  return () => {
    if (inodeOf(path) === ino) return;
    const message = `${path} was moved away while it was in use`;
    throw Object.assign(new Error(message), { code: 'SQLITE_READONLY_DBMOVED' });
  };
}

function inodeOf(path: string): number | undefined {
  try {
    return statSync(path, { throwIfNoEntry: false })?.ino;
  } catch (error) {
    throw asLogError(error, 'SQLITE_IOERR_FSTAT');
  }
}

async function retryWhenFull<T>(folder: StateFolder, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (!mayBeFull(error) || !releaseReserve(folder)) throw error;
    return await work();
  }
}

/** How often the log is polled although its files are watched, in milliseconds: an event may be lost. */
const SLOW_POLL_MS = 2_000;

/**
 * How often it is polled if files are not watched, or other machines write too, in milliseconds: no events come of
 * those.
 */
const BLIND_POLL_MS = 500;

/** The files are watched only while somebody waits: a worker's own writes would wake it up. */
export function watchLog(folder: StateFolder, session: Pick<SqliteSession, 'dataVersion' | 'isWal'>): ChangeWatch {
  const closing = new AbortController();
  const pace = createWakePace();
  const slowPollMs = session.isWal ? SLOW_POLL_MS : BLIND_POLL_MS;
  let last = Number.NaN;
  const read = (): number => {
    last = session.dataVersion() ?? last;
    return last;
  };
  return {
    look: read,
    found: () => pace.noteFound(),
    changed: async (since, untilMs, ...signals) => {
      const end = await waitForChange({
        folder,
        hasChanged: () => differs(read, since),
        untilMs,
        signals: [closing.signal, ...signals],
        restMs: pace.restMs(),
        slowPollMs,
        blindPollMs: BLIND_POLL_MS,
      });
      if (end === 'changed') pace.noteWake();
      return end;
    },
    close: () => closing.abort(),
  };
}

function differs(read: () => number, since: number): boolean {
  try {
    return !Object.is(read(), since);
  } catch {
    // The next look for work then meets the same failure.
    return true;
  }
}

/** The events of the files of a log. */
interface FileEvents {
  /** A process writes to it: a commit is under way, or done. */
  readonly onWrite: () => void;
  /** The log, or its folder, was moved away or deleted. */
  readonly onMoved: () => void;
  /** No more events will come. */
  readonly onFailure: () => void;
}

/**
 * Watches the files of the log until it is closed; null where that cannot be: the user's watches are
 * used up (ENOSPC, EMFILE), say. All watches of a process share one inotify instance.
 */
function watchFiles(folder: StateFolder, events: FileEvents): FSWatcher | null {
  const log = basename(folder.database);
  const moved = [log, basename(folder.path)];
  try {
    const watcher = watch(folder.path, (event, name) => {
      if (event === 'rename' && moved.includes(name ?? '')) events.onMoved();
      else if (name === null || name.startsWith(log)) events.onWrite();
    });
    return watcher.on('error', events.onFailure);
  } catch {
    return null;
  }
}

interface Wait {
  readonly folder: StateFolder;
  readonly hasChanged: () => boolean;
  /** Epoch milliseconds; null: no end. */
  readonly untilMs: number | null;
  readonly signals: readonly AbortSignal[];
  /** For how long nothing is looked at, not even at first, in milliseconds. */
  readonly restMs: number;
  /** How often the log is looked at while its files are watched. */
  readonly slowPollMs: number;
  /** The same if they cannot be watched. */
  readonly blindPollMs: number;
}

/** A commit that waits for a fast disk is there within this; no timer is as fine. */
const SPIN_MS = 1;

/** A long transaction writes all the time, and is not to be looked at all the time. */
const SPIN_REST_MS = 20;

/** On the only one the writer would be kept from its commit. */
const hasOtherProcessor = availableParallelism() > 1;

const FIRST_POLL_MS = 1;
const POLL_GROWTH = 1.5;

/** Sleeps until the log has changed. */
function waitForChange(wait: Wait): Promise<WaitEnd> {
  if (wait.signals.some((signal) => signal.aborted)) return Promise.resolve('stopped');
  return new Promise((resolve) => new Sleeper(wait, resolve).begin());
}

/**
 * A commit becomes visible to others only when its last write has reached the disk, and no file event comes of that. So
 * each write is followed by looks at growing intervals, and so is the beginning: the last write may have come just
 * before.
 */
class Sleeper {
  readonly #wait: Wait;
  readonly #resolve: (how: WaitEnd) => void;
  readonly #stop = () => this.#end('stopped');
  #watcher: FSWatcher | null = null;
  #timer: NodeJS.Timeout | undefined;
  #immediate: NodeJS.Immediate | undefined;
  #spinUntilMs = Number.NEGATIVE_INFINITY;
  #pollMs = FIRST_POLL_MS;
  #longestPollMs: number;

  constructor(wait: Wait, resolve: (how: WaitEnd) => void) {
    this.#wait = wait;
    this.#resolve = resolve;
    this.#longestPollMs = wait.slowPollMs;
  }

  begin(): void {
    const { restMs, signals } = this.#wait;
    for (const signal of signals) signal.addEventListener('abort', this.#stop);
    if (restMs > 0) this.#timer = setTimeout(() => this.#watch(), Math.min(restMs, this.#leftMs()));
    else this.#watch();
  }

  /** Watches first, then looks: between the two nothing can be missed. */
  #watch(): void {
    const { folder, blindPollMs } = this.#wait;
    const pollBlindly = () => {
      this.#longestPollMs = blindPollMs;
    };
    this.#watcher = watchFiles(folder, {
      onWrite: () => {
        this.#allowSpin();
        this.#pollQuickly();
      },
      onMoved: () => this.#end('changed'),
      onFailure: pollBlindly,
    });
    if (this.#watcher === null) pollBlindly();
    this.#pollQuickly();
  }

  #allowSpin(): void {
    const now = performance.now();
    if (hasOtherProcessor && now > this.#spinUntilMs + SPIN_REST_MS) this.#spinUntilMs = now + SPIN_MS;
  }

  #pollQuickly(): void {
    this.#clear();
    this.#pollMs = FIRST_POLL_MS;
    this.#poll();
  }

  #poll(): void {
    const leftMs = this.#leftMs();
    if (this.#wait.hasChanged()) this.#end('changed');
    else if (leftMs <= 0) this.#end('due');
    else if (performance.now() < this.#spinUntilMs) this.#spin();
    else this.#sleep(Math.min(this.#pollMs, leftMs));
  }

  #spin(): void {
    this.#immediate = setImmediate(() => this.#poll());
  }

  #sleep(ms: number): void {
    this.#timer = setTimeout(() => this.#poll(), ms);
    this.#pollMs = Math.min(this.#pollMs * POLL_GROWTH, this.#longestPollMs);
  }

  #leftMs(): number {
    const { untilMs } = this.#wait;
    return untilMs === null ? Number.POSITIVE_INFINITY : untilMs - Date.now();
  }

  #clear(): void {
    clearTimeout(this.#timer);
    clearImmediate(this.#immediate);
  }

  #end(how: WaitEnd): void {
    this.#clear();
    this.#watcher?.close();
    for (const signal of this.#wait.signals) signal.removeEventListener('abort', this.#stop);
    this.#resolve(how);
  }
}

/** How long to rest before the next wait, so that others' commits do not keep a waiting worker busy. */
interface WakePace {
  /** There was something to do. */
  noteFound(): void;
  /** A wait ended because of a change. */
  noteWake(): void;
  restMs(): number;
}

/** How many wake-ups in vain in a row are normal: a job that another worker takes makes several commits. */
const FREE_WAKES = 8;
const LONGEST_REST_MS = 20;

/** After this long without a wake-up, in milliseconds, the others are at rest. */
const QUIET_MS = 100;

export function createWakePace(now: () => number = () => performance.now()): WakePace {
  let wokenAtMs = Number.NEGATIVE_INFINITY;
  let wakesForNothing = 0;
  return {
    noteFound: () => {
      wakesForNothing = 0;
    },
    noteWake: () => {
      wakesForNothing = now() - wokenAtMs < QUIET_MS ? wakesForNothing + 1 : 1;
      wokenAtMs = now();
    },
    restMs: () => Math.min(Math.max(wakesForNothing - FREE_WAKES, 0), LONGEST_REST_MS),
  };
}
