import { type Counted, countedUntil, countingOf, keepMeasured } from '../../shared/counted.ts';
import { sqliteDialect } from '../dialect.ts';
import type { SqliteStatements } from '../session.ts';

export const counting = countingOf(sqliteDialect);

const { measuredJobs, measuredRuns, measuredEvents, runsWithJobs } = counting;

/** Adds what rows tell to what is known of those that are gone; to be run before they go. */
export function keepCounts(counted: Counted): string {
  return `${counting.addCounts(counted)}
    on conflict (handler, what) do update set times = times + excluded.times`;
}

const noteLateRun = keepMeasured(measuredRuns(`${runsWithJobs} where runs.id = ?`, ['?', '?']));
const noteLateJobs = keepMeasured(measuredJobs('id in (select value from json_each(?)) and created_at < ?'));
const noteLateEvent = keepMeasured(measuredEvents('events.id = ?'));

/**
 * Rows of an hour that is closed already: from a replayed spool, a late rescue, or after a clock was set back. The next
 * closing adds their figures to that hour.
 */
export class LateRows {
  readonly #db: SqliteStatements;

  constructor(db: SqliteStatements) {
    this.#db = db;
  }

  /** @param started if its beginning is only known now */
  run(id: number, started: number | null, finished: number | null): void {
    const until = this.#countedUntil();
    const isLate = (at: number | null) => at !== null && at < until;
    if (isLate(started) || isLate(finished)) {
      this.#db.run(noteLateRun, [Number(isLate(started)), Number(isLate(finished)), id]);
    }
  }

  event(id: number, at: number): void {
    if (at < this.#countedUntil()) this.#db.run(noteLateEvent, [id]);
  }

  #countedUntil(): number {
    return this.#db.first<{ until: number }>(`select ${countedUntil} as until`)?.until ?? 0;
  }
}

/** The same of jobs: those of them that were added in an hour that is closed already. */
export function keepLateJobs(db: SqliteStatements, ids: readonly number[], until: number): void {
  db.run(noteLateJobs, [JSON.stringify(ids), until]);
}
