import { closeSync, existsSync, fdatasync, fdatasyncSync, openSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import type { SqliteStatement } from 'kysely';
import { errorCode } from '../../system/base/errors.ts';
import type { Durability, NotifyDurable } from '../contract/store.ts';
import { Turns } from '../shared/turns.ts';
import type { Connection } from './connection.ts';

/** SqliteStatements of one connection, each prepared once: preparing is most of the price of a small one. */
export interface SqliteStatements {
  all<Row>(text: string, values?: readonly unknown[]): Row[];
  first<Row>(text: string, values?: readonly unknown[]): Row | undefined;
  /** How many rows it has changed. */
  run(text: string, values?: readonly unknown[]): number;
  /** Number of the row that it has added. */
  insert(text: string, values?: readonly unknown[]): number;
  /** Grows with each transaction that was undone: what was remembered of it is wrong. */
  readonly rollbacks: number;
}

/** While SQLite itself waits for a lock, the whole process stands still: no signal, no time limit, no lease is served. */
const STANDSTILL_MS = 10;
const FIRST_PAUSE_MS = 2;
const LONGEST_PAUSE_MS = 25;

/** How long a commit may be in the log before it is on the disk, in milliseconds. */
const LONGEST_UNSYNCED_MS = 20;

export interface SessionOptions {
  /** The path of the database whose write-ahead log is synced here; absent: SQLite syncs by its own settings. */
  readonly path?: string;
  /** Called when the write lock is held: throws if the file is no longer the one to write to. */
  readonly checkFile?: () => void;
}

/**
 * One connection, whose transactions and statements come one after the other, whoever asks for them in
 * this process. A locked log is waited for without standing still.
 */
export class SqliteSession implements SqliteStatements {
  readonly connection: Connection;
  readonly #options: SessionOptions;
  readonly #statements = new Map<string, SqliteStatement>();
  readonly #queue = new Turns();
  readonly #journal: WriteAheadLog | null;
  busyTimeoutMs: number;
  rollbacks = 0;

  constructor(connection: Connection, options: SessionOptions = {}) {
    this.connection = connection;
    this.#options = options;
    this.busyTimeoutMs = Number(connection.pragma('busy_timeout'));
    if (this.busyTimeoutMs > STANDSTILL_MS) {
      connection.pragma(`busy_timeout = ${STANDSTILL_MS}`);
    }
    const { path } = options;
    // A rollback journal without sync could leave a broken file behind; WAL only forgets.
    const isWal = path !== undefined && connection.pragma('journal_mode') === 'wal';
    if (isWal) connection.exec('pragma synchronous = normal');
    this.#journal = isWal ? new WriteAheadLog(path) : null;
  }

  get isWal(): boolean {
    return this.#journal !== null;
  }

  all<Row>(text: string, values: readonly unknown[] = []): Row[] {
    return this.#prepare(text).all(values) as Row[];
  }

  first<Row>(text: string, values: readonly unknown[] = []): Row | undefined {
    return this.all<Row>(text, values)[0];
  }

  run(text: string, values: readonly unknown[] = []): number {
    return Number(this.#prepare(text).run(values).changes);
  }

  insert(text: string, values: readonly unknown[] = []): number {
    return Number(this.#prepare(text).run(values).lastInsertRowid);
  }

  /** Work outside of a transaction: a reading, or one statement that writes. */
  async ask<T>(work: () => T): Promise<T> {
    const leave = await this.#queue.enter();
    try {
      const answer = await this.#patiently(work, () => !this.connection.inTransaction);
      await this.#journal?.note(this.#changes(), 'soon');
      return answer;
    } finally {
      leave();
    }
  }

  async transaction<T>(work: () => Promise<T>, durability: Durability): Promise<T> {
    const leave = await this.#queue.enter();
    try {
      this.#journal?.demandSound();
      await this.#begin();
      const result = await this.#orRollBack(() => this.#queue.within(work));
      await this.#commit();
      await this.#journal?.note(this.#changes(), durability);
      return result;
    } finally {
      leave();
    }
  }

  async #orRollBack<T>(work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      return this.#rollBack(error);
    }
  }

  /**
   * Differs from the one before if another connection has committed; null: locked just now. It does not
   * wait for the lock: whoever asks has other things to do.
   */
  dataVersion(): number | null {
    try {
      return this.first<{ data_version: number }>('pragma data_version')?.data_version ?? null;
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
    await this.#patiently(() => this.run('begin immediate'));
    try {
      this.#options.checkFile?.();
    } catch (error) {
      this.#rollBack(error);
    }
  }

  /** With a rollback journal, readers keep a commit waiting. */
  async #commit(): Promise<void> {
    try {
      await this.#patiently(
        () => this.run('commit'),
        () => this.connection.inTransaction,
      );
    } catch (error) {
      this.#rollBack(error);
    }
  }

  /** SQLite rolls back by itself when the disk is full: a second time would hide what went wrong. */
  #rollBack(error: unknown): never {
    this.rollbacks += 1;
    if (this.connection.inTransaction) this.run('rollback');
    throw error;
  }

  /** Waits for a log that others have locked as SQLite does, but lets the process do what else it has to do. */
  async #patiently<T>(work: () => T, mayRepeat: () => boolean = () => true): Promise<T> {
    let deadline: number | null = null;
    for (let pauseMs = FIRST_PAUSE_MS; ; pauseMs = Math.min(2 * pauseMs, LONGEST_PAUSE_MS)) {
      try {
        return work();
      } catch (error) {
        if (!errorCode(error).startsWith('SQLITE_BUSY') || !mayRepeat()) throw error;
        // Mostly nobody asks for the time: loading what tells it takes 2 ms.
        deadline ??= performance.now() + this.busyTimeoutMs;
        if (performance.now() >= deadline) throw error;
      }
      await sleep(pauseMs);
    }
  }

  #prepare(text: string): SqliteStatement {
    let statement = this.#statements.get(text);
    if (statement === undefined) {
      statement = this.connection.prepare(text);
      this.#statements.set(text, statement);
    }
    return statement;
  }

  /** Rows that this connection has changed since it was opened. */
  #changes(): number {
    return this.first<{ changes: number }>('select total_changes() as changes')?.changes ?? 0;
  }
}

interface Waiting {
  /** By which changes of the log what is waited for was in it. */
  readonly changes: number;
  readonly notify: NotifyDurable;
}

/**
 * SQLite's `-wal` file, synced by us instead of by each commit, so that many small transactions share one
 * wait for the disk. SQLite syncs it itself before it takes anything over from it. Unlike that of the
 * database, closing it drops no locks.
 *
 * A sync that fails is final: the kernel may have dropped what it could not write, and the next sync then succeeds
 * without it.
 */
class WriteAheadLog {
  readonly #path: string;
  #fd: number | null = null;
  #changes = 0;
  #durableChanges = 0;
  #failure: unknown = null;
  #isClosed = false;
  #waiting: readonly Waiting[] = [];
  #timer: NodeJS.Timeout | undefined;
  /** The sync that runs beside everything else; it never rejects. */
  #syncing: Promise<void> | null = null;

  constructor(path: string) {
    this.#path = `${path}-wal`;
  }

  /** @throws the failure of an earlier sync */
  demandSound(): void {
    if (this.#failure !== null) throw this.#failure;
  }

  /** Tells how many changes have been committed; they are on the disk now, or before long. */
  async note(changes: number, durability: Durability): Promise<void> {
    const isNew = changes !== this.#changes;
    this.#changes = changes;
    if (isNew) this.demandSound();
    if (durability === 'durable') await this.sync();
    else if (isNew) this.#timer ??= setTimeout(() => this.#syncLater(), LONGEST_UNSYNCED_MS).unref();
  }

  onDurable(notify: NotifyDurable): void {
    if (this.#changes <= this.#durableChanges) notify(null);
    else if (this.#failure !== null) notify(this.#failure);
    else this.#waiting = [...this.#waiting, { changes: this.#changes, notify }];
  }

  async sync(): Promise<void> {
    // The kernel reports a failure to only one of two simultaneous syncs.
    while (this.#syncing !== null) await this.#syncing;
    this.demandSound();
    if (this.#changes <= this.#durableChanges) return;
    const fd = this.#open();
    try {
      fdatasyncSync(fd);
    } catch (error) {
      throw this.#fail(error);
    }
    this.#noteSync(this.#changes);
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
      else this.#noteSync(this.#changes);
    } catch (error) {
      throw this.#fail(error);
    } finally {
      if (this.#fd !== null) closeSync(this.#fd);
      this.#fd = null;
    }
  }

  #syncLater(): void {
    this.#timer = undefined;
    if (this.#syncing !== null || this.#failure !== null || this.#changes <= this.#durableChanges) return;
    const upTo = this.#changes;
    let fd: number;
    try {
      fd = this.#open();
    } catch {
      // Nothing was synced, so nothing is lost yet: the next sync opens it again, or tells its caller.
      return;
    }
    this.#syncing = new Promise((resolve) => {
      fdatasync(fd, (error) => {
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
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const { notify } of waiting) notify(this.#failure);
    return this.#failure;
  }

  #noteSync(upTo: number): void {
    this.#durableChanges = Math.max(this.#durableChanges, upTo);
    if (this.#changes <= this.#durableChanges) {
      clearTimeout(this.#timer);
      this.#timer = undefined;
    } else {
      this.#timer ??= setTimeout(() => this.#syncLater(), LONGEST_UNSYNCED_MS).unref();
    }
    const due = this.#waiting.filter((each) => each.changes <= this.#durableChanges);
    if (due.length === 0) return;
    this.#waiting = this.#waiting.filter((each) => each.changes > this.#durableChanges);
    for (const { notify } of due) notify(null);
  }

  #open(): number {
    try {
      this.#fd ??= openSync(this.#path, 'r+');
      return this.#fd;
    } catch (error) {
      throw asLogError(error, 'SQLITE_CANTOPEN');
    }
  }
}

/** An error of the file system at the log's own files, with the code that SQLite gives it. */
export function asLogError(error: unknown, code: string): unknown {
  if (errorCode(error).startsWith('SQLITE_')) return error;
  return Object.assign(new Error(error instanceof Error ? error.message : String(error), { cause: error }), { code });
}
