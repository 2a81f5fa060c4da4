import type { TerminalText } from './terminal-text.ts';

/** Where in its line the text was found. */
export interface Match {
  readonly line: number;
  readonly start: number;
  readonly end: number;
}

const MOST = 10_000;

/** All places of the text, upper case or lower; the first 10,000 of them. */
export function findMatches(output: TerminalText, text: string): { matches: Match[]; isCut: boolean } {
  const matches: Match[] = [];
  if (text === '') return { matches, isCut: false };
  const wanted = text.toLowerCase();
  for (let line = 0; line < output.count; line += 1) {
    const plain = output.plain(line).toLowerCase();
    for (let start = plain.indexOf(wanted); start !== -1; start = plain.indexOf(wanted, start + wanted.length)) {
      if (matches.length === MOST) return { matches, isCut: true };
      matches.push({ line, start, end: start + wanted.length });
    }
  }
  return { matches, isCut: false };
}
