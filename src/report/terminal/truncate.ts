import stringWidth from 'string-width';

/** Cuts text at the end so that it takes at most so many columns; an ellipsis tells. */
export function truncate(text: string, columns: number): string {
  if (stringWidth(text) <= columns) return text;
  const characters = [...new Intl.Segmenter().segment(text)].map((each) => each.segment);
  let kept = '';
  for (const character of characters) {
    if (stringWidth(kept + character) > columns - 1) break;
    kept += character;
  }
  return `${kept}…`;
}

/** Joins parts with ` · `, beginning a new line before a part that would not fit any more. */
export function joinFitting(parts: readonly string[], columns: number): string[] {
  const lines: string[] = [];
  for (const part of parts) {
    const joined = [lines.at(-1), part].filter((each) => each !== undefined).join(' · ');
    if (lines.length > 0 && stringWidth(joined) <= columns) lines[lines.length - 1] = joined;
    else lines.push(part);
  }
  return lines;
}
