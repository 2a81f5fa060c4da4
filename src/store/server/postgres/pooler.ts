import { setTimeout as sleep } from 'node:timers/promises';
import type pg from 'pg';

/** Longest wait for a second connection: a pool in session mode may have none left. */
const PATIENCE_MS = 2_000;

/** Longest wait for an answer: a pool in transaction mode may have one connection, and that has a transaction. */
const HELD_MS = 500;

/**
 * Whether a pooler gives each transaction whatever connection of PostgreSQL is free. Two of its connections that meet
 * the same backend, or one that meets two, prove that; they leave nothing behind.
 *
 * @param one a connection that is open, and has no transaction
 * @param open opens another one
 */
export async function sharesSessions(one: pg.Client, open: () => Promise<pg.Client>): Promise<boolean> {
  const opening = open();
  const other = await Promise.race([opening.catch(() => null), sleep(PATIENCE_MS, null, { ref: false })]);
  if (other === null) {
    // Whenever it comes.
    opening.then(end, () => {});
    return false;
  }
  try {
    return await meetAnother(one, other);
  } finally {
    end(other);
  }
}

function end(client: pg.Client): void {
  client.connection.stream.destroy();
}

/** While one has a transaction, the other needs a backend of its own; asked twice after that, it keeps it or does not. */
async function meetAnother(one: pg.Client, other: pg.Client): Promise<boolean> {
  try {
    await one.query('begin');
  } catch (error) {
    if (/statement pooling/.test((error as Error).message)) return true;
    throw error;
  }
  const held = await backendOf(one);
  const first = backendOf(other);
  await Promise.race([first, sleep(HELD_MS, undefined, { ref: false })]);
  await one.query('commit');
  const ofOther = await withinPatience(first, async () => [
    await first,
    await backendOf(other),
    await backendOf(other),
  ]);
  if (ofOther === null) return false;
  const ofOne = [held, await backendOf(one)];
  return new Set(ofOne).size > 1 || new Set(ofOther).size > 1 || ofOther.some((pid) => ofOne.includes(pid));
}

/** Null: there was no first answer in time, as of a pool in session mode that has no connection left. */
async function withinPatience<T>(first: Promise<unknown>, rest: () => Promise<T>): Promise<T | null> {
  const late = sleep(PATIENCE_MS, null, { ref: false });
  const isThere = await Promise.race([first.then(() => true as const).catch(() => null), late]);
  return isThere === null ? null : await rest();
}

/** As simple text: what is prepared stays in a connection that others use next. */
async function backendOf(client: pg.Client): Promise<number> {
  const { rows } = await client.query('select pg_backend_pid() as pid');
  return rows[0]?.pid;
}
