import { ExactJson, membersOf, parseExactly } from '../../system/base/exact-json.ts';

/**
 * Merges JSON by RFC 7396; numbers stay as they are written.
 *
 * @throws {SyntaxError} if one of them is none
 */
export function mergeJson(target: string, patch: string): string {
  return merge(parseExactly(target) ?? undefined, parseExactly(patch) ?? nothing).text;
}

const nothing = new ExactJson('null');
const isObject = ({ text }: ExactJson): boolean => text.startsWith('{');

function merge(target: ExactJson | undefined, patch: ExactJson): ExactJson {
  if (!isObject(patch)) return patch;
  const merged = target !== undefined && isObject(target) ? membersOf(target) : new Map<string, ExactJson>();
  for (const [name, value] of membersOf(patch)) {
    if (value.text === nothing.text) merged.delete(name);
    else merged.set(name, merge(merged.get(name), value));
  }
  const members = [...merged].map(([name, { text }]) => `${JSON.stringify(name)}:${text}`);
  return new ExactJson(`{${members.join(',')}}`);
}
