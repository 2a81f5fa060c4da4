const compiled = new Map<string, RegExp>();

/** As SQLite's `GLOB` does: case-sensitive, `*` for anything, `?` for one character, `[a-z]`, `[^x]`. */
export function matchGlob(pattern: string, text: string): boolean {
  const expression = compiled.get(pattern) ?? compile(pattern);
  compiled.set(pattern, expression);
  return expression.test(text);
}

export function matchAny(patterns: readonly string[], text: string): boolean {
  return patterns.some((pattern) => matchGlob(pattern, text));
}

const neverMatches = '(?!)';

function compile(pattern: string): RegExp {
  let expression = '';
  let rest = pattern;
  while (rest !== '') {
    const [piece = ''] = /^(?:\[\^?\]?[^\]]*\]|[\s\S])/u.exec(rest) ?? [];
    expression += translate(piece);
    rest = rest.slice(piece.length);
  }
  return new RegExp(`^${expression}$`, 'su');
}

function translate(piece: string): string {
  if (piece === '*') return '.*';
  if (piece === '?') return '.';
  // A bracket that is never closed matches nothing.
  if (piece === '[') return neverMatches;
  return piece.length > 1 && piece.startsWith('[')
    ? translateSet(piece.slice(1, -1))
    : quote(piece);
}

/** `[a-z]`, `[^x]`, `[]x]`; a range that ends before it begins holds nothing. */
function translateSet(content: string): string {
  const isNegated = content.startsWith('^');
  const members = isNegated ? content.slice(1) : content;
  if (members === '') return neverMatches;
  const ranges = members.match(/[\s\S]-[\s\S]|[\s\S]/gu) ?? [];
  const held = ranges.flatMap(translateRange).join('');
  if (held === '') return isNegated ? '.' : neverMatches;
  return `[${isNegated ? '^' : ''}${held}]`;
}

function translateRange(range: string): readonly string[] {
  const [from = '', , to] = [...range];
  if (to === undefined) return [quote(from)];
  return from <= to ? [`${quote(from)}-${quote(to)}`] : [];
}

function quote(character: string): string {
  return character.replace(/[\\^$.*+?()[\]{}|/&~-]/u, (found) =>
    '&~-'.includes(found) ? `\\u{${found.charCodeAt(0).toString(16)}}` : `\\${found}`,
  );
}
