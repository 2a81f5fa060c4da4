import { type Storage, storageOf, type TableDefinition } from '../columns.ts';
import { tables } from '../tables.ts';

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
  readonly kind: Storage;
}

/** All that hold something to be moved; what rows refer to comes before them. */
export const logTables: readonly LogTable[] = Object.entries<TableDefinition>(tables)
  .filter(([, { isOnServersAlone }]) => !isOnServersAlone)
  .map(([name, { columns, key }]) => {
    const kinds = Object.entries(columns).map(([column, each]) => ({ name: column, kind: storageOf(each) }));
    const [first] = kinds.filter((column) => column.name === key[0]);
    return { name, columns: kinds, key, page: first?.kind === 'integer' ? first.name : null };
  });
