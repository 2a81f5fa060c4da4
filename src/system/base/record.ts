import { isInstant } from './values.ts';

/** The shape of values in answers of the command line and of the API. `schemaOf` makes the API's schemas of it. */
export type Shape =
  | { readonly kind: 'text' | 'integer' | 'number' | 'flag' | 'instant' | 'json' }
  | { readonly kind: 'words'; readonly words: readonly string[]; readonly name?: string | undefined }
  | { readonly kind: 'list' | 'map'; readonly of: Field }
  | { readonly kind: 'record'; readonly of: Pick<RecordOf<Fields>, 'name' | 'fields'> };

/**
 * The content of a field in a report that anybody may see: the value, a replacement for a value that exists, or
 * nothing. Fields that say nothing about it are left out.
 */
type InPublic = 'shown' | 'left-out' | ((value: unknown, of: Readonly<Record<string, unknown>>) => unknown);

/** Stands where such a report, or a page for a wall, leaves out what a script may have said. */
export const LEFT_OUT = 'left out here';

/** One value of an answer, which the program has in another form than JSON. */
export class Field<Value = unknown, Json = unknown, Source extends string = string> {
  readonly shape: Shape;
  readonly isNullable: boolean;
  readonly isOptional: boolean;
  /** Stands in the API's document. */
  readonly description: string | undefined;
  /** A value in the document's examples. Default: by the kind and the unit of the field. */
  readonly example: Json | undefined;
  /** The name in the program's value, in which `*` stands for the field's own. */
  readonly source: Source;
  readonly toJson: (value: Value) => Json;
  readonly inPublic: InPublic;

  constructor(parts: Parts<Value, Json, Source>) {
    this.shape = parts.shape;
    this.isNullable = parts.isNullable ?? false;
    this.isOptional = parts.isOptional ?? false;
    this.description = parts.description;
    this.example = parts.example;
    this.source = parts.source;
    this.toJson = parts.toJson;
    this.inPublic = parts.inPublic;
  }

  get orNull(): Field<Value | null, Json | null, Source> {
    const toJson = (value: Value | null): Json | null => (value === null ? null : this.toJson(value));
    return new Field({ ...this, toJson, isNullable: true });
  }

  /** The answer may lack it. */
  get optional(): OptionalField<Value, Json, Source> {
    const toJson = (value: Value | undefined): Json | undefined =>
      value === undefined ? undefined : this.toJson(value);
    return new Field({ ...this, toJson, isOptional: true }) as OptionalField<Value, Json, Source>;
  }

  like(example: NonNullable<Json>): Field<Value, Json, Source> {
    return new Field({ ...this, example });
  }

  about(description: string): Field<Value, Json, Source> {
    return new Field({ ...this, description });
  }

  /** @param source under which name the program has the value */
  from<Other extends string>(source: Other): Field<Value, Json, Other> {
    return new Field({ ...this, source });
  }

  /** @param replace what a public report says instead of a value that is there */
  inPublicAs(replace: (value: Json, of: Readonly<Record<string, unknown>>) => unknown): Field<Value, Json, Source> {
    return new Field({ ...this, inPublic: replace as InPublic });
  }
}

type Parts<Value, Json, Source extends string> = Pick<
  Field<Value, Json, Source>,
  'shape' | 'source' | 'toJson' | 'inPublic'
> &
  Partial<Pick<Field, 'isNullable' | 'isOptional' | 'description'>> & { readonly example?: Json | undefined };

type OptionalField<Value, Json, Source extends string> = Field<Value | undefined, Json | undefined, Source> & {
  readonly isOptional: true;
};

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

type OptionalIn<F> = { [Key in keyof F]: F[Key] extends { readonly isOptional: true } ? Key : never }[keyof F];

type ValuesOf<F> = {
  readonly [Key in keyof F as SourceOf<Key, F[Key]>]: F[Key] extends Field<infer Value, infer _Json> ? Value : never;
};

/** The program's values: instants are epoch milliseconds, by names that end in `Ms`. */
export type Values<R> = R extends { readonly fields: infer F }
  ? ValuesOf<Omit<F, OptionalIn<F>>> & Partial<ValuesOf<Pick<F, OptionalIn<F>>>>
  : never;

type JsonIn<F> = { [Key in keyof F]: F[Key] extends Field<infer _Value, infer Json> ? Json : never };

/** The answer's values: instants are ISO 8601 in UTC. */
export type JsonOf<R> = R extends { readonly fields: infer F }
  ? JsonIn<Omit<F, OptionalIn<F>>> & Partial<JsonIn<Pick<F, OptionalIn<F>>>>
  : never;

export function record<const F extends Fields>(name: string | null, fields: F): RecordOf<F> {
  let named: readonly { readonly key: string; readonly source: string; readonly field: Field }[] | undefined;
  const toJson = (value: Values<RecordOf<F>>): JsonOf<RecordOf<F>> => {
    named ??= Object.entries(fields).map(([key, field]) => ({ key, source: field.source.replace('*', key), field }));
    const values = value as Readonly<Record<string, unknown>>;
    const json: Record<string, unknown> = {};
    for (const { key, source, field } of named) {
      const known = field.toJson(values[source]);
      if (known !== undefined || !field.isOptional) json[key] = known;
    }
    return json as JsonOf<RecordOf<F>>;
  };
  return { name, fields, toJson };
}

/** An ISO 8601 string in UTC; null where no date can be made of it. */
export function isoInstant(atMs: number | null): string | null {
  return isInstant(atMs) ? new Date(atMs).toISOString() : null;
}

const kindsOf = (inPublic: InPublic) => {
  const kind = <Value, Json>(shape: Shape, toJson: (value: Value) => Json) =>
    new Field({ shape, source: '*', toJson, inPublic });
  const plain = <Value>(named: 'text' | 'integer' | 'number' | 'flag') =>
    kind({ kind: named }, (value: Value) => value);
  const instant = kind({ kind: 'instant' }, (atMs: number) => isoInstant(atMs));
  return {
    text: plain<string>('text'),
    integer: plain<number>('integer'),
    number: plain<number>('number'),
    flag: plain<boolean>('flag'),
    /** As it was given. */
    // biome-ignore lint/suspicious/noExplicitAny: whoever reads it knows what was given.
    json: kind({ kind: 'json' }, (value: unknown): any => value),
    /** The program has it as epoch milliseconds, with `Ms` behind its name. */
    instant: new Field({ ...instant, source: '*Ms', isNullable: true }),
    /** The program has it as a date. */
    date: new Field({ ...instant, toJson: (at: Date) => isoInstant(at.getTime()), isNullable: true }),

    /** @param name in the API's document. Default: none */
    words: <const Words extends readonly string[]>(among: Words, name?: string) =>
      kind({ kind: 'words', words: among, name }, (word: Words[number]) => word),

    list: <Value, Json>(of: Field<Value, Json>) =>
      kind({ kind: 'list', of: of as Field }, (values: readonly Value[]) => values.map((value) => of.toJson(value))),

    /** Values by name. */
    map: <Value, Json>(of: Field<Value, Json>) =>
      kind(
        { kind: 'map', of: of as Field },
        (values: Readonly<Record<string, Value>>): Record<string, Json> =>
          Object.fromEntries(Object.entries(values).map(([name, value]) => [name, of.toJson(value)])),
      ),

    one: <F extends Fields>(of: RecordOf<F>) =>
      kind({ kind: 'record', of }, (value: Values<RecordOf<F>>) => of.toJson(value)),
  };
};

/** The kinds of values, of fields that a public report leaves out. */
export const field = kindsOf('left-out');

/** The same, of fields that anybody may see: none that holds what scripts print, count and throw, or what jobs carry. */
export const shown = kindsOf('shown');

/** A text that quotes scripts: a public report tells that there is one. */
export const quoting = field.text.like('exit code 3').inPublicAs(() => LEFT_OUT);

/** The name of a person, for whoever may log in: a public report names nobody. */
export const person = field.text.like('user ada').inPublicAs(() => null);
