import { nearestName } from '../../../system/base/suggest.ts';

/** Says what is wrong in a rule, without the rule itself. The text follows "The repeat rule … is wrong: ". */
export interface RuleFault {
  readonly fault: string;
  /** The whole rule that was probably meant; it may contain another fault. */
  readonly meant?: string;
  /** The end of the meant rule, if it differs from that of the wrong one: ` between 22:00 and 05:00 in UTC`. */
  readonly end?: string;
}

/** The end of a sentence that says what was expected: what was found, and the name that was probably meant. */
export function writeFound(words: string, names: readonly string[] = []): string {
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

const timeForm = /^([01]?\d|2[0-3]):([0-5]\d)$/;

/** The minute of the day of `10:00`; null: not a time. */
export function readClockTime(word: string): number | null {
  const [, hour, minute] = timeForm.exec(word) ?? [];
  return hour === undefined ? null : Number(hour) * 60 + Number(minute);
}

/** `08:00` for `8am`, `8`, `0800`; null: no guess. */
export function guessTime(word: string): string | null {
  if (word === 'noon' || word === 'midnight') return word === 'noon' ? '12:00' : '00:00';
  const [, hour, minute = '00', half] = /^(\d{1,2}?)[:.h]?(\d\d)? ?([ap]m)?$/.exec(word) ?? [];
  if (hour === undefined) return null;
  const hours = half === undefined ? Number(hour) : (Number(hour) % 12) + (half === 'pm' ? 12 : 0);
  const time = `${String(hours).padStart(2, '0')}:${minute}`;
  return readClockTime(time) === null ? null : time;
}
