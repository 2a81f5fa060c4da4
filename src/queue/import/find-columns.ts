import { UsageError } from '../../config/usage-error.ts';
import { type ForeignDatabase, quoteName } from '../../store/foreign-database.ts';

/** What a system's table has. */
export interface KnownTable {
  /** `Bedrock`. */
  readonly system: string;
  readonly table: string;
  readonly needed: readonly string[];
  /** Older versions do not have them yet. */
  readonly optional: readonly string[];
}

/**
 * The columns of the table, all of which are understood.
 *
 * @throws {UsageError} when there is no such table, or it is another one than is expected
 */
export function findColumns(
  database: ForeignDatabase,
  { system, table, needed, optional }: KnownTable,
): ReadonlySet<string> {
  const found = database.columnsOf(table);
  const lower = new Set(found.map((column) => column.toLowerCase()));
  const missing = needed.filter((column) => !lower.has(column.toLowerCase()));
  if (found.length === 0) refuse(system, `there is no table ${table} in it`);
  if (missing.length > 0) refuse(system, `its table ${table} has no ${missing.join(', ')}`);
  const known = new Set([...needed, ...optional].map((column) => column.toLowerCase()));
  const unknown = found.filter((column) => !known.has(column.toLowerCase()));
  if (unknown.length > 0) refuseNewer(system, table, unknown);
  return new Set(optional.filter((column) => lower.has(column.toLowerCase())));
}

function refuse(system: string, what: string): never {
  throw new UsageError(
    `This is no queue of ${system}'s: ${what}; name its SQLite file, and with --table the table of its jobs.`,
  );
}

/** What these columns say may change what is to become of the jobs. */
function refuseNewer(system: string, table: string, unknown: readonly string[]): never {
  throw new UsageError(
    `The table ${table} was made by another version of ${system} than is known here: nobody can say what ` +
      `${unknown.join(', ')} would mean for the jobs; where nothing, make a view without ` +
      `${unknown.length === 1 ? 'that column' : 'those columns'} and name it with --table.`,
  );
}

/** The column as text, exactly: a number beyond 2^53 stays what it is. Null where there is no such column. */
export function asText(column: string, isThere = true): string {
  const name = quoteName(column);
  return isThere ? `cast(${name} as text) as ${name}` : `null as ${name}`;
}
