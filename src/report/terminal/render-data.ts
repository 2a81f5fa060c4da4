import { countOf } from '../format.ts';
import { printable } from '../printable.ts';
import type { Palette } from './palette.ts';

const MOST_LINES = 40;
const LONGEST_LINE = 2000;

/** JSON for people: indented, and cut where it is long. */
export function renderData(title: string, value: unknown, palette: Palette): string[] {
  const lines = printable(JSON.stringify(value, null, 2)).split('\n');
  const more = lines.length - MOST_LINES;
  const isCut = more > 0 || lines.some((line) => line.length > LONGEST_LINE);
  const note = more > 0 ? `${title}, without its last ${countOf(more, 'line')}` : `${title}, cut`;
  return [
    '',
    palette.dim(isCut ? `${note}; --json shows all of it` : title),
    ...lines.slice(0, MOST_LINES).map(cutLine),
  ];
}

function cutLine(line: string): string {
  return line.length > LONGEST_LINE ? `${line.slice(0, LONGEST_LINE)}…` : line;
}
