/** The place of a secret in a text, and the text that replaces it. */
export interface Found {
  readonly index: number;
  readonly size: number;
  readonly mask: string;
}

/** Finds secrets in the order of the text; none overlaps another. */
export type Find = (text: string) => readonly Found[];

/** A kind of secret with a recognizable form. No form is longer than {@link LONGEST_SHAPE} characters. */
interface Shape {
  readonly name: string;
  readonly form: string;
}

/** A private key of 8192 bits has 6,400 characters. */
export const LONGEST_SHAPE = 8000;

/**
 * Each form finds its end, or gives up after a few characters: a search of 50 MB takes 0.1 s, whatever they contain.
 */
const shapes: readonly Shape[] = [
  { name: 'dashboard token', form: String.raw`frt_[\w-]{43}` },
  { name: 'GitHub token', form: String.raw`gh[pousr]_[A-Za-z0-9]{36,255}|github_pat_\w{22,255}` },
  { name: 'GitLab token', form: String.raw`glpat-[\w-]{20,255}` },
  { name: 'Slack token', form: 'xox[abeoprs]-[A-Za-z0-9-]{10,255}|xapp-[A-Za-z0-9-]{10,255}' },
  { name: 'AWS key', form: 'A(?:KI|SI)A[0-9A-Z]{16}' },
  { name: 'Stripe key', form: '[rs]k_(?:live|test)_[A-Za-z0-9]{16,255}|whsec_[A-Za-z0-9+/=]{24,255}' },
  { name: 'Google key', form: String.raw`AIza[\w-]{35}` },
  { name: 'npm token', form: 'npm_[A-Za-z0-9]{36}' },
  { name: 'SendGrid key', form: String.raw`SG\.[\w-]{16,64}\.[\w-]{16,64}` },
  { name: 'AI key', form: String.raw`sk-(?:ant|proj)-[\w-]{20,255}` },
  { name: 'JWT', form: String.raw`(?<![\w-])eyJ[\w-]{10,2000}\.eyJ[\w-]{2,4000}\.[\w-]{10,1024}` },
  {
    name: 'private key',
    form: '-----BEGIN [A-Z ]{0,20}PRIVATE KEY-----(?:(?!-----)[^]){32,7000}-----END [A-Z ]{0,20}PRIVATE KEY-----',
  },
];

const anyShape = new RegExp(shapes.map(({ form }) => `(${form})`).join('|'), 'g');

/** Finds secrets that no variable holds. */
export function findShapes(text: string): readonly Found[] {
  return Array.from(text.matchAll(anyShape), ({ index, 0: whole, ...groups }) => {
    const { name } = shapes.find((_, at) => groups[(at + 1) as keyof typeof groups] !== undefined) as Shape;
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
export function mergeFound(one: readonly Found[], other: readonly Found[]): readonly Found[] {
  if (one.length === 0 || other.length === 0) return one.length === 0 ? other : one;
  const all = [...one, ...other].toSorted((a, b) => a.index - b.index || b.size - a.size);
  let end = 0;
  return all.filter(({ index, size }) => {
    const isFree = index >= end;
    if (isFree) end = index + size;
    return isFree;
  });
}
