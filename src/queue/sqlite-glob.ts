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

function compile(pattern: string): RegExp {
  const pieces = pattern.match(/\[\^?\]?[^\]]*\]|[\s\S]/gu) ?? [];
  return new RegExp(`^${pieces.map(translate).join('')}$`, 'su');
}

function translate(piece: string): string {
  if (piece === '*') return '.*';
  if (piece === '?') return '.';
  // A bracket that is never closed matches nothing in SQLite either.
  if (piece === '[') return '(?!)';
  if (piece.startsWith('[') && piece.length > 1) return translateSet(piece.slice(1, -1));
  return escapeRegExp(piece);
}

function translateSet(content: string): string {
  const isNegated = content.startsWith('^');
  const members = (isNegated ? content.slice(1) : content).replace(/[\\\]^[&~|]/g, '\\$&');
  return `[${isNegated ? '^' : ''}${members}]`;
}

function escapeRegExp(text: string): string {
  return text.replace(/[\\^$.*+?()[\]{}|/]/g, '\\$&');
}
