import { type Counted, countedUntil, countingOf, keepMeasured } from '../shared/counted.ts';
import { lock } from '../shared/sql/mutex.ts';
import type { Statements } from '../shared/sql/statements.ts';

/**
 * Keeps what is counted of rows, by whomever; to be run before they go.
 *
 * @param values of all conditions, in the order jobs, runs, events
 */
export async function keepCounted(db: Statements, counted: Counted, values: readonly unknown[]): Promise<void> {
  const { addCounts, keepUncounted } = countingOf(db.dialect);
  const keepCounts = db.dialect.upsert(addCounts(counted), ['handler', 'what'], [['times', 'gone.times + new.times']]);
  await db.run(keepCounts, values);
  await keepFromClosing(db);
  await db.run(keepUncounted(counted), values);
}

const HOUR_MS = 3_600_000;

/** No transaction lasts longer. */
const LONGEST_TRANSACTION_MS = 60_000;

/** How long the reading of the server's clock is valid, in milliseconds. */
const KNOWN_FOR_MS = 60_000;

/** How far hours are closed, and how far they may be before a transaction ends that begins soon. */
interface Hours {
  readonly turn: number;
  readonly closedUntil: number;
  readonly closableUntil: number;
  readonly readAt: number;
}

const known = new WeakMap<Statements, Hours>();

/** Once for each transaction. */
async function readHours(db: Statements): Promise<Hours> {
  const last = known.get(db);
  if (last?.turn === db.turn) return last;
  const hours = { turn: db.turn, ...(db.dialect.name === 'sqlite' ? await readAlone(db) : await readAmongOthers(db)) };
  known.set(db, hours);
  return hours;
}

/** One transaction writes at a time: no hour is closed before its end, and any may be closed behind it. */
async function readAlone(db: Statements): Promise<Omit<Hours, 'turn'>> {
  const found = await db.first<{ until: number }>(`select ${countedUntil} as until`);
  return {
    closedUntil: found?.until ?? 0,
    closableUntil: Number.NEGATIVE_INFINITY,
    readAt: Number.NEGATIVE_INFINITY,
  };
}

async function readAmongOthers(db: Statements): Promise<Omit<Hours, 'turn'>> {
  const found = await db.first<{ until: number; now: number }>(
    `select ${countedUntil} as until, ${db.dialect.nowMs} as now`,
  );
  const { until = 0, now = 0 } = found ?? {};
  const closable = now + KNOWN_FOR_MS + LONGEST_TRANSACTION_MS;
  return { closedUntil: until, closableUntil: closable - (closable % HOUR_MS), readAt: Date.now() };
}

/** Without a look at the log, which most transactions of an hour do without. */
export function isSurelyOpen(db: Statements, at: number): boolean {
  const last = known.get(db);
  return last !== undefined && Math.abs(Date.now() - last.readAt) < KNOWN_FOR_MS && at >= last.closableUntil;
}

/** In which transaction each session has the lock of hours, which a session that closes hours has alone. */
const held = new WeakMap<Statements, number>();

/** Keeps an hour that is over from being closed before the transaction ends. */
async function keepFromClosing(db: Statements): Promise<Hours> {
  const hours = await readHours(db);
  if (hours.closedUntil >= hours.closableUntil || held.get(db) === db.turn) return hours;
  await lock(db, 'hours', 'shared');
  held.set(db, db.turn);
  known.delete(db);
  return await readHours(db);
}

/**
 * Rows of an hour that is closed already: from a replayed spool, a late rescue, or after a clock was set back. The next
 * closing adds their figures to that hour.
 */
export class LateRows {
  readonly #db: Statements;

  constructor(db: Statements) {
    this.#db = db;
  }

  /** Runs that were written; with their beginning, if only now that is known. */
  async runs(runs: readonly { id: number; started: number | null; finished: number | null }[]): Promise<void> {
    const until = await this.#closedUntil(runs.flatMap(({ started, finished }) => [started, finished]));
    const isLate = (at: number | null): boolean => at !== null && at < until;
    for (const [start, end] of [
      [true, false],
      [false, true],
      [true, true],
    ] as const) {
      const late = runs.filter(({ started, finished }) => isLate(started) === start && isLate(finished) === end);
      if (late.length === 0) continue;
      const { measuredRuns, runsWithJobs } = countingOf(this.#db.dialect);
      const from = `${runsWithJobs} where ${this.#db.dialect.isIn('runs.id')}`;
      await this.#db.run(keepMeasured(measuredRuns(from, [String(start), String(end)])), [late.map(({ id }) => id)]);
    }
  }

  async jobs(ids: readonly number[], created: readonly number[]): Promise<void> {
    const until = await this.#closedUntil(created);
    await keepLateJobs(
      this.#db,
      ids.filter((_, index) => (created[index] ?? until) < until),
    );
  }

  /** Events of jobs that have failed without a run. */
  async events(events: readonly { id: number; at: number }[]): Promise<void> {
    const until = await this.#closedUntil(events.map(({ at }) => at));
    const late = events.filter(({ at }) => at < until).map(({ id }) => id);
    if (late.length === 0) return;
    const { dialect } = this.#db;
    await this.#db.run(keepMeasured(countingOf(dialect).measuredEvents(dialect.isIn('events.id'))), [late]);
  }

  async #closedUntil(instants: readonly (number | null)[]): Promise<number> {
    if (instants.every((at) => at === null || isSurelyOpen(this.#db, at))) return Number.NEGATIVE_INFINITY;
    const hours = await readHours(this.#db);
    const isClosable = instants.some((at) => at !== null && at < hours.closableUntil);
    return (isClosable ? await keepFromClosing(this.#db) : hours).closedUntil;
  }
}

/** Keeps jobs that were added in an hour that is closed already. */
export async function keepLateJobs(db: Statements, ids: readonly number[]): Promise<void> {
  if (ids.length === 0) return;
  const { dialect } = db;
  await db.run(keepMeasured(countingOf(dialect).measuredJobs(dialect.isIn('id'))), [ids]);
}
