/** The notation of `tables.ts`: columns with their types, in TypeScript and in SQL. */

/** The type of a column. `name`: `queue/` and 512 characters, which an index can hold; `word`: up to 64. */
export type Kind = 'id' | 'integer' | 'real' | 'text' | 'name' | 'word' | 'json' | 'blob';

/** How SQLite keeps it. */
export type Storage = 'integer' | 'real' | 'text' | 'blob';

export type EngineName = 'sqlite' | 'postgres' | 'mysql';

/** SQLite's message if the condition does not hold; servers have only the condition. */
interface Check {
  readonly sqlite?: readonly [sentence: string, condition: string];
  readonly servers?: string;
}

interface ColumnFacts {
  readonly kind: Kind;
  readonly isNullable?: boolean;
  readonly isUnique?: boolean;
  /** A whole number: `isCount` means at least 0, `isFlag` means 1 or 0. */
  readonly isCount?: boolean;
  readonly isFlag?: boolean;
  /** An id that is not given out again, even after its row was deleted. Servers never give one out again. */
  readonly isNeverReused?: boolean;
  /** `now`: milliseconds since 1970, by the clock of the engine. */
  readonly default?: string | number | typeof now;
  /** All that it may be, and where that is checked. */
  readonly values?: readonly string[];
  readonly areCheckedBy?: 'all' | 'sqlite';
  readonly check?: Check;
  /** A table whose row this one goes with, and the engine that sees to it otherwise. */
  readonly partOf?: { readonly table: string; readonly butOn: EngineName | null };
  /** The version of the schema that has added it to its table; absent: the one that has made the table. */
  readonly since?: number;
}

export const now = Symbol('now');

export class ColumnDefinition<T = unknown> {
  /** Only a type. */
  declare readonly value: T;
  readonly facts: ColumnFacts;

  constructor(facts: ColumnFacts) {
    this.facts = facts;
  }

  get orNull(): ColumnDefinition<T | null> {
    return this.#with({ isNullable: true });
  }

  get unique(): ColumnDefinition<T> {
    return this.#with({ isUnique: true });
  }

  get neverReused(): ColumnDefinition<T> {
    return this.#with({ isNeverReused: true });
  }

  /** A text that is one of these, which nothing checks. */
  as<U extends T>(): ColumnDefinition<U> {
    return this.#with({});
  }

  /** @param areCheckedBy `sqlite`: servers are spared checks of what only the runner writes */
  oneOf<const U extends T & string>(values: readonly U[], areCheckedBy: 'all' | 'sqlite' = 'all'): ColumnDefinition<U> {
    return this.#with({ values, areCheckedBy });
  }

  default(value: string | number | typeof now): ColumnDefinition<T> {
    return this.#with({ default: value });
  }

  check(check: Check): ColumnDefinition<T> {
    return this.#with({ check });
  }

  /** Its row goes with that of the other table. */
  partOf(table: string, butOn: EngineName | null = null): ColumnDefinition<T> {
    return this.#with({ partOf: { table, butOn } });
  }

  /** A released table has it from this version of the schema on. */
  since(version: number): ColumnDefinition<T> {
    return this.#with({ since: version });
  }

  #with<U>(facts: Partial<ColumnFacts>): ColumnDefinition<U> {
    return new ColumnDefinition<U>({ ...this.facts, ...facts });
  }
}

export const id = new ColumnDefinition<number>({ kind: 'id' });
export const integer = new ColumnDefinition<number>({ kind: 'integer' });
/** A whole number from 0 on. */
export const count = new ColumnDefinition<number>({ kind: 'integer', isCount: true });
export const flag = new ColumnDefinition<number>({ kind: 'integer', isFlag: true });
/** UTC epoch milliseconds. */
export const instant = integer;
export const real = new ColumnDefinition<number>({ kind: 'real' });
export const text = new ColumnDefinition<string>({ kind: 'text' });
export const name = new ColumnDefinition<string>({ kind: 'name' });
export const word = new ColumnDefinition<string>({ kind: 'word' });
export const json = new ColumnDefinition<string>({ kind: 'json' });
export const blob = new ColumnDefinition<Uint8Array>({ kind: 'blob' });

export function storageOf({ facts: { kind } }: ColumnDefinition): Storage {
  if (kind === 'id') return 'integer';
  return kind === 'integer' || kind === 'real' || kind === 'blob' ? kind : 'text';
}

type Columns = Readonly<Record<string, ColumnDefinition>>;

/**
 * The text after `create index … on …`, by engine; `all` stands for engines that are not named. Other engines lack the
 * index.
 */
type IndexTexts = { readonly [Engine in EngineName | 'all']?: string };
type Index = string | (IndexTexts & { readonly isUnique?: boolean });

interface TableFacts<Name extends string = string> {
  readonly unique?: readonly Name[];
  readonly indexes?: Readonly<Record<string, Index>>;
  /** Conditions for every row of SQLite, by the sentence to say if one does not hold. */
  readonly sqliteChecks?: Readonly<Record<string, string>>;
  /** An index of MySQL's holds all rows: what makes a row one of few is a column, which is null in all others. */
  readonly computedOnMysql?: readonly string[];
  /** There is none in SQLite's file. */
  readonly isOnServersAlone?: boolean;
}

export interface TableDefinition<C = Columns, Key extends string = string> extends TableFacts {
  readonly columns: C;
  /** The columns that identify a row; without any, servers number the rows. */
  readonly key: readonly Key[];
}

/** @param key left out: `id`, or nothing */
export function table<C extends Columns, const Key extends keyof C & string>(
  columns: C,
  { key, ...facts }: TableFacts<keyof C & string> & { readonly key?: readonly Key[] } = {},
): TableDefinition<C, Key> {
  return { ...facts, columns, key: key ?? (('id' in columns ? ['id'] : []) as unknown as Key[]) };
}

export const unique = (index: IndexTexts): Index => ({ ...index, isUnique: true });

/** A row as it is read. */
export type RowOf<T> = T extends { readonly columns: infer C }
  ? { readonly [Name in keyof C]: C[Name] extends ColumnDefinition<infer V> ? V : never }
  : never;

/** Names of the columns, but for these. */
export function columnsOf<C extends Columns, Left extends keyof C = never>(
  { columns }: TableDefinition<C>,
  left: readonly Left[] = [],
): readonly Exclude<keyof C & string, Left>[] {
  return Object.keys(columns).filter((column) => !left.some((each) => each === column)) as Exclude<
    keyof C & string,
    Left
  >[];
}

/** The columns that a version of the schema has added to a table; undefined: those that it was made with. */
export function addedBy(version: number | undefined, { columns }: TableDefinition): [string, ColumnDefinition][] {
  return Object.entries<ColumnDefinition>(columns).filter(([, { facts }]) => facts.since === version);
}

interface IndexOnEngine {
  readonly name: string;
  readonly isUnique: boolean;
  /** Its columns, and which rows it has. */
  readonly on: string;
}

/** Indexes of a table that an engine has. */
export function indexesOn(engine: EngineName, { indexes = {} }: TableDefinition): readonly IndexOnEngine[] {
  return Object.entries(indexes).flatMap(([name, index]) => {
    const { isUnique = false, ...of } = typeof index === 'string' ? { all: index } : index;
    const on = of[engine] ?? of.all;
    return on === undefined ? [] : [{ name, isUnique, on }];
  });
}

/** A condition: the column has one of its values. */
export function hasValue(column: string, values: readonly string[]): string {
  return `${column} in (${values.map(literal).join(', ')})`;
}

export function literal(value: string | number): string {
  return typeof value === 'number' ? String(value) : `'${value}'`;
}
