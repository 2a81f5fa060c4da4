import { nearestName } from '../../system/base/suggest.ts';

/** What is wrong in a rule, without the rule itself: it follows "The repeat rule … is wrong: ". */
export interface Fault {
  readonly fault: string;
  /** The whole rule that was probably meant, which may still have another fault. */
  readonly meant?: string;
}

/** Behind what was expected; with what was probably meant. */
export function found(words: string, names: readonly string[] = []): string {
  const nearest = words === '' ? null : nearestName(words, names);
  const hint = nearest === null ? '' : `; did you mean ${nearest}?`;
  return words === '' ? '' : `, found ${quote(words)}${hint}`;
}

const LONGEST_SHOWN = 80;

/** What was found, as JSON so that blanks and control characters are seen, and not all of a long one. */
export function quote(text: string): string {
  const letters = [...text];
  const shown = letters.length <= LONGEST_SHOWN ? text : `${letters.slice(0, LONGEST_SHOWN).join('')}…`;
  return JSON.stringify(shown);
}
