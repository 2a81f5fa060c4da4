import type { Field, Fields, RecordOf, Shape } from '../../system/base/record.ts';

/** The record that an answer is made of. */
export type AnswerRecord = Pick<RecordOf<Fields>, 'name' | 'fields'>;

/**
 * An answer without what scripts have printed or thrown, and what jobs carry: a page that others may see says that
 * something failed, when and how often, not what was said of it. Each field of the record tells what may be shown.
 */
export function leaveOut({ fields }: AnswerRecord, answer: object): object {
  const of = answer as Readonly<Record<string, unknown>>;
  return Object.fromEntries(Object.entries(of).map(([name, value]) => [name, leaveOutField(fields[name], value, of)]));
}

function leaveOutField(field: Field | undefined, value: unknown, of: Readonly<Record<string, unknown>>): unknown {
  if (field === undefined || field.inPublic === 'left-out') return emptied(value);
  if (field.inPublic === 'shown' || value === null) return show(field.shape, value);
  return withoutParameters(field.inPublic(value, of));
}

function show(shape: Shape, value: unknown): unknown {
  if (shape.kind === 'list' && Array.isArray(value)) return value.map((each) => show(shape.of.shape, each));
  if (typeof value !== 'object' || value === null) return withoutParameters(value);
  if (shape.kind === 'record') return leaveOut(shape.of, value);
  if (shape.kind !== 'map') return emptied(value);
  return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, show(shape.of.shape, each)]));
}

/** The name of a job says what the job is of: `invoice?customer=4711`. */
function withoutParameters(value: unknown): unknown {
  return typeof value === 'string' && /^[\w./-]+\?\S*$/.test(value) ? value.slice(0, value.indexOf('?')) : value;
}

/** An empty value of the same kind, so that the page needs no special case. */
function emptied(value: unknown): unknown {
  if (Array.isArray(value)) return [];
  if (typeof value === 'object' && value !== null) return {};
  return typeof value === 'string' ? '' : null;
}
