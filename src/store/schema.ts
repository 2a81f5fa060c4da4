import type { RowOf } from './columns.ts';
import type { notOfEnd, tables } from './tables.ts';
import type { ActivityEvent } from './words.ts';

/** Versions of the schema: the first one, which no log is older than, and the one that this runner makes. */
export const FIRST_SCHEMA = 4;
export const SCHEMA_VERSION = 5;

/** Whether a log was made before the first release: nothing brings it to a later schema. */
export function isUnreleased(version: number): boolean {
  return version > 0 && version < FIRST_SCHEMA;
}

/** How many steps lead from no tables to this version; of one below the first one: none. */
export function stepsTo(version: number): number {
  return Math.max(0, version - FIRST_SCHEMA + 1);
}

/** The versions after the first one, each of which has added columns. */
export const laterVersions: readonly number[] = Array.from(
  { length: SCHEMA_VERSION - FIRST_SCHEMA },
  (_, index) => FIRST_SCHEMA + 1 + index,
);

type Tables = { readonly [Name in keyof typeof tables]: RowOf<(typeof tables)[Name]> };

/** Rows of each table and view, as they are read. */
export interface ActivityLog extends Tables {
  readonly activity: ActivityView;
}

/** View over workers, jobs, runs and events: every transition of a job, run or worker. */
export interface ActivityView extends Omit<Tables['events'], 'id' | 'event'> {
  readonly event: ActivityEvent;
  /** The warning at the end of a run. */
  readonly warning: string | null;
}

export type JobRow = Tables['jobs'];
export type RunRow = Tables['runs'];
export type IncidentRow = Tables['incidents'];

/** A worker with the host that it ran on. */
export type WorkerRow = Tables['workers'] & Omit<Tables['hosts'], 'id'>;

/** The facts about a run once it has ended, as in its row and its output. */
export type FinishedRun = Omit<RunRow, (typeof notOfEnd)[number]> & {
  readonly output: string | null;
  /** The pid of its process; null or absent: only the pid in the row, if any, is known. */
  readonly pid?: number | null;
  /** The script's counts, by name. */
  readonly counts?: Readonly<Record<string, number>>;
};
