import stringWidth from 'string-width';

/** Breaks text between words into lines of at most so many columns; a longer word stays whole. */
export function wrap(text: string, columns: number): string[] {
  const lines: string[] = [];
  for (const word of text.split(' ')) {
    const last = lines.at(-1);
    const joined = last === undefined ? word : `${last} ${word}`;
    if (last !== undefined && stringWidth(joined) <= columns) lines[lines.length - 1] = joined;
    else lines.push(word);
  }
  return lines;
}
