import { setTimeout as sleep } from 'node:timers/promises';
import { errorCode } from '../../system/base/errors.ts';
import type { ServerDialect } from '../shared/sql/dialect.ts';
import type { DatabaseTarget } from './connect/url.ts';

/** The interface to a database server of any kind. */
export interface ServerEngine {
  readonly name: DatabaseTarget['engine'];
  readonly dialect: ServerDialect;
  /** @throws the driver's own error if the server cannot be reached */
  connect(target: DatabaseTarget, dialect: ServerDialect): Promise<ServerConnection>;
  /** By codes of errors. */
  readonly failures: readonly (readonly [ServerFailure, RegExp])[];
  /** Statements that make the tables, by version of the schema: those of version 1 come first. */
  readonly migrations: readonly (readonly string[])[];
  /** Keeps others from migrating while `work` is done. */
  lockMigration<T>(connection: ServerConnection, work: () => Promise<T>): Promise<T>;
  /** Makes what these statements make, unless it is there. */
  make(connection: ServerConnection, statements: readonly string[]): Promise<void>;
}

/**
 * `conflict`: two transactions were in each other's way, and this one was undone: to be tried again. `taken`: somebody
 * else has added a row of that key meanwhile: the next try sees it. `lost`: the connection is gone. `busy`: the server
 * takes no connection just now: too many, or it is starting or stopping.
 */
export type ServerFailure = 'conflict' | 'taken' | 'lost' | 'busy';

export interface Answer {
  readonly rows: readonly object[];
  /** How many rows it has changed, or found as they were to be. */
  readonly changes: number;
  /** Number of the first row that it has added, where the server tells it. */
  readonly insertId: number;
}

/** One connection; a statement after the other. */
export interface ServerConnection {
  /**
   * @param text its values as `?`
   * @param plan `once`: whatever the values are. Left out: as the server thinks best, but once in a transaction
   */
  query(text: string, values: readonly unknown[], plan?: 'once'): Promise<Answer>;
  /** Text and values as the server's own driver takes them: of Kysely. */
  queryAsIs(text: string, values: readonly unknown[]): Promise<Answer>;
  readonly isLost: boolean;
  /**
   * Is told what others have announced from now on, and that the connection is gone. False: this server announces
   * nothing.
   */
  listen(onNews: () => void): Promise<boolean>;
  /** Announces to all who listen that something has changed. */
  announce(): Promise<void>;
  close(): Promise<void>;
  /** Without a word: it does not answer. */
  abandon(): void;
}

/** A statement that waits for a lock longer than this is repeated: no transaction holds a row for long. */
export const LOCK_TIMEOUT_MS = 20_000;

/**
 * A machine that stands still or vanishes within a transaction loses its connection after this long, so that others who
 * wait for its locks get them. It does its transaction again.
 */
export const IDLE_TRANSACTION_MS = LOCK_TIMEOUT_MS / 2;

/**
 * Time without traffic after which a connection is probed. So a caller that waits for a report learns that its server
 * has vanished, and a server keeps no connections of vanished machines.
 */
export const KEEP_ALIVE_MS = 30_000;

/** Code of what a driver says of a server that talks otherwise than those that it is for. */
export const STRANGE_SERVER = 'STRANGE_SERVER';

/** How long a server may take to close a connection, in milliseconds. */
const LAST_WORDS_MS = 2_000;

/** Waits for the end of a connection, but not for long, whatever its result. */
export async function lastWords(end: Promise<unknown>): Promise<void> {
  await Promise.race([end, sleep(LAST_WORDS_MS, undefined, { ref: false })]);
}

/** The driver has no code for some of what it says by itself. */
export function withCode(
  error: unknown,
  codes: readonly (readonly [words: RegExp, code: string])[],
  otherwise?: string,
) {
  if (!(error instanceof Error) || errorCode(error) !== '') return error;
  const code = codes.find(([words]) => words.test(error.message))?.[1] ?? otherwise;
  return code === undefined ? error : Object.assign(error, { code });
}

/** A value as both drivers take it. */
export function toInput(value: unknown): unknown {
  if (value instanceof Uint8Array && !Buffer.isBuffer(value)) return Buffer.from(value);
  if (typeof value === 'boolean') return Number(value);
  return value ?? null;
}

/** Parts of a statement between its placeholders; a `?` within quotes is none. */
export function splitAtPlaceholders(text: string): readonly string[] {
  const known = parts.get(text);
  if (known !== undefined) return known;
  const found = [''];
  for (const [token] of text.matchAll(/'[^']*'|"[^"]*"|\?|[^'"?]+/g)) {
    if (token === '?') found.push('');
    else found[found.length - 1] += token;
  }
  // A list of changing length makes a text of its own: they must not pile up.
  if (parts.size > 2_000) parts.clear();
  parts.set(text, found);
  return found;
}

const parts = new Map<string, readonly string[]>();
