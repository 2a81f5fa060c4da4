import type { Screen } from './screen.ts';
import { joinFitting, truncate } from './truncate.ts';

const INDENT = '  ';

/** One thing: its name, and what there is to say of it, on further lines where there is no room. */
export function entry(
  parts: readonly string[],
  { columns }: Screen,
  paint: (text: string) => string,
): string[] {
  const room = columns - 2 * INDENT.length;
  const fitted = joinFitting(
    parts.map((part) => truncate(part, room)),
    room,
  );
  return fitted.map((line, index) => INDENT + (index === 0 ? '' : INDENT) + paint(line));
}
