import type { LogConnection } from '../engines/engines.ts';

type Row = Readonly<Record<string, string | number | null>>;

/** Some servers take longer for a longer statement than for two. */
const ROWS_AT_ONCE = 1_000;

/** Inserts rows that have the same columns, as any server understands it. */
export function insertRows(change: LogConnection['change'], table: string, rows: readonly Row[]): void {
  for (let from = 0; from < rows.length; from += ROWS_AT_ONCE) {
    const some = rows.slice(from, from + ROWS_AT_ONCE);
    const values = some.map((row) => `(${Object.values(row).map(literal).join(', ')})`);
    change(`insert into ${table} (${Object.keys(some[0] ?? {}).join(', ')}) values ${values.join(', ')}`);
  }
}

function literal(value: string | number | null): string {
  return typeof value === 'string' ? `'${value.replaceAll("'", "''")}'` : String(value);
}
