/** Where a secret stands, and what is to stand there instead. */
export interface Found {
  readonly index: number;
  readonly size: number;
  readonly mask: string;
}

/** In the order of the text; none begins within another. */
export type Find = (text: string) => readonly Found[];

/** A kind of secret that is known by how it looks. No form takes more than {@link LONGEST_SHAPE} characters. */
interface Shape {
  readonly name: string;
  readonly form: string;
}

/** A private key of 8192 bits has 6,400 characters. */
export const LONGEST_SHAPE = 8000;

/**
 * Each form finds the end of what it has begun, or gives up after a few characters: a search takes 0.1 s for 50 MB,
 * whatever these hold.
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

/** Bytes of sequences that may stand within one secret. */
export const LONGEST_SEQUENCES = 2048;

/**
 * Sequences that terminals do not show: colours and their like, and the titles and links that end with BEL or ST.
 * Whoever shows output later leaves them out, which puts together what they have divided.
 */
// biome-ignore lint/suspicious/noControlCharactersInRegex: they begin with ESC
const sequence = /\x1b(?:\[[0-?]{0,64}[ -/]{0,8}[@-~]|\][^\x07\x1b]{0,1024}(?:\x07|\x1b\\)|[ -/]{0,4}[0-~])/g;

/**
 * Also finds what is divided by such sequences.
 *
 * @param mayHoldThem whether a secret itself may contain what looks like a sequence
 */
export function findThroughSequences(find: Find, mayHoldThem: boolean): Find {
  return (text) => {
    if (!text.includes('\x1b')) return find(text);
    const { plain, positionOf } = leaveOutSequences(text);
    const found = find(plain).map(({ index, size, mask }) => {
      const start = positionOf(index);
      return { index: start, size: positionOf(index + size - 1) + 1 - start, mask };
    });
    return mayHoldThem ? mergeFound(found, find(text)) : found;
  };
}

/** @returns `positionOf` where a character of the plain text stands in the whole; to be asked in rising order */
function leaveOutSequences(text: string): { readonly plain: string; positionOf(index: number): number } {
  const parts: string[] = [];
  const ends: number[] = [];
  const shifts: number[] = [];
  let at = 0;
  let length = 0;
  const add = (end: number): void => {
    parts.push(text.slice(at, end));
    length += end - at;
    ends.push(length);
    shifts.push(end - length);
  };
  // Faster than a list of the matches, of which a coloured log has millions.
  text.replace(sequence, (whole, index: number) => {
    add(index);
    at = index + whole.length;
    return '';
  });
  add(text.length);
  let part = 0;
  const positionOf = (index: number): number => {
    while (index >= (ends[part] as number)) part += 1;
    return index + (shifts[part] as number);
  };
  return { plain: parts.join(''), positionOf };
}

/** What is found by either; of two that overlap the first counts, and of two at one place the longer. */
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
