import { z } from '@hono/zod-openapi';
import type { Field, Fields, RecordOf, Shape } from '../../system/base/record.ts';
import type { AnswerRecord } from './left-out.ts';

const records = new WeakMap<object, AnswerRecord>();

/** The record that a schema was made of; null: none. */
export function recordOf(schema: object | undefined): AnswerRecord | null {
  return (schema && records.get(schema)) ?? null;
}

/** The API's schema of an answer, by its fields. */
export function schemaOf<F extends Fields>(record: Pick<RecordOf<F>, 'name' | 'fields'>): SchemaOf<F> {
  const { name, fields } = record;
  const plain = z.object(Object.fromEntries(Object.entries(fields).map(([key, field]) => [key, schemaOfField(field)])));
  const schema = name === null ? plain : plain.openapi(name);
  records.set(schema, record);
  return schema as never;
}

type SchemaOf<F extends Fields> = z.ZodObject<{ [Key in keyof F]: SchemaOfField<F[Key]> }>;

type SchemaOfField<F> =
  F extends Field<infer _Value, infer Json>
    ? F extends { readonly isOptional: true }
      ? z.ZodOptional<z.ZodType<Json>>
      : z.ZodType<Json>
    : never;

export function schemaOfField<Value, Json>(field: Field<Value, Json>): z.ZodType<Json> {
  const { shape, isNullable, isOptional, description, example } = field;
  const schema = schemaOfShape(shape);
  // A component of the document stays one.
  const isNamed = (shape.kind === 'record' && shape.of.name !== null) || (shape.kind === 'words' && shape.name);
  const orNull = !isNullable ? schema : isNamed ? z.union([schema, z.null()]) : schema.nullable();
  const known = isOptional ? orNull.optional() : orNull;
  if (description === undefined && example === undefined) return known as never;
  return known.openapi({ ...(description && { description }), ...(example !== undefined && { example }) }) as never;
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
