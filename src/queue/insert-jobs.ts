import type { Database } from '../store/open-store.ts';
import { queryRaw } from '../store/raw-query.ts';
import type { NewRow } from './read-new-job.ts';

/** The columns of a job that has begun elsewhere: in another queue, from which it is imported. */
export interface BegunRow extends NewRow {
  readonly started_at: number | null;
  readonly finished_at: number | null;
  readonly attempts: number;
  readonly reserves: number;
  readonly reason: string | null;
}

const newColumns = [
  ...['name', 'state', 'data', 'priority', 'scheduled_for', 'run_at', 'max_attempts'],
  ...['retry_delay_ms', 'retry_factor', 'retry_longest_ms', 'repeat', 'missed', 'unique_key'],
  ...['group_key', 'parent_id', 'on_child_failure', 'lease_ms', 'created_at'],
];

const begunColumns = ['started_at', 'finished_at', 'attempts', 'reserves', 'reason'];

const insertNew = insertInto(newColumns);
const insertBegun = insertInto([...newColumns, ...begunColumns]);

function insertInto(columns: readonly string[]): string {
  const values = columns.map((_, index) => `value ->> ${index}`).join(', ');
  return `insert into jobs (${columns.join(', ')}) select ${values} from json_each(?) order by key returning id`;
}

/** What one statement takes is one text, which is not to be of any length. */
const LARGEST_PORTION = 8 * 1024 * 1024;

export function* inPortions<Row extends NewRow>(rows: readonly Row[]): Generator<readonly Row[]> {
  let portion: Row[] = [];
  let length = 0;
  for (const row of rows) {
    if (length + row.data.length > LARGEST_PORTION) {
      yield portion;
      portion = [];
      length = 0;
    }
    portion.push(row);
    length += row.data.length;
  }
  yield portion;
}

/** One statement for as many as there are: what it costs to build and compile one is a row's price. */
export async function insertJobs(db: Database, rows: readonly NewRow[]): Promise<number[]> {
  return await insertValues(db, insertNew, rows.map(toValues));
}

/** The same of jobs that have begun elsewhere. */
export async function insertBegunJobs(db: Database, rows: readonly BegunRow[]): Promise<number[]> {
  const values = rows.map((row) => {
    const { started_at, finished_at, attempts, reserves, reason } = row;
    return [...toValues(row), started_at, finished_at, attempts, reserves, reason];
  });
  return await insertValues(db, insertBegun, values);
}

async function insertValues(
  db: Database,
  statement: string,
  values: readonly (readonly unknown[])[],
): Promise<number[]> {
  const inserted = await queryRaw<{ id: number }>(db, statement, [JSON.stringify(values)]);
  // SQLite hands out ids in the order of the rows, but promises no order of RETURNING's.
  return inserted.map(({ id }) => id).sort((one, other) => one - other);
}

function toValues(row: NewRow): readonly unknown[] {
  const { name, state, data, priority, scheduled_for, run_at, max_attempts } = row;
  const { retry_delay_ms, retry_factor, retry_longest_ms, repeat, missed, unique_key } = row;
  const { group_key, parent_id, on_child_failure, lease_ms, created_at } = row;
  return [
    ...[name, state, data, priority, scheduled_for, run_at, max_attempts],
    ...[retry_delay_ms, retry_factor, retry_longest_ms, repeat, missed, unique_key],
    ...[group_key, parent_id, on_child_failure, lease_ms, created_at],
  ];
}
