import type { ParseResult } from './readers.ts';

/** One place of the settings: a value, a group of places, or one value for each name. */
export type Entry = Setting | { readonly group: SettingsTable } | Each;

export type SettingsTable = Readonly<Record<string, Entry>>;

interface Setting {
  readonly read: { (found: unknown): ParseResult<unknown> | WrongParts; readonly written?: unknown };
  /** Ends the name of the value that is held: `timeout` is held as `timeoutMs`, `maxDatabaseSize` as `maxDatabaseBytes`. */
  readonly unit?: 'Ms' | 'Bytes';
  /** The default, as it would be written; null: no value. A setting without a default is held only where it is set. */
  readonly standard?: unknown;
  /** Messages say only of what kind a wrong value is: it may be, or hold, a secret. */
  readonly isSecret?: true;
}

interface Each {
  readonly each: Entry;
  /** The form of the names. Default: any. */
  readonly names?: RegExp;
  readonly isSecret?: true;
}

/** A value of which each part was judged by itself. */
interface WrongParts {
  readonly wrong: readonly Omit<SettingIssue, 'known'>[];
}

type Unit<E> = E extends { readonly unit: infer Name extends string } ? Name : '';

type HeldName<Key extends string, E> = `${Key extends `${infer Stem}Size` ? Stem : Key}${Unit<E>}`;

type IsOptional<E> = E extends { readonly standard: unknown } | { readonly group: unknown } | { readonly each: unknown }
  ? false
  : true;

type Value<E> = E extends { readonly group: infer Of extends SettingsTable }
  ? ValuesOf<Of>
  : E extends { readonly each: infer Of }
    ? Readonly<Record<string, Value<Of>>>
    : E extends { readonly read: (found: unknown) => infer Result }
      ? Exclude<Extract<Result, { value: unknown }>['value'], undefined> | (E extends { standard: null } ? null : never)
      : never;

/** What is held of the settings in a table. */
export type ValuesOf<Of extends SettingsTable> = {
  readonly [Key in keyof Of & string as IsOptional<Of[Key]> extends true ? never : HeldName<Key, Of[Key]>]: Value<
    Of[Key]
  >;
} & {
  readonly [Key in keyof Of & string as IsOptional<Of[Key]> extends true ? HeldName<Key, Of[Key]> : never]?: Value<
    Of[Key]
  >;
};

type Written<E> = E extends { readonly group: infer Of extends SettingsTable }
  ? WrittenIn<Of>
  : E extends { readonly each: infer Of }
    ? Readonly<Record<string, Written<Of>>>
    : E extends { readonly read: { readonly written?: infer Form } }
      ? Form
      : never;

/** What may be written for the settings in a table. */
export type WrittenIn<Of extends SettingsTable> = { readonly [Key in keyof Of]?: Written<Of[Key]> };

/** One wrong value, or an unknown key. */
export interface SettingIssue {
  readonly path: readonly string[];
  readonly expected: string;
  readonly found: unknown;
  readonly isSecret: boolean;
  /** For a key that there is not: the keys that there are in its place. */
  readonly known?: readonly string[];
}

/** The name of the value that is held of a setting. */
export function heldName(key: string, entry: Entry): string {
  return 'unit' in entry ? `${key.replace(/Size$/, '')}${entry.unit}` : key;
}

/** Reads a table with its defaults; whatever is wrong is added to `issues`. */
export function readTable<const Of extends SettingsTable>(
  table: Of,
  found: unknown,
  issues: SettingIssue[],
): ValuesOf<Of> {
  return readGroup(table, found, { path: [], isSecret: false, issues }) as ValuesOf<Of>;
}

interface Place {
  readonly path: readonly string[];
  readonly isSecret: boolean;
  readonly issues: SettingIssue[];
}

function readGroup(table: SettingsTable, found: unknown, place: Place): unknown {
  if (!isObject(found)) return refuse(place, 'an object', found);
  const values = Object.entries(table).map(([key, entry]) => {
    const value = readEntry(entry, found[key], within(place, key, entry));
    return [heldName(key, entry), value] as const;
  });
  const known = Object.keys(table);
  const unknown = Object.keys(found).filter((key) => !known.includes(key));
  place.issues.push(
    ...unknown.map((key) => {
      return { path: [...place.path, key], expected: 'a known setting', found: key, isSecret: false, known };
    }),
  );
  return Object.fromEntries(values.filter(([, value]) => value !== undefined));
}

function readEntry(entry: Entry, found: unknown, place: Place): unknown {
  if ('group' in entry) return readGroup(entry.group, found === undefined ? {} : found, place);
  if ('each' in entry) return readEach(entry, found === undefined ? {} : found, place);
  const written = found === undefined ? entry.standard : found;
  if (written === undefined || (found === undefined && written === null)) return written;
  const reading = entry.read(written);
  if ('value' in reading) return reading.value;
  if ('expected' in reading) return refuse(place, reading.expected, found);
  place.issues.push(...reading.wrong.map((part) => ({ ...part, path: [...place.path, ...part.path] })));
  return undefined;
}

/** A name without a value, as `process.env.X` may give it, is not set. */
function readEach({ each, names }: Each, found: unknown, place: Place): unknown {
  if (!isObject(found)) return refuse(place, 'an object', found);
  const values = Object.entries(found).map(([name, value]) => {
    const at = within(place, name, each);
    if (names?.test(name) === false) return refuse({ ...at, isSecret: false }, 'a name such as API_KEY', name);
    return [name, value === undefined ? undefined : readEntry(each, value, at)] as const;
  });
  return Object.fromEntries(values.flatMap((each) => (each?.[1] === undefined ? [] : [each])));
}

function within(place: Place, key: string, entry: Entry): Place {
  return { ...place, path: [...place.path, key], isSecret: place.isSecret || 'isSecret' in entry };
}

function refuse({ path, isSecret, issues }: Place, expected: string, found: unknown): undefined {
  issues.push({ path, expected, found, isSecret });
}

function isObject(found: unknown): found is Readonly<Record<string, unknown>> {
  return typeof found === 'object' && found !== null && !Array.isArray(found);
}
