import { setTimeout as sleep } from 'node:timers/promises';
import { errorCode } from '../../system/base/errors.ts';
import type { ServerDialect } from '../shared/sql/dialect.ts';
import { type Announcement, RowTaken, type Statements, Turns } from '../shared/sql/statements.ts';
import { describeServerFailure } from './connect/describe-failure.ts';
import type { DatabaseTarget } from './connect/url.ts';
import type { Answer, ServerConnection, ServerEngine, ServerFailure } from './engine.ts';

/** Statements of one connection to a server. */
export interface ServerStatements extends Statements {
  readonly dialect: ServerDialect;
}

/** A server that cannot be reached, or has no room, is retried for as long as this many attempts may take. */
const PATIENCE_ATTEMPTS = 3;
const FIRST_PAUSE_MS = 20;
const LONGEST_PAUSE_MS = 1_000;

/** How long nobody waits for a server that was just found to be away, in milliseconds. */
const AWAY_MS = 1_000;

/** A server silent for this long counts as gone, even without an error: no wait for a lock lasts as long. */
const SILENCE_MS = 60_000;
/** Reports read a lot. */
const REPORT_SILENCE_MS = 15 * 60_000;

/** A key that is taken again and again is no coincidence. */
const MOST_TAKEN = 3;

/** Servers of shared hosts give each user few connections: one that rests is given back. */
const IDLE_MS = 5_000;

/**
 * Shortest time between two notices, in milliseconds: each one takes a lock of the whole server, and wakes all waiting
 * sessions.
 */
const ANNOUNCE_EVERY_MS = { work: 20, change: 200 } as const;

/** How long a session waits, in milliseconds. */
export interface Patience {
  /** Until it gives its connection back. */
  readonly idleMs?: number;
  /** For an answer of the server. */
  readonly silenceMs?: number;
}

/** It is unknown whether the commit took place. */
export class CommitUnknown extends Error {
  readonly code = 'ERR_COMMIT_UNKNOWN';
}

interface Committing {
  readonly hasWritten: boolean;
  readonly isAlone?: boolean;
}

/**
 * The one connection of a process, opened late and closed while idle. Transactions and statements run one after the
 * other, whoever asks for them. Work that a conflict or a lost connection has undone is repeated.
 */
export class ServerSession implements ServerStatements {
  readonly engine: ServerEngine;
  readonly dialect: ServerDialect;
  readonly #target: DatabaseTarget;
  readonly #idleMs: number;
  readonly #silenceMs: number;
  readonly #turns = new Turns();
  /** The distance between the numbers of rows added by one statement: more than 1 in a cluster. */
  #step = 1;
  #connection: ServerConnection | null = null;
  #idle: NodeJS.Timeout | undefined;
  #onNews: (() => void) | null = null;
  readonly #failures = new WeakSet<Error>();
  #away: { readonly error: unknown; readonly at: number } | null = null;
  #hasWritten = false;
  #news: Announcement = 'none';
  #announcement: { readonly dueAt: number; readonly timer: NodeJS.Timeout } | null = null;
  #announcedAt = Number.NEGATIVE_INFINITY;
  #isClosed = false;
  /** Asked of each further connection: what the first one has found may be otherwise by then. */
  onReconnect: (() => Promise<void>) | null = null;
  patienceMs: number;
  rollbacks = 0;
  turn = 0;
  inTransaction = false;

  constructor(engine: ServerEngine, target: DatabaseTarget, patience: Patience = {}) {
    this.engine = engine;
    this.dialect = engine.dialect;
    this.#target = target;
    this.#idleMs = patience.idleMs ?? IDLE_MS;
    this.#silenceMs = patience.silenceMs ?? SILENCE_MS;
    this.patienceMs = PATIENCE_ATTEMPTS * target.connectTimeoutMs;
  }

  async all<Row>(text: string, values: readonly unknown[] = [], news: Announcement = 'change'): Promise<Row[]> {
    return (await this.#query(text, values, news)).rows as Row[];
  }

  async first<Row>(text: string, values: readonly unknown[] = []): Promise<Row | undefined> {
    return (await this.all<Row>(text, values))[0];
  }

  async run(text: string, values: readonly unknown[] = [], news: Announcement = 'change'): Promise<number> {
    return (await this.#query(text, values, news)).changes;
  }

  noteWork(): void {
    this.#news = 'work';
  }

  async insert(text: string, values: readonly unknown[], rows = 1): Promise<number[]> {
    if (this.dialect.name === 'postgres') {
      const added = await this.all<{ id: number }>(`${text} returning id`, values);
      return added.map(({ id }) => id);
    }
    const { insertId } = await this.#query(text, values);
    return Array.from({ length: rows }, (_, index) => insertId + index * this.#step);
  }

  /** A query of Kysely's, in the driver's own form. */
  async allAsIs<Row>(text: string, values: readonly unknown[]): Promise<Row[]> {
    const asked = this.#connected().queryAsIs(text, values);
    return (await this.#ofServer(asked, REPORT_SILENCE_MS)).rows as Row[];
  }

  /** Work outside of a transaction: a reading, or one statement that writes. */
  async ask<T>(work: () => Promise<T>): Promise<T> {
    return await this.#inTurn(() =>
      this.#patiently(async () => {
        this.turn += 1;
        const answer = await work();
        await this.#tellNews();
        return answer;
      }),
    );
  }

  async transaction<T>(work: () => Promise<T>): Promise<T> {
    return await this.#inTurn(() => this.#patiently(() => this.#tryTransaction(work)));
  }

  /** A statement that is a transaction of its own: it is planned once, and takes one trip. */
  async atOnce<Row>(text: string, values: readonly unknown[]): Promise<Row[]> {
    const work = async (): Promise<Row[]> => {
      this.#news = 'change';
      this.turn += 1;
      const asked = this.#connected().query(text, values, 'once');
      const { rows } = await this.#commit(asked, { hasWritten: true, isAlone: true });
      await this.#tellNews();
      return rows as Row[];
    };
    return await this.#inTurn(() => this.#patiently(work));
  }

  /** Calls `onNews` after changes by others, as long as the session lasts. False: this server sends no notices. */
  async listen(onNews: () => void): Promise<boolean> {
    this.#onNews = onNews;
    const isTold = await this.#inTurn(() => this.#patiently(() => this.#ofServer(this.#connected().listen(onNews))));
    // A caller that polls can close the connection between two looks.
    if (!isTold) this.#onNews = null;
    return isTold;
  }

  /** For work other than statements of the log: making its tables. */
  async withConnection<T>(work: (connection: ServerConnection) => Promise<T>): Promise<T> {
    return await this.#inTurn(() => this.#patiently(() => this.#ofServer(work(this.#connected()), REPORT_SILENCE_MS)));
  }

  /** Only once nobody asks any more. */
  async close(): Promise<void> {
    this.#isClosed = true;
    const leave = await this.#turns.enter();
    leave();
    if (this.#announcement !== null) await this.#announce();
    await this.#disconnect();
  }

  async #tryTransaction<T>(work: () => Promise<T>): Promise<T> {
    const connection = this.#connected();
    this.turn += 1;
    let result: T;
    try {
      const begun = this.#ofServer(connection.query('begin', []));
      // `begin` is pipelined with the first statement, which fails too if `begin` fails.
      begun.catch(() => {});
      this.inTransaction = true;
      result = await this.#turns.within(work);
      await begun;
    } catch (error) {
      this.rollbacks += 1;
      // All is undone: it may be tried again.
      this.#hasWritten = false;
      if (!connection.isLost) await this.#ofServer(connection.query('rollback', [])).catch(() => this.#disconnect());
      throw error;
    } finally {
      this.inTransaction = false;
    }
    const hasWritten = this.#hasWritten;
    this.#hasWritten = false;
    await this.#commit(connection.query('commit', []), { hasWritten });
    await this.#tellNews();
    return result;
  }

  /** @param isAlone what is asked is all of the transaction: what is refused is undone */
  async #commit(asked: Promise<Answer>, { hasWritten, isAlone = false }: Committing): Promise<Answer> {
    try {
      return await this.#ofServer(asked);
    } catch (error) {
      this.rollbacks += 1;
      const kind = this.#kindOf(error);
      const isUndone = kind === 'conflict' || kind === 'taken' || (kind === null && isAlone);
      if (isUndone || !hasWritten) throw error;
      await this.#disconnect();
      const message = 'The connection to the database was lost during a commit: whether it took place is not known.';
      const unknown = new CommitUnknown(message, { cause: error });
      this.#failures.add(unknown);
      throw unknown;
    }
  }

  async #inTurn<T>(work: () => Promise<T>): Promise<T> {
    const leave = await this.#turns.enter();
    clearTimeout(this.#idle);
    try {
      return await work();
    } catch (error) {
      throw this.#isOfServer(error) ? (describeServerFailure(error, this.#target) ?? error) : error;
    } finally {
      leave();
      this.#rest();
    }
  }

  /** An error from other work is never the server's, whatever its code. */
  async #ofServer<T>(asked: Promise<T>, silenceMs = this.#silenceMs): Promise<T> {
    const connection = this.#connection;
    let timer: NodeJS.Timeout | undefined;
    const silence = new Promise<never>((_, reject) => {
      timer = setTimeout(() => {
        connection?.abandon();
        reject(Object.assign(new Error(`no answer within ${silenceMs / 1_000} s`), { code: 'ETIMEDOUT' }));
      }, silenceMs);
    });
    try {
      return await Promise.race([asked, silence]);
    } catch (error) {
      if (error instanceof Error) this.#failures.add(error);
      throw error;
    } finally {
      clearTimeout(timer);
    }
  }

  #isOfServer(error: unknown): boolean {
    return error instanceof Error && this.#failures.has(error);
  }

  /** Sends a notice at once, or soon if the last one was a moment ago. */
  async #tellNews(): Promise<void> {
    const news = this.#news;
    if (news === 'none') return;
    this.#news = 'none';
    const dueAt = this.#announcedAt + ANNOUNCE_EVERY_MS[news];
    const inMs = dueAt - performance.now();
    if (inMs <= 0) return await this.#announce();
    if (this.#announcement !== null && this.#announcement.dueAt <= dueAt) return;
    clearTimeout(this.#announcement?.timer);
    const timer = setTimeout(() => void this.#inTurn(() => this.#announce()), inMs).unref();
    this.#announcement = { dueAt, timer };
  }

  /** A notice that fails is made up for by polling. */
  async #announce(): Promise<void> {
    clearTimeout(this.#announcement?.timer);
    this.#announcement = null;
    this.#announcedAt = performance.now();
    if (this.#connection?.isLost === false) await this.#ofServer(this.#connection.announce()).catch(() => {});
  }

  /** A session that gets notices keeps its connection. */
  #rest(): void {
    if (this.#connection === null || this.#onNews !== null || this.#isClosed) return;
    clearTimeout(this.#idle);
    this.#idle = setTimeout(() => {
      void this.#inTurn(() => this.#disconnect());
    }, this.#idleMs).unref();
  }

  /** Repeats work that was undone, or never begun, for a while: at random moments, unlike all others. */
  async #patiently<T>(work: () => Promise<T>): Promise<T> {
    if (this.#away !== null && performance.now() - this.#away.at < AWAY_MS) throw this.#away.error;
    // The next callers, while it is away, try once.
    const deadline = performance.now() + (this.#away === null ? this.patienceMs : 0);
    let taken = 0;
    for (let pauseMs = FIRST_PAUSE_MS; ; pauseMs = Math.min(2 * pauseMs, LONGEST_PAUSE_MS)) {
      // Nothing of earlier work is open any more.
      this.#hasWritten = false;
      try {
        await this.#connect();
        return await work();
      } catch (error) {
        const kind = this.#kindOf(error);
        if (kind === 'lost') await this.#disconnect();
        if (kind === 'taken') taken += 1;
        const isOver = performance.now() >= deadline;
        if (isOver && (kind === 'busy' || kind === 'lost')) this.#away = { error, at: performance.now() };
        // A conflict has undone the one statement that it met.
        const mayBeDone = this.#hasWritten && kind !== 'conflict';
        if (kind === null || taken > MOST_TAKEN || mayBeDone || isOver) throw error;
      }
      await sleep(pauseMs * (0.5 + Math.random()));
    }
  }

  #kindOf(error: unknown): ServerFailure | null {
    if (error instanceof RowTaken) return 'taken';
    if (!this.#isOfServer(error) || error instanceof CommitUnknown) return null;
    if (this.#connection?.isLost) return 'lost';
    return this.engine.failures.find(([, codes]) => codes.test(errorCode(error)))?.[0] ?? null;
  }

  async #connect(): Promise<void> {
    if (this.#connection?.isLost) await this.#disconnect();
    if (this.#connection !== null) return;
    this.#connection = await this.#ofServer(this.engine.connect(this.#target, this.dialect));
    this.#away = null;
    this.#step = await this.#readStep();
    await this.onReconnect?.();
    if (this.#onNews !== null) await this.#ofServer(this.#connection.listen(this.#onNews));
    // Changes made while no notices came may be news.
    this.#onNews?.();
  }

  async #readStep(): Promise<number> {
    if (this.dialect.name === 'postgres') return 1;
    return (await this.first<{ step: number }>('select @@auto_increment_increment as step'))?.step ?? 1;
  }

  async #disconnect(): Promise<void> {
    const connection = this.#connection;
    this.#connection = null;
    clearTimeout(this.#idle);
    await connection?.close().catch(() => {});
  }

  #connected(): ServerConnection {
    if (this.#connection === null) throw new Error('a statement outside of its turn');
    return this.#connection;
  }

  async #query(text: string, values: readonly unknown[], news: Announcement = 'change'): Promise<Answer> {
    const connection = this.#connected();
    const reads = /^\s*(select\b|with\b(?!.*\b(insert|update|delete)\b))/is.test(text);
    // Before it is sent: should the connection be lost, nobody knows whether it was done.
    if (!reads) this.#hasWritten = true;
    if (!reads && this.#news !== 'work' && news !== 'none') this.#news = news;
    return await this.#ofServer(connection.query(text, values));
  }
}
