/** The place of a secret in a text, and the text that replaces it. */
export interface FoundSecret {
  readonly index: number;
  readonly size: number;
  readonly mask: string;
}

/** Finds secrets in the order of the text; none overlaps another. */
export type Find = (text: string) => readonly FoundSecret[];

/** Longest secret of a recognizable form, in characters: a private key of 8192 bits has 6,400. */
export const LONGEST_SHAPE = 8000;

/**
 * Secrets that are recognized by their form, by name. Each form finds its end, or gives up after a few characters: a
 * search of 50 MB takes 0.1 s, whatever they contain.
 */
const shapes: Readonly<Record<string, string>> = {
  'dashboard token': String.raw`frt_[\w-]{43}`,
  'GitHub token': String.raw`gh[pousr]_[A-Za-z0-9]{36,255}|github_pat_\w{22,255}`,
  'GitLab token': String.raw`glpat-[\w-]{20,255}`,
  'Slack token': 'xox[abeoprs]-[A-Za-z0-9-]{10,255}|xapp-[A-Za-z0-9-]{10,255}',
  'AWS key': 'A(?:KI|SI)A[0-9A-Z]{16}',
  'Stripe key': '[rs]k_(?:live|test)_[A-Za-z0-9]{16,255}|whsec_[A-Za-z0-9+/=]{24,255}',
  'Google key': String.raw`AIza[\w-]{35}`,
  'npm token': 'npm_[A-Za-z0-9]{36}',
  'SendGrid key': String.raw`SG\.[\w-]{16,64}\.[\w-]{16,64}`,
  'AI key': String.raw`sk-(?:ant|proj)-[\w-]{20,255}`,
  JWT: String.raw`(?<![\w-])eyJ[\w-]{10,2000}\.eyJ[\w-]{2,4000}\.[\w-]{10,1024}`,
  'private key':
    '-----BEGIN [A-Z ]{0,20}PRIVATE KEY-----(?:(?!-----)[^]){32,7000}-----END [A-Z ]{0,20}PRIVATE KEY-----',
};

const names = Object.keys(shapes);
const anyShape = new RegExp(
  Object.values(shapes)
    .map((form) => `(${form})`)
    .join('|'),
  'g',
);

/** Finds secrets that no variable holds. */
export function findShapes(text: string): readonly FoundSecret[] {
  return Array.from(text.matchAll(anyShape), ({ index, 0: whole, ...groups }) => {
    const name = names.find((_, at) => groups[(at + 1) as keyof typeof groups] !== undefined);
    return { index, size: whole.length, mask: `[${name}]` };
  });
}

/** Most bytes of terminal sequences within one secret. */
export const LONGEST_SEQUENCES = 2048;

/**
 * The end of a terminal sequence that begins at this place; the place itself if none does. Terminals show none of them:
 * colours and the like, and titles and links that end with BEL or ST. A later display leaves them out, which would join
 * the parts of a secret that they divide. No byte is looked at more than three times, whatever the output contains.
 */
function endOfSequence(text: string, at: number): number {
  if (text.charCodeAt(at) !== ESC) return at;
  const kind = text[at + 1];
  const long = kind === '[' ? endOfControl(text, at + 2) : kind === ']' ? endOfTitle(text, at + 2) : null;
  return long ?? endOfShort(text, at + 1) ?? at;
}

const ESC = 0x1b;
const BEL = 0x07;

/** Ends `1;31m`. */
function endOfControl(text: string, at: number): number | null {
  const behind = skip(text, skip(text, at, '0', '?', 64), ' ', '/', 8);
  return isBetween(text.charCodeAt(behind), '@', '~') ? behind + 1 : null;
}

/** Ends `8;;https://example.org`, followed by BEL or ST. */
function endOfTitle(text: string, at: number): number | null {
  const last = Math.min(text.length, at + 1024);
  let end = at;
  while (end < last && text.charCodeAt(end) !== BEL && text.charCodeAt(end) !== ESC) end += 1;
  if (text.charCodeAt(end) === BEL) return end + 1;
  return text.startsWith('\x1b\\', end) ? end + 2 : null;
}

/** Ends `(B`. */
function endOfShort(text: string, at: number): number | null {
  const last = skip(text, at, ' ', '/', 4);
  return isBetween(text.charCodeAt(last), '0', '~') ? last + 1 : null;
}

/** The place after all following characters within a range, but at most `most` of them. */
function skip(text: string, at: number, first: string, last: string, most: number): number {
  let end = at;
  while (end < at + most && isBetween(text.charCodeAt(end), first, last)) end += 1;
  return end;
}

function isBetween(code: number, first: string, last: string): boolean {
  return code >= first.charCodeAt(0) && code <= last.charCodeAt(0);
}

/**
 * Also finds secrets that are divided by terminal sequences.
 *
 * @param mayHoldThem whether a secret itself may contain something that looks like a sequence
 */
export function findThroughSequences(find: Find, mayHoldThem: boolean): Find {
  return (text) => {
    if (!text.includes('\x1b')) return find(text);
    const positionOf = positionsIn(text);
    const found = find(leaveOutSequences(text)).map(({ index, size, mask }) => {
      const start = positionOf(index);
      return { index: start, size: positionOf(index + size - 1) + 1 - start, mask };
    });
    return mayHoldThem ? mergeFound(found, find(text)) : found;
  };
}

/** @param text bytes, one character each */
function leaveOutSequences(text: string): string {
  const plain = Buffer.allocUnsafe(text.length);
  let length = 0;
  for (let at = skipSequences(text, 0); at < text.length; at = skipSequences(text, at + 1)) {
    plain[length] = text.charCodeAt(at);
    length += 1;
  }
  return plain.toString('latin1', 0, length);
}

/** @returns a function from an index in the plain text to its place in the whole text; call it with rising indexes */
function positionsIn(text: string): (index: number) => number {
  let at = skipSequences(text, 0);
  let passed = 0;
  return (index) => {
    for (; passed < index; passed += 1) at = skipSequences(text, at + 1);
    return at;
  };
}

function skipSequences(text: string, from: number): number {
  let at = from;
  let end = endOfSequence(text, at);
  while (end > at) {
    at = end;
    end = endOfSequence(text, at);
  }
  return at;
}

/** Merges two lists. If two finds overlap, the first one counts; if they begin at one place, the longer one. */
export function mergeFound(one: readonly FoundSecret[], other: readonly FoundSecret[]): readonly FoundSecret[] {
  if (one.length === 0 || other.length === 0) return one.length === 0 ? other : one;
  const all = [...one, ...other].toSorted((a, b) => a.index - b.index || b.size - a.size);
  let end = 0;
  return all.filter(({ index, size }) => {
    const isFree = index >= end;
    if (isFree) end = index + size;
    return isFree;
  });
}

/** Spellings of a value in output: as it is, and as programs write it into URLs, JSON, HTML, shells and Python. */
export function spellings(value: string): readonly string[] {
  const all = [
    ...[value, ...inUrls(value), ...inJson(value), ...inHtml(value), ...inShells(value), inPythonBytes(value)],
    // A multi-line value on a terminal or in a mail.
    value.replace(/\r?\n/g, '\r\n'),
    ...inOtherCase(value),
  ];
  return [...new Set(all)];
}

/** As JavaScript encodes it; as PHP and Python do, which leave other characters unchanged; as forms do. */
function inUrls(value: string): readonly string[] {
  const encoded = encode(value);
  const strict = encoded.replace(/[!'()*]/g, (character) => `%${hex(character.charCodeAt(0), 2).toUpperCase()}`);
  const withPlus = strict.replaceAll('%20', '+');
  const ofForm = new URLSearchParams([['', value]]).toString().slice(1);
  return [...[encoded, strict, withPlus, ofForm], ...[withPlus.replaceAll('~', '%7E'), strict.replaceAll('%2F', '/')]];
}

/** As JavaScript writes it; with `\u00e4` for ä, as Python does; also with `\/` for a slash, as PHP does. */
function inJson(value: string): readonly string[] {
  const plain = JSON.stringify(value).slice(1, -1);
  // biome-ignore lint/suspicious/noControlCharactersInRegex: all of ASCII stays
  const ascii = plain.replace(/[^\x00-\x7f]/g, (character) => `\\u${hex(character.charCodeAt(0), 4)}`);
  return [plain, ascii, ...[plain, ascii].map((text) => text.replaceAll('/', '\\/'))];
}

const apostrophes = ["'", '&#39;', '&#039;', '&#x27;', '&apos;'];

/** Between tags, quotes may stay unchanged. */
function inHtml(value: string): readonly string[] {
  const text = value.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
  return [text, text.replaceAll('"', '&quot;'), text.replaceAll('"', '&#34;')].flatMap((quoted) =>
    apostrophes.map((apostrophe) => quoted.replaceAll("'", apostrophe)),
  );
}

/** Within single quotes, as `set -x` and most shells quote it, and Python; with backslashes, as `printf %q` does. */
function inShells(value: string): readonly string[] {
  return [
    value.replaceAll("'", String.raw`'\''`),
    value.replaceAll("'", `'"'"'`),
    value.replace(/[^\w@%+=:,./-]/g, (character) => (character > '\x7f' ? character : `\\${character}`)),
    value.replace(/["$`\\]/g, String.raw`\$&`),
  ];
}

/** `b'p\xc3\xa4ss'` */
function inPythonBytes(value: string): string {
  const escaped = value
    .replaceAll('\\', '\\\\')
    .replaceAll('\n', '\\n')
    .replaceAll('\r', '\\r')
    .replaceAll('\t', '\\t');
  return Array.from(Buffer.from(escaped), (byte) =>
    byte >= 0x20 && byte < 0x7f ? String.fromCharCode(byte) : `\\x${hex(byte, 2)}`,
  ).join('');
}

const SHORTEST_CODE = 8;

/** Changes the case of codes only, such as `a1b2c3d4`: a password in upper case may be an ordinary word. */
function inOtherCase(value: string): readonly string[] {
  const isCode = value.length >= SHORTEST_CODE && /\d/.test(value) && /[a-z]/i.test(value);
  return isCode ? [value.toUpperCase(), value.toLowerCase()] : [];
}

function hex(code: number, digits: number): string {
  return code.toString(16).padStart(digits, '0');
}

/** A value of the environment may be invalid UTF-16. */
function encode(text: string): string {
  try {
    return encodeURIComponent(text);
  } catch {
    return text;
  }
}
