/** Tests one character of a name; null stands for `*`: any number of any characters. */
type Piece = ((character: string) => boolean) | null;

/** A pattern with a bracket that is never closed matches nothing. */
const MATCHES_NOTHING = 'nothing';

const parsed = new Map<string, readonly Piece[] | typeof MATCHES_NOTHING>();

/** Matches like SQLite's `GLOB`: case-sensitive, `*` for anything, `?` for one character, `[a-z]`, `[^x]`. */
export function matchGlob(pattern: string, text: string): boolean {
  const pieces = piecesOf(pattern);
  return pieces !== MATCHES_NOTHING && matchPieces(pieces, [...text]);
}

/** Whether a bracket in the pattern is never closed. */
export function matchesNothing(pattern: string): boolean {
  return piecesOf(pattern) === MATCHES_NOTHING;
}

function piecesOf(pattern: string): readonly Piece[] | typeof MATCHES_NOTHING {
  const pieces = parsed.get(pattern) ?? parse([...pattern]);
  parsed.set(pattern, pieces);
  return pieces;
}

export function matchAny(patterns: readonly string[], text: string): boolean {
  return patterns.some((pattern) => matchGlob(pattern, text));
}

/** Retries only the last `*`, so no pattern takes long; a regular expression might. */
function matchPieces(pieces: readonly Piece[], text: readonly string[]): boolean {
  let at = 0;
  let star: { readonly at: number; readonly index: number } | null = null;
  for (let index = 0; index < text.length; ) {
    const piece = pieces[at];
    if (piece === null) {
      star = { at, index };
      at += 1;
    } else if (piece?.(text[index] as string)) {
      at += 1;
      index += 1;
    } else if (star !== null) {
      star = { at: star.at, index: star.index + 1 };
      at = star.at + 1;
      index = star.index;
    } else return false;
  }
  return pieces.slice(at).every((piece) => piece === null);
}

function parse(pattern: readonly string[]): readonly Piece[] | typeof MATCHES_NOTHING {
  const pieces: Piece[] = [];
  for (let at = 0; at < pattern.length; at += 1) {
    const character = pattern[at] as string;
    if (character === '*') pieces.push(null);
    else if (character === '?') pieces.push(() => true);
    else if (character === '[') {
      const set = parseSet(pattern, at + 1);
      if (set === null) return MATCHES_NOTHING;
      pieces.push(set.piece);
      at = set.end;
    } else pieces.push((found) => found === character);
  }
  return pieces;
}

interface CharacterSet {
  readonly piece: Piece;
  /** The index of its closing bracket. */
  readonly end: number;
}

/** `a-z`, `^x`, `]x`: a bracket at the start is a member, and so is the start of each range. */
function parseSet(pattern: readonly string[], start: number): CharacterSet | null {
  const isNegated = pattern[start] === '^';
  const first = isNegated ? start + 1 : start;
  const ranges: (readonly [from: number, to: number])[] = [];
  let from: number | null = null;
  let at = first;
  for (; at === first || pattern[at] !== ']'; at += 1) {
    const code = pattern[at]?.codePointAt(0);
    const to = pattern[at + 1]?.codePointAt(0);
    if (code === undefined) return null;
    const isRange: boolean = pattern[at] === '-' && from !== null && pattern[at + 1] !== ']';
    if (isRange && to !== undefined) ranges.push([from as number, to]);
    else ranges.push([code, code]);
    // Neither the end of a range nor a bracket at the start can begin another range.
    const isSingle: boolean = !isRange && pattern[at] !== ']';
    from = isSingle ? code : null;
    if (isRange) at += 1;
  }
  const holds = (code: number) => ranges.some(([low, high]) => low <= code && code <= high);
  return { piece: (found) => holds(found.codePointAt(0) as number) !== isNegated, end: at };
}
