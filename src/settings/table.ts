import type { ParseResult } from './readers.ts';

/** One place of the settings: a value, a group of places, or one value for each name. */
export type Entry = Setting | { readonly group: SettingsTable } | Each;

export type SettingsTable = Readonly<Record<string, Entry>>;

interface Setting {
  readonly read: { (found: unknown): ParseResult<unknown> | WrongParts; readonly written?: unknown };
  /** Ends the name of the value that is held: `timeout` is held as `timeoutMs`, `maxDatabaseSize` as `maxDatabaseBytes`. */
  readonly unit?: 'Ms' | 'Bytes';
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

/** @template Default of the value itself, or of the group; never: there is none */
type Value<E, Default> = E extends { readonly group: infer Of extends SettingsTable }
  ? ValuesOf<Of, Default>
  : E extends { readonly each: infer Of }
    ? Readonly<Record<string, Value<Of, unknown>>>
    : E extends { readonly read: (found: unknown) => infer Result }
      ? Exclude<Extract<Result, { value: unknown }>['value'], undefined> | Extract<Default, null>
      : never;

/** The values that are read from a table; a setting without a default may be missing. */
export type ValuesOf<Of extends SettingsTable, Defaults = unknown> = {
  readonly [Key in keyof Of & string as Extract<HeldName<Key, Of[Key]>, keyof Defaults>]: Value<
    Of[Key],
    Defaults[HeldName<Key, Of[Key]> & keyof Defaults]
  >;
} & {
  readonly [Key in keyof Of & string as Exclude<HeldName<Key, Of[Key]>, keyof Defaults>]?: Value<Of[Key], unknown>;
};

type Written<E> = E extends { readonly group: infer Of extends SettingsTable }
  ? WrittenIn<Of>
  : E extends { readonly each: infer Of }
    ? Readonly<Record<string, Written<Of>>>
    : E extends { readonly read: { readonly written?: infer Form } }
      ? Form
      : never;

/** The form in which people write the settings of a table. */
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

/** Reads a table. Faults are added to `issues`; settings that are not written take their values from `defaults`. */
export function readTable<Held extends object>(
  table: SettingsTable,
  found: unknown,
  issues: SettingIssue[],
  defaults: Held,
): Held {
  return readGroup(table, found, { path: [], isSecret: false, issues }, defaults) as Held;
}

interface Place {
  readonly path: readonly string[];
  readonly isSecret: boolean;
  readonly issues: SettingIssue[];
}

function readGroup(table: SettingsTable, found: unknown, place: Place, defaults: object = {}): unknown {
  if (!isObject(found)) return refuse(place, 'an object', found);
  const held = new Map<string, unknown>(Object.entries(defaults));
  const values = Object.entries(table).map(([key, entry]) => {
    const name = heldName(key, entry);
    const written = found[key];
    const value =
      written === undefined ? held.get(name) : readEntry(entry, written, within(place, key, entry), held.get(name));
    return [name, value] as const;
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

function readEntry(entry: Entry, found: unknown, place: Place, standard?: unknown): unknown {
  if ('group' in entry) return readGroup(entry.group, found, place, isObject(standard) ? standard : {});
  if ('each' in entry) return readEach(entry, found, place);
  const reading = entry.read(found);
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

/** One wrong value in a tag or a setting. */
export interface Problem {
  /** Relative to the root. */
  readonly file: string;
  readonly line: number | null;
  /** As written in the file: `@timeout`, `tiers.hourly.timeout`. */
  readonly setting: string;
  /** Completes "must be …". */
  readonly expected: string;
  readonly found: unknown;
  /** Completes the setting's name instead of "must be …, found …". */
  readonly statement?: string | undefined;
  /** Whether a message may name only the kind of the value found. */
  readonly isSecret?: boolean;
}

/** `jobs/hourly/clean.sh:3: @timeout must be a duration such as 30s, 10m or 2h, found "10 parsecs"` */
export function describeProblem(problem: Problem): string {
  const place = problem.line === null ? problem.file : `${problem.file}:${problem.line}`;
  if (problem.statement !== undefined) return `${place}: ${problem.setting} ${problem.statement}`;
  const found = problem.isSecret ? describeKind(problem.found) : describeValue(problem.found);
  return `${place}: ${problem.setting} must be ${problem.expected}, found ${found}`;
}

function describeKind(value: unknown): string {
  return typeof value === 'object' || value === undefined ? describeValue(value) : `a ${typeof value}`;
}

const longestShown = 60;

function describeValue(value: unknown): string {
  if (value === undefined) return 'nothing';
  if (typeof value === 'string') return JSON.stringify(shorten(value));
  if (Array.isArray(value)) return value.length === 0 ? 'an empty list' : 'a list';
  if (typeof value === 'object' && value !== null) return 'an object';
  if (typeof value === 'function') return 'a function';
  return String(value);
}

function shorten(text: string): string {
  const letters = [...text];
  return letters.length <= longestShown ? text : `${letters.slice(0, longestShown).join('')}…`;
}
