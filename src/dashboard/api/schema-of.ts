import { z } from '@hono/zod-openapi';
import type { Field, Fields, JsonOf, RecordOf, Shape } from '../../system/base/record.ts';

/** The API's schema of an answer, by its fields. */
export function schemaOf<F extends Fields>({ name, fields }: Pick<RecordOf<F>, 'name' | 'fields'>): SchemaOf<F> {
  const schema = z.object(
    Object.fromEntries(Object.entries(fields).map(([key, field]) => [key, schemaOfField(field)])),
  );
  return (name === null ? schema : schema.openapi(name)) as never;
}

type SchemaOf<F extends Fields> = z.ZodObject<{ [Key in keyof F]: z.ZodType<JsonOf<RecordOf<F>>[Key]> }>;

export function schemaOfField<Value, Json>({ shape, isNullable, description }: Field<Value, Json>): z.ZodType<Json> {
  const schema = schemaOfShape(shape);
  // A component of the document stays one.
  const isNamed = (shape.kind === 'record' && shape.of.name !== null) || (shape.kind === 'words' && shape.name);
  const known = !isNullable ? schema : isNamed ? z.union([schema, z.null()]) : schema.nullable();
  return (description === undefined ? known : known.openapi({ description })) as never;
}

function schemaOfShape(shape: Shape): z.ZodType {
  switch (shape.kind) {
    case 'text':
      return z.string();
    case 'integer':
      return z.int();
    case 'number':
      return z.number();
    case 'flag':
      return z.boolean();
    case 'instant':
      return z.iso.datetime();
    case 'json':
      return z.unknown();
    case 'words': {
      const schema = z.enum(shape.words as readonly [string, ...string[]]);
      return shape.name === undefined ? schema : schema.openapi(shape.name);
    }
    case 'list':
      return z.array(schemaOfField(shape.of));
    case 'map':
      return z.record(z.string(), schemaOfField(shape.of));
    case 'record':
      return schemaOf(shape.of);
  }
}
