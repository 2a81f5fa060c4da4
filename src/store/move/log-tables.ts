import { findDriver } from '../sqlite/driver.ts';
import { migrateFile } from '../sqlite/migrations.ts';

/** A table of the log, as every engine has it. */
export interface LogTable {
  readonly name: string;
  readonly columns: readonly LogColumn[];
  /** The columns that distinguish its rows; empty: none do. */
  readonly key: readonly string[];
  /**
   * The first column of the key if it is a number: the table is copied in ranges of it. Null: the table is copied as a
   * whole.
   */
  readonly page: string | null;
}

export interface LogColumn {
  readonly name: string;
  readonly kind: 'integer' | 'real' | 'text' | 'blob';
}

interface FoundColumn {
  readonly name: string;
  readonly type: string;
  readonly pk: number;
}

/** All tables; what rows refer to comes before them. They are those that a new log is made with. */
export async function readLogTables(): Promise<readonly LogTable[]> {
  const { driver } = await findDriver();
  const pristine = driver.open(':memory:', { timeoutMs: 0 });
  try {
    migrateFile(pristine);
    const names = pristine.prepare(`select name from sqlite_master where type = 'table' and name not like 'sqlite~_%'
      escape '~' order by rowid`);
    const columnsOf = pristine.prepare('select name, lower(type) as type, pk from pragma_table_info(?)');
    return (names.all([]) as { readonly name: string }[]).map(({ name }) =>
      toTable(name, columnsOf.all([name]) as FoundColumn[]),
    );
  } finally {
    pristine.close();
  }
}

function toTable(name: string, found: readonly FoundColumn[]): LogTable {
  const columns = found.map((column) => ({ name: column.name, kind: column.type as LogColumn['kind'] }));
  const keyed = found.filter(({ pk }) => pk > 0).sort((one, other) => one.pk - other.pk);
  const [first] = keyed;
  return {
    name,
    columns,
    key: keyed.map((column) => column.name),
    page: first?.type === 'integer' ? first.name : null,
  };
}
