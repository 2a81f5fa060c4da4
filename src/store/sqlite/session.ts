import { closeSync, existsSync, fdatasync, openSync } from 'node:fs';
import { setTimeout as sleep, setImmediate as turnOfEventLoop } from 'node:timers/promises';
import type { SqliteStatement } from 'kysely';
import { errorCode } from '../../system/base/errors.ts';
import { sqliteDialect } from '../shared/sql/dialect.ts';
import { type Statements, Turns } from '../shared/sql/statements.ts';
import type { Connection } from './driver.ts';

/**
 * `durable`: survives a power loss once the transaction has ended. `soon`: survives the death of this
 * process at once, and a power loss a moment later; {@link Store.onDurable} tells when.
 */
export type Durability = 'durable' | 'soon';

/** @param failure null: it is durable; else why the disk did not take it, after which the log takes nothing more */
export type NotifyDurable = (failure: unknown) => void;

/** While SQLite itself waits for a lock, the whole process stands still: no signal, no time limit, no lease is served. */
const STANDSTILL_MS = 10;
const FIRST_PAUSE_MS = 2;
const LONGEST_PAUSE_MS = 25;

/** How long a commit may be in the log before it is on the disk, in milliseconds. */
const LONGEST_UNSYNCED_MS = 20;

export interface SessionOptions {
  /** Whether the journal is a write-ahead log, which is synced here; else SQLite syncs by its own settings. */
  readonly isWal?: boolean;
  /** The path of the database. */
  readonly path?: string;
  /** Called when the write lock is held: throws if the file is no longer the one to write to. */
  readonly checkFile?: () => void;
  /** Nothing is ever written, so nothing is synced: the file of the write-ahead log may refuse to be opened. */
  readonly isReadOnly?: boolean;
}

/**
 * One connection, whose transactions and statements come one after the other, whoever asks for them in
 * this process. Each statement is prepared once: that is most of the price of a small one. A locked log is waited for
 * without standing still.
 */
export class SqliteSession implements Statements {
  readonly dialect = sqliteDialect;
  readonly connection: Connection;
  readonly isWal: boolean;
  readonly #options: SessionOptions;
  readonly #statements = new Map<string, Prepared>();
  readonly #queue = new Turns();
  readonly #journal: WriteAheadLog | null;
  /** Whether a row was changed since the last commit. */
  #hasWritten = false;
  busyTimeoutMs: number;
  rollbacks = 0;
  turn = 0;

  constructor(connection: Connection, options: SessionOptions = {}) {
    this.connection = connection;
    this.#options = options;
    this.busyTimeoutMs = connection.timeoutMs;
    if (this.busyTimeoutMs > STANDSTILL_MS) connection.pragma(`busy_timeout = ${STANDSTILL_MS}`);
    const { path, isWal = false, isReadOnly = false } = options;
    this.isWal = isWal;
    this.#journal = path !== undefined && isWal && !isReadOnly ? new WriteAheadLog(path) : null;
  }

  get inTransaction(): boolean {
    return this.connection.inTransaction;
  }

  async all<Row>(text: string, values: readonly unknown[] = []): Promise<Row[]> {
    const { statement, mayWrite } = this.#prepare(text);
    const rows = statement.all(values.map(toInput)) as Row[];
    if (mayWrite && rows.length > 0) this.#hasWritten = true;
    return rows;
  }

  async first<Row>(text: string, values: readonly unknown[] = []): Promise<Row | undefined> {
    return (await this.all<Row>(text, values))[0];
  }

  async run(text: string, values: readonly unknown[] = []): Promise<number> {
    return Number(this.#write(text, values).changes);
  }

  async insert(text: string, values: readonly unknown[]): Promise<number[]> {
    return [Number(this.#write(text, values).lastInsertRowid)];
  }

  /** Workers that wait for work watch the file. */
  noteWork(): void {}

  /** Work outside of a transaction: a reading, or one statement that writes. */
  async ask<T>(work: () => Promise<T>): Promise<T> {
    return await this.#inTurn(() => this.#patiently(work, () => !this.inTransaction));
  }

  /** Others have their turn as soon as it is committed: what they commit meanwhile shares the next wait for the disk. */
  async transaction<T>(work: () => Promise<T>, durability: Durability): Promise<T> {
    const done = await this.#inTurn(async () => {
      this.#journal?.demandSound();
      await this.#begin();
      const done = await this.#queue.within(work).catch((error) => this.#rollBack(error));
      await this.#commit();
      return done;
    });
    if (durability === 'durable') await this.sync();
    return done;
  }

  async #inTurn<T>(work: () => Promise<T>): Promise<T> {
    const leave = await this.#queue.enter();
    this.turn += 1;
    let hasWritten = false;
    try {
      const done = await work();
      hasWritten = this.#hasWritten;
      this.#hasWritten = false;
      if (hasWritten) this.#journal?.noteCommit();
      return done;
    } finally {
      leave();
      // A caller that reads, or claims while nothing is free, again and again would keep all others of this process
      // waiting; and so would one that writes from hearing that a sync has ended.
      if (!hasWritten || WriteAheadLog.syncsUnderWay > 0) await turnOfEventLoop();
    }
  }

  /**
   * Differs from the one before if another connection has committed; null: locked just now. It does not
   * wait for the lock: whoever asks has other things to do.
   */
  dataVersion(): number | null {
    try {
      const [row] = this.#prepare('pragma data_version').statement.all([]) as { data_version: number }[];
      return row?.data_version ?? null;
    } catch (error) {
      if (errorCode(error).startsWith('SQLITE_BUSY')) return null;
      throw error;
    }
  }

  async sync(): Promise<void> {
    await this.#journal?.sync();
  }

  onDurable(notify: NotifyDurable): void {
    if (this.#journal === null) notify(null);
    else this.#journal.onDurable(notify);
  }

  /** Only once nobody asks any more. */
  async close(): Promise<void> {
    const leave = await this.#queue.enter();
    leave();
    try {
      this.connection.close();
    } finally {
      await this.#journal?.close();
    }
  }

  /** A deferred transaction that reads first fails with SQLITE_BUSY, at once, when it then writes. */
  async #begin(): Promise<void> {
    await this.#patiently(() => this.#control('begin immediate'));
    try {
      this.#options.checkFile?.();
      this.#journal?.open();
    } catch (error) {
      this.#rollBack(error);
    }
  }

  /** With a rollback journal, readers keep a commit waiting. */
  async #commit(): Promise<void> {
    try {
      await this.#patiently(
        () => this.#control('commit'),
        () => this.inTransaction,
      );
    } catch (error) {
      this.#rollBack(error);
    }
  }

  /** SQLite rolls back by itself when the disk is full: a second time would hide what went wrong. */
  #rollBack(error: unknown): never {
    this.rollbacks += 1;
    this.#hasWritten = false;
    if (this.inTransaction) this.#control('rollback');
    throw error;
  }

  /** Waits for a log that others have locked as SQLite does, but lets the process do what else it has to do. */
  async #patiently<T>(work: () => T | Promise<T>, mayRepeat: () => boolean = () => true): Promise<T> {
    let deadline: number | null = null;
    for (let pauseMs = FIRST_PAUSE_MS; ; pauseMs = Math.min(2 * pauseMs, LONGEST_PAUSE_MS)) {
      try {
        return await work();
      } catch (error) {
        if (!errorCode(error).startsWith('SQLITE_BUSY') || !mayRepeat()) throw error;
        // Mostly nobody asks for the time: loading what tells it takes 2 ms.
        deadline ??= performance.now() + this.busyTimeoutMs;
        if (performance.now() >= deadline) throw error;
      }
      await sleep(pauseMs);
    }
  }

  #write(text: string, values: readonly unknown[]): ReturnType<SqliteStatement['run']> {
    const done = this.#prepare(text).statement.run(values.map(toInput));
    if (Number(done.changes) > 0) this.#hasWritten = true;
    return done;
  }

  /** It changes no row: what a driver says of that would be of the statement before. */
  #control(text: 'begin immediate' | 'commit' | 'rollback'): void {
    this.#prepare(text).statement.run([]);
  }

  #prepare(text: string): Prepared {
    let prepared = this.#statements.get(text);
    if (prepared === undefined) {
      prepared = { statement: this.connection.prepare(text), mayWrite: !reading.test(text) };
      this.#statements.set(text, prepared);
    }
    return prepared;
  }
}

/** A value as both drivers take it. */
function toInput(value: unknown): unknown {
  if (Array.isArray(value)) return JSON.stringify(value);
  if (typeof value === 'boolean') return Number(value);
  return value ?? null;
}

/** The text of a statement that reads. */
const reading = /^\s*(select|pragma|with(?!.*\b(insert|update|delete)\b))\b/is;

interface Prepared {
  readonly statement: SqliteStatement;
  /** True of some that only read: a sync too many does no harm. */
  readonly mayWrite: boolean;
}

interface Waiting {
  /** How many commits must be on the disk. */
  readonly commits: number;
  readonly notify: NotifyDurable;
}

/**
 * SQLite's `-wal` file, synced by us instead of by each commit, beside everything else that this process does, so that
 * all who wait share one wait for the disk. SQLite syncs it itself before it takes anything over from it. Unlike that
 * of the database, closing it drops no locks.
 *
 * A sync that fails is final: the kernel may have dropped what it could not write, and the next sync then succeeds
 * without it.
 */
class WriteAheadLog {
  /** Syncs of all logs of this process that have begun and not ended. */
  static syncsUnderWay = 0;
  readonly #path: string;
  #fd: number | null = null;
  #commits = 0;
  #durableCommits = 0;
  #failure: unknown = null;
  #isClosed = false;
  readonly #waiting: Waiting[] = [];
  /** Commits up to this number are synced at once: somebody waits for them and does nothing else meanwhile. */
  #urgentCommits = 0;
  #timer: NodeJS.Timeout | undefined;
  /** The sync that is under way; it never rejects. */
  #syncing: Promise<void> | null = null;

  constructor(path: string) {
    this.#path = `${path}-wal`;
  }

  /** To be called with the write lock held, when the file at this path is the one that will be written to. */
  open(): number {
    try {
      this.#fd ??= openSync(this.#path, 'r+');
      return this.#fd;
    } catch (error) {
      throw asLogError(error, 'SQLITE_CANTOPEN');
    }
  }

  /** @throws the failure of an earlier sync */
  demandSound(): void {
    if (this.#failure !== null) throw this.#failure;
  }

  /** Counts a commit, which a sync soon brings to the disk. */
  noteCommit(): void {
    this.#commits += 1;
    this.demandSound();
    this.#syncSoon();
  }

  onDurable(notify: NotifyDurable): void {
    if (this.#commits <= this.#durableCommits) notify(null);
    else if (this.#failure !== null) notify(this.#failure);
    else this.#waiting.push({ commits: this.#commits, notify });
  }

  async sync(): Promise<void> {
    this.demandSound();
    if (this.#commits <= this.#durableCommits) return;
    this.open();
    await new Promise<void>((resolve, reject) => {
      this.onDurable((failure) => (failure === null ? resolve() : reject(failure)));
      this.#urgentCommits = this.#commits;
      this.#syncNow();
    });
  }

  /**
   * To be called once the database is closed: whoever closes it last takes over all that is in this file,
   * syncs it and removes the file.
   */
  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    clearTimeout(this.#timer);
    try {
      while (this.#syncing !== null) await this.#syncing;
      if (this.#failure !== null || existsSync(this.#path)) await this.sync();
      else this.#noteSync(this.#commits);
    } catch (error) {
      throw this.#fail(error);
    } finally {
      if (this.#fd !== null) closeSync(this.#fd);
      this.#fd = null;
    }
  }

  #syncSoon(): void {
    this.#timer ??= setTimeout(() => this.#syncNow(), LONGEST_UNSYNCED_MS).unref();
  }

  #syncNow(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    if (this.#syncing !== null || this.#failure !== null || this.#commits <= this.#durableCommits) return;
    const upTo = this.#commits;
    let fd: number;
    try {
      fd = this.open();
    } catch {
      // Nothing was synced, so nothing is lost yet: the next sync opens it again, or tells its caller.
      return;
    }
    this.#syncing = new Promise((resolve) => {
      WriteAheadLog.syncsUnderWay += 1;
      fdatasync(fd, (error) => {
        WriteAheadLog.syncsUnderWay -= 1;
        this.#syncing = null;
        resolve();
        if (error === null) this.#noteSync(upTo);
        else this.#fail(error);
      });
    });
  }

  /** Tells all who wait. Returns the failure that is final: the first one. */
  #fail(error: unknown): unknown {
    this.#failure ??= asLogError(error, 'SQLITE_IOERR_FSYNC');
    clearTimeout(this.#timer);
    this.#timer = undefined;
    for (const { notify } of this.#waiting.splice(0)) notify(this.#failure);
    return this.#failure;
  }

  #noteSync(upTo: number): void {
    this.#durableCommits = Math.max(this.#durableCommits, upTo);
    if (this.#urgentCommits > this.#durableCommits) this.#syncNow();
    else if (this.#commits > this.#durableCommits) this.#syncSoon();
    // They wait in the order of their commits.
    const due = this.#waiting.findIndex(({ commits }) => commits > this.#durableCommits);
    for (const { notify } of this.#waiting.splice(0, due === -1 ? this.#waiting.length : due)) notify(null);
  }
}

/** An error of the file system at the log's own files, with the code that SQLite gives it. */
export function asLogError(error: unknown, code: string): unknown {
  if (errorCode(error).startsWith('SQLITE_')) return error;
  return Object.assign(new Error(error instanceof Error ? error.message : String(error), { cause: error }), { code });
}
