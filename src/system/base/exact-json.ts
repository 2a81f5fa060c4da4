/**
 * JSON that is only passed on. It stays text, without the white space between its words: what is parsed
 * and written again loses the order of keys such as "10", keys that stand twice, and long numbers.
 */
export class ExactJson {
  readonly text: string;

  /** @param text what is known to be valid */
  constructor(text: string) {
    this.text = text;
  }
}

/**
 * Reads JSON that is only to be written again; null is null.
 *
 * @throws {SyntaxError} if it is none
 */
export function parseExactly(text: string): ExactJson | null {
  if (JSON.parse(text) === null) return null;
  return new ExactJson(text.replace(words, (word) => word.trim()));
}

/** Texts, signs, and numbers and names; white space is a word, too, or stands around a number or name. */
const words = /"(?:[^"\\]+|\\.)*"|[[\]{},:]|[^"[\]{},:]+/g;

/** The text of an object's key; undefined where it has none. */
export function memberOf(json: ExactJson, key: string): ExactJson | undefined {
  return membersOf(json).get(key);
}

/** The texts of an object's keys. Of a key that stands twice, the last one counts. */
export function membersOf({ text }: ExactJson): Map<string, ExactJson> {
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

/** The texts of a list's items. */
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

/** Not among TypeScript's types yet. */
const { rawJSON } = JSON as unknown as {
  /** Stands for this text wherever it is written as JSON. */
  rawJSON(text: string): object;
};

/** As `JSON.stringify(value, null, 2)`, or on one line, with what is passed on word for word. */
export function writeExactly(value: unknown, isLine = false): string {
  const texts: string[] = [];
  // `JSON.stringify` never writes a digit as `\u0030`: nothing else looks like this.
  const keepPlace = (_: string, each: unknown): unknown =>
    each instanceof ExactJson ? rawJSON(`"\\u0030${texts.push(each.text) - 1}"`) : each;
  const written = JSON.stringify(value, keepPlace, isLine ? 0 : 2);
  if (texts.length === 0) return written;
  if (isLine) return written.replace(/"\\u0030(\d+)"/g, (_, index: string) => texts[Number(index)] as string);
  return written.replace(
    /^( *)(.*)"\\u0030(\d+)"/gm,
    (_, margin: string, key: string, index: string) =>
      `${margin}${key}${indent(texts[Number(index)] as string, margin)}`,
  );
}

/** Text without white space, two spaces deep. */
function indent(text: string, margin: string): string {
  let line = `\n${margin}`;
  return text.replace(words, (word, index: number) => {
    if (word === ':') return ': ';
    if (word === ',') return `,${line}`;
    if (word === '{' || word === '[') {
      if (/[\]}]/.test(text.charAt(index + 1))) return word;
      line += '  ';
      return word + line;
    }
    if ((word !== '}' && word !== ']') || /[[{]/.test(text.charAt(index - 1))) return word;
    line = line.slice(0, -2);
    return line + word;
  });
}
