import { nearestName } from '../../system/base/suggest.ts';

/** Says what is wrong in a rule, without the rule itself. The text follows "The repeat rule … is wrong: ". */
export interface RuleFault {
  readonly fault: string;
  /** The whole rule that was probably meant; it may contain another fault. */
  readonly meant?: string;
}

/** The end of a sentence that says what was expected: what was found, and the name that was probably meant. */
export function found(words: string, names: readonly string[] = []): string {
  const nearest = words === '' ? null : nearestName(words, names);
  const hint = nearest === null ? '' : `; did you mean ${nearest}?`;
  return words === '' ? '' : `, found ${quote(words)}${hint}`;
}

const LONGEST_SHOWN = 80;

/** Quotes the text as JSON, so that blanks and control characters show. A long text is cut. */
export function quote(text: string): string {
  const letters = [...text];
  const shown = letters.length <= LONGEST_SHOWN ? text : `${letters.slice(0, LONGEST_SHOWN).join('')}…`;
  return JSON.stringify(shown);
}
