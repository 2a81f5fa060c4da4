import { StoreUnavailable } from '../../failures.ts';
import { type DatabaseTarget, nameOfDatabase } from './url.ts';

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

/** The flaw of a pooler whose connections share their sessions. */
export const SHARED_SESSIONS =
  'a connection pooler in transaction mode, which has each transaction answered by another connection of PostgreSQL’s: ' +
  'name PostgreSQL itself in the address, or a pool with `pool_mode = session`';

/** @param flaw what the server is, and why that will not do */
export function unfit(target: DatabaseTarget, flaw: string): StoreUnavailable {
  return new StoreUnavailable('refused', `The server of ${nameOfDatabase(target)} is ${flaw}.`);
}
