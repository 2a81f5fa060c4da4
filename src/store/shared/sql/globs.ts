/** The differences in regular expressions. */
export interface RegExpDialect {
  /** Whether a text fits one, which is a value of the statement. */
  matches(expression: string): string;
  /** One character, by its number. */
  character(code: number): string;
  /** The shortest text up to the first place where this fits: looked for once, so that no pattern takes long. */
  upTo(found: string): string;
  readonly end: string;
}

interface GlobDialect {
  isIn(expression: string): string;
  readonly regExp: RegExpDialect;
}

/** Without a look at each text. */
export const fitsAny = { text: '1 = 1', values: [] } as const;

/** Whether a text fits one of these globs, on a server. */
export function fitsByPatterns({ isIn, regExp }: GlobDialect, column: string, globs: readonly string[]) {
  if (globs.includes('*')) return fitsAny;
  const plain = globs.filter((glob) => !/[*?[]/.test(glob));
  const likes = globs.filter((glob) => /[*?]/.test(glob) && !glob.includes('[')).map(toLike);
  const others = globs.filter((glob) => glob.includes('[')).map((glob) => toRegExp(regExp, glob));
  const regExps = others.filter((found) => found !== null);
  const parts = [
    ...(plain.length > 0 ? [isIn(column)] : []),
    ...likes.map(() => `${column} like ? escape '!'`),
    ...regExps.map(() => regExp.matches(column)),
  ];
  return {
    text: parts.length === 0 ? '1 = 0' : `(${parts.join(' or ')})`,
    values: [...(plain.length > 0 ? [plain] : []), ...likes, ...regExps],
  };
}

/** Text as it stands, in a pattern of `like … escape '!'`. */
export function escapeLike(text: string): string {
  return text.replaceAll(/[!%_]/g, '!$&');
}

function toLike(glob: string): string {
  return escapeLike(glob).replaceAll('*', '%').replaceAll('?', '_');
}

/** Null: a bracket in it is never closed, or holds nothing; then it fits no text. */
function toRegExp(dialect: RegExpDialect, glob: string): string | null {
  const characters = [...glob];
  const segments = [''];
  for (let at = 0; at < characters.length; at += 1) {
    const character = characters[at] as string;
    if (character === '*') {
      segments.push('');
      continue;
    }
    const set = character === '[' ? readSet(characters, at + 1) : null;
    if (character === '[' && set === null) return null;
    const one = set !== null ? writeSet(dialect, set) : character === '?' ? '.' : dialect.character(codeOf(character));
    if (one === null) return null;
    segments[segments.length - 1] += one;
    at = set?.end ?? at;
  }
  const [first = '', ...rest] = segments;
  const last = rest.pop();
  const between = rest.map((segment) => dialect.upTo(segment)).join('');
  return `(?s)^${first}${between}${last === undefined ? '' : `.*${last}`}${dialect.end}`;
}

interface CharacterSet {
  readonly isNegated: boolean;
  readonly ranges: readonly (readonly [from: number, to: number])[];
  /** The index of its closing bracket. */
  readonly end: number;
}

const codeOf = (character: string): number => character.codePointAt(0) as number;

/**
 * A bracket at the start is a member, and so is the start of each range. The end of a range cannot begin another range.
 */
function readSet(glob: readonly string[], start: number): CharacterSet | null {
  const isNegated = glob[start] === '^';
  const first = isNegated ? start + 1 : start;
  const ranges: (readonly [number, number])[] = [];
  let from: number | null = null;
  let at = first;
  for (; at === first || glob[at] !== ']'; at += 1) {
    const [character, next] = [glob[at], glob[at + 1]];
    if (character === undefined) return null;
    if (character === '-' && from !== null && next !== ']' && next !== undefined) {
      ranges.push([from, codeOf(next)]);
      from = null;
      at += 1;
    } else {
      ranges.push([codeOf(character), codeOf(character)]);
      from = character === ']' ? null : codeOf(character);
    }
  }
  return { isNegated, ranges, end: at };
}

/** Null: it holds nothing. */
function writeSet({ character }: RegExpDialect, { isNegated, ranges }: CharacterSet): string | null {
  const members = ranges
    .filter(([from, to]) => from <= to)
    .map(([from, to]) => (from === to ? character(from) : `${character(from)}-${character(to)}`));
  if (members.length === 0) return isNegated ? '.' : null;
  return `[${isNegated ? '^' : ''}${members.join('')}]`;
}
