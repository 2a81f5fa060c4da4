import type { Database } from '../store/open-store.ts';
import { queryRaw } from '../store/raw-query.ts';
import type { NewRow } from './read-new-job.ts';

const insert = `insert into jobs (name, state, data, priority, scheduled_for, run_at, max_attempts,
  retry_delay_ms, retry_factor, retry_longest_ms, repeat, missed, unique_key, group_key, parent_id,
  on_child_failure, lease_ms, created_at) select ${Array.from({ length: 18 }, (_, index) => `value ->> ${index}`).join(', ')}
  from json_each(?) order by key returning id`;

/** What one statement takes is one text, which is not to be of any length. */
const LARGEST_PORTION = 8 * 1024 * 1024;

export function* inPortions(rows: readonly NewRow[]): Generator<readonly NewRow[]> {
  let portion: NewRow[] = [];
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
  const values = JSON.stringify(rows.map(toValues));
  const inserted = await queryRaw<{ id: number }>(db, insert, [values]);
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
