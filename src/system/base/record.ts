import { isInstant } from './values.ts';

/** What the answers of the command line and of the API are made of. `schemaOf` makes the API's schemas of it. */
export type Shape =
  | { readonly kind: 'text' | 'integer' | 'number' | 'flag' | 'instant' | 'json' }
  | { readonly kind: 'words'; readonly words: readonly string[]; readonly name?: string | undefined }
  | { readonly kind: 'list' | 'map'; readonly of: Field }
  | { readonly kind: 'record'; readonly of: Pick<RecordOf<Fields>, 'name' | 'fields'> };

/** One value of an answer, which the program has in another form than JSON. */
export class Field<Value = unknown, Json = unknown, Source extends string = string> {
  readonly shape: Shape;
  readonly isNullable: boolean;
  /** Stands in the API's document. */
  readonly description: string | undefined;
  /** The name in the program's value, in which `*` stands for the field's own. */
  readonly source: Source;
  readonly toJson: (value: Value) => Json;

  constructor(shape: Shape, source: Source, toJson: (value: Value) => Json, isNullable = false, description?: string) {
    this.shape = shape;
    this.source = source;
    this.toJson = toJson;
    this.isNullable = isNullable;
    this.description = description;
  }

  get orNull(): Field<Value | null, Json | null, Source> {
    const toJson = (value: Value | null): Json | null => (value === null ? null : this.toJson(value));
    return new Field(this.shape, this.source, toJson, true, this.description);
  }

  about(description: string): Field<Value, Json, Source> {
    return new Field(this.shape, this.source, this.toJson, this.isNullable, description);
  }

  /** @param source under which name the program has the value */
  from<Other extends string>(source: Other): Field<Value, Json, Other> {
    return new Field(this.shape, source, this.toJson, this.isNullable, this.description);
  }
}

// biome-ignore lint/suspicious/noExplicitAny: what a field takes is known where its record is written, not here.
export type Fields = Readonly<Record<string, Field<any, any>>>;

/** The fields of an answer, each once: of them follow the program's type, the JSON and the schema. */
export interface RecordOf<F extends Fields> {
  /** Its name in the API's document. */
  readonly name: string | null;
  readonly fields: F;
  /** An answer with these fields, in their order; what else the value has is not said. */
  readonly toJson: (value: Values<{ readonly fields: F }>) => JsonOf<{ readonly fields: F }>;
}

type NameIn<Key extends string, Source> = Source extends `*${infer Rest}` ? `${Key}${Rest}` : Source;

type SourceOf<Key, F> = F extends Field<infer _Value, infer _Json, infer Source> ? NameIn<Key & string, Source> : never;

/** What the program has: instants are epoch milliseconds, by names that end in `Ms`. */
export type Values<R> = R extends { readonly fields: infer F }
  ? {
      readonly [Key in keyof F as SourceOf<Key, F[Key]>]: F[Key] extends Field<infer Value, infer _Json>
        ? Value
        : never;
    }
  : never;

/** What is answered: instants are ISO 8601 in UTC. */
export type JsonOf<R> = R extends { readonly fields: infer F }
  ? { [Key in keyof F]: F[Key] extends Field<infer _Value, infer Json> ? Json : never }
  : never;

export function record<const F extends Fields>(name: string | null, fields: F): RecordOf<F> {
  const toJson = (value: Values<RecordOf<F>>): JsonOf<RecordOf<F>> => {
    const values = value as Readonly<Record<string, unknown>>;
    const entries = Object.entries(fields).map(([key, each]) => [
      key,
      each.toJson(values[each.source.replace('*', key)]),
    ]);
    return Object.fromEntries(entries) as JsonOf<RecordOf<F>>;
  };
  return { name, fields, toJson };
}

const plain = <Value>(kind: 'text' | 'integer' | 'number' | 'flag') =>
  new Field({ kind }, '*', (value: Value) => value);

/** An ISO 8601 string in UTC; null where no date can be made of it. */
export function isoInstant(atMs: number | null): string | null {
  return isInstant(atMs) ? new Date(atMs).toISOString() : null;
}

/** The kinds of values. */
export const field = {
  text: plain<string>('text'),
  integer: plain<number>('integer'),
  number: plain<number>('number'),
  flag: plain<boolean>('flag'),
  /** As it was given. */
  // biome-ignore lint/suspicious/noExplicitAny: whoever reads it knows what was given.
  json: new Field({ kind: 'json' }, '*', (value: unknown): any => value),
  /** The program has it as epoch milliseconds, with `Ms` behind its name. */
  instant: new Field({ kind: 'instant' }, '*Ms', (atMs: number) => isoInstant(atMs), true),
  /** The program has it as a date. */
  date: new Field({ kind: 'instant' }, '*', (at: Date) => isoInstant(at.getTime()), true),

  /** @param name in the API's document. Default: none */
  words<const Words extends readonly string[]>(among: Words, name?: string) {
    return new Field({ kind: 'words', words: among, name }, '*', (word: Words[number]) => word);
  },

  list<Value, Json>(of: Field<Value, Json>) {
    const shape: Shape = { kind: 'list', of: of as Field };
    return new Field(shape, '*', (values: readonly Value[]) => values.map((value) => of.toJson(value)));
  },

  /** Values by name. */
  map<Value, Json>(of: Field<Value, Json>) {
    const toJsonOf = (values: Readonly<Record<string, Value>>): Record<string, Json> =>
      Object.fromEntries(Object.entries(values).map(([name, value]) => [name, of.toJson(value)]));
    return new Field({ kind: 'map', of: of as Field }, '*', toJsonOf);
  },

  one<F extends Fields>(of: RecordOf<F>) {
    const shape: Shape = { kind: 'record', of };
    return new Field(shape, '*', (value: Values<RecordOf<F>>) => of.toJson(value));
  },
};
