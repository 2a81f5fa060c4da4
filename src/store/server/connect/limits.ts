import { StoreUnavailable } from '../../failures.ts';
import { type DatabaseTarget, nameOfDatabase } from './url.ts';

/** Nobody holds a row for long: whoever waits for longer than this tries again. */
export const LOCK_TIMEOUT_MS = 20_000;

/**
 * A machine that stands still or vanishes within a transaction loses its connection after this long, so that others who
 * wait for its locks get them. It does its transaction again.
 */
export const IDLE_TRANSACTION_MS = LOCK_TIMEOUT_MS / 2;

/**
 * Who hears nothing for so long asks whether the other machine is still there: who waits for a report learns that its
 * server has vanished, and a server keeps no connections of machines that have.
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
