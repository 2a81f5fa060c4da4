/** A schema of the API's document, as far as examples follow from it. */
interface Schema {
  readonly $ref?: string;
  readonly example?: unknown;
  readonly default?: unknown;
  readonly const?: unknown;
  readonly enum?: readonly unknown[];
  readonly type?: string | readonly string[];
  readonly format?: string;
  readonly minimum?: number;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly required?: readonly string[];
  readonly items?: Schema;
  readonly additionalProperties?: Schema | boolean;
  readonly anyOf?: readonly Schema[];
  readonly oneOf?: readonly Schema[];
  readonly allOf?: readonly Schema[];
}

type Schemas = Readonly<Record<string, Schema>>;

interface Content {
  readonly schema?: Schema;
  example?: unknown;
}

interface Operation {
  readonly requestBody?: { readonly content: Readonly<Record<string, Content>> };
  readonly responses?: Readonly<Record<string, { readonly content?: Readonly<Record<string, Content>> }>>;
}

interface Document {
  readonly paths?: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
  readonly components?: { readonly schemas?: Schemas };
}

/** Gives each operation an example of its body and of its answers: they follow from the fields of their schemas. */
export function addExamples(document: object): void {
  const { paths = {}, components: { schemas = {} } = {} } = document as Document;
  for (const { requestBody, responses = {} } of Object.values(paths).flatMap((item) => Object.values(item))) {
    for (const content of Object.values(requestBody?.content ?? {}))
      content.example = new Examples(schemas, true).of(content.schema);
    for (const { content = {} } of Object.values(responses))
      for (const each of Object.values(content)) each.example = new Examples(schemas, false).of(each.schema);
  }
}

const INSTANT = '2026-11-03T14:05:09.123Z';

/** By the unit at the end of a field's name. */
const byUnit: readonly (readonly [ending: RegExp, value: number])[] = [
  [/Ms$/, 1200],
  [/Bytes$/, 4_194_304],
  [/(?:Rate|share|utilization)$/i, 0.95],
];

/** A text without an example of its own, and not one of some words. */
function isPlainText({ type, example, enum: words }: Schema = {}): boolean {
  return type === 'string' && example === undefined && words === undefined;
}

class Examples {
  readonly #schemas: Schemas;
  readonly #isRequest: boolean;

  /** @param isRequest whether fields that may be left out are, unless they have an example of their own */
  constructor(schemas: Schemas, isRequest: boolean) {
    this.#schemas = schemas;
    this.#isRequest = isRequest;
  }

  of(schema: Schema | undefined, name = ''): unknown {
    if (schema === undefined) return {};
    const { $ref, anyOf, oneOf, allOf } = schema;
    if (schema.example !== undefined) return schema.example;
    if (schema.default !== undefined) return schema.default;
    if (schema.const !== undefined) return schema.const;
    if (schema.enum !== undefined) return schema.enum[0];
    if ($ref !== undefined) return this.of(this.#schemas[$ref.replace('#/components/schemas/', '')], name);
    const [known] = [...(anyOf ?? oneOf ?? allOf ?? [])].filter(({ type }) => type !== 'null');
    return known === undefined ? this.#ofType(schema, name) : this.of(known, name);
  }

  #ofType(schema: Schema, name: string): unknown {
    const { type = 'object', format, items, additionalProperties } = schema;
    const [kind] = [type].flat().filter((each) => each !== 'null');
    if (kind === 'string') return format === 'date-time' ? INSTANT : '(text)';
    if (kind === 'boolean') return false;
    if (kind === 'integer' || kind === 'number') {
      return byUnit.find(([ending]) => ending.test(name))?.[1] ?? Math.max(1, schema.minimum ?? 1);
    }
    if (kind === 'array') return isPlainText(items) ? [] : [this.of(items, name)];
    if (typeof additionalProperties === 'object') return { orders: this.of(additionalProperties, 'order') };
    return this.#ofObject(schema);
  }

  #ofObject({ properties = {}, required = [] }: Schema): object {
    const shown = Object.entries(properties).filter(
      ([name, { example }]) => !this.#isRequest || required.includes(name) || example !== undefined,
    );
    return Object.fromEntries(shown.map(([name, schema]) => [name, this.of(schema, name)]));
  }
}
