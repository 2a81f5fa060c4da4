/**
 * JSON that is only passed on. It stays text, without the white space between its words: parsing and writing it again
 * would lose the order of keys such as "10", duplicate keys, and the digits of long numbers.
 */
export class ExactJson {
  readonly text: string;

  /** @param text must be valid JSON */
  constructor(text: string) {
    this.text = text;
  }
}

/**
 * Reads JSON that is only written again; null is null.
 *
 * @throws {SyntaxError} if the text is not JSON
 */
export function parseExactly(text: string): ExactJson | null {
  if (JSON.parse(text) === null) return null;
  return new ExactJson(text.replace(words, (word) => word.trim()));
}

/** Matches strings, punctuation, numbers and names; white space matches alone or around a number or name. */
const words = /"(?:[^"\\]+|\\.)*"|[[\]{},:]|[^"[\]{},:]+/g;

/** The text of one key of an object; undefined if the object lacks the key. */
export function memberOf(json: ExactJson, key: string): ExactJson | undefined {
  return membersOf(json).get(key);
}

/** The texts of an object's keys. If a key occurs twice, the last one counts. */
function membersOf({ text }: ExactJson): Map<string, ExactJson> {
  const members = new Map<string, ExactJson>();
  let name: string | null = null;
  let depth = 0;
  let [before, start] = ['', 0];
  for (const { 0: word, index } of text.matchAll(words)) {
    const isOutside = depth === 1;
    if (isOutside && name === null && word === ':') {
      name = JSON.parse(before) as string;
      start = index + 1;
    } else if (isOutside && name !== null && (word === ',' || word === '}')) {
      members.set(name, new ExactJson(text.slice(start, index)));
      name = null;
    }
    if (word === '{' || word === '[') depth += 1;
    if (word === '}' || word === ']') depth -= 1;
    before = word;
  }
  return members;
}

/** The texts of the items of an array. */
export function itemsOf({ text }: ExactJson): ExactJson[] {
  const items: ExactJson[] = [];
  let [depth, start] = [0, 1];
  for (const { 0: word, index } of text.matchAll(words)) {
    if (word === ']' || word === '}') depth -= 1;
    const isEnd = (depth === 1 && word === ',') || depth === 0;
    if (isEnd && index > start) items.push(new ExactJson(text.slice(start, index)));
    if (isEnd) start = index + 1;
    if (word === '[' || word === '{') depth += 1;
  }
  return items;
}

/** TypeScript's types lack it as yet. */
const { rawJSON } = JSON as unknown as {
  /** An object that `JSON.stringify` writes as this text. */
  rawJSON(text: string): object;
};

/** Like `JSON.stringify(value, null, 2)`, or on one line; an `ExactJson` is written word for word. */
export function writeExactly(value: unknown, isLine = false): string {
  const texts: ExactJson[] = [];
  // `JSON.stringify` never writes a digit as `\u0030`, so nothing else looks like this placeholder.
  const keepPlace = (_: string, each: unknown): unknown =>
    each instanceof ExactJson ? rawJSON(`"\\u0030${texts.push(each) - 1}"`) : each;
  const written = JSON.stringify(value, keepPlace, isLine ? 0 : 2);
  if (texts.length === 0) return written;
  if (isLine) return written.replace(/"\\u0030(\d+)"/g, (_, index: string) => (texts[Number(index)] as ExactJson).text);
  return written.replace(
    /^( *)(.*)"\\u0030(\d+)"/gm,
    (_, margin: string, key: string, index: string) =>
      `${margin}${key}${indentExactly(texts[Number(index)] as ExactJson, margin)}`,
  );
}

/**
 * The JSON with one member on each line, two spaces deeper for each level.
 *
 * @param margin stands before each line but the first
 * @param deepest from this level on, lines are not indented any further
 */
export function indentExactly({ text }: ExactJson, margin = '', deepest = Number.POSITIVE_INFINITY): string {
  let depth = 0;
  const line = (): string => `\n${margin}${'  '.repeat(Math.min(depth, deepest))}`;
  return text.replace(words, (word, index: number) => {
    if (word === ':') return ': ';
    if (word === ',') return `,${line()}`;
    if (word === '{' || word === '[') {
      if (/[\]}]/.test(text.charAt(index + 1))) return word;
      depth += 1;
      return word + line();
    }
    if ((word !== '}' && word !== ']') || /[[{]/.test(text.charAt(index - 1))) return word;
    depth -= 1;
    return line() + word;
  });
}

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
