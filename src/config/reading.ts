import { parseByteSize } from './byte-size.ts';
import { expectedDuration, longestTimerMs, parseDelayMs, parseDurationMs } from './duration.ts';

/** A value that was understood, or what was expected in its place. */
export type Reading<T> = { readonly value: T } | { readonly expected: string };

export type Reader<T> = (found: unknown) => Reading<T>;

export const readText: Reader<string> = (found) =>
  typeof found === 'string' ? { value: found } : { expected: 'a text' };

export const readBoolean: Reader<boolean> = (found) =>
  typeof found === 'boolean' ? { value: found } : { expected: 'true or false' };

/** As a tag it says yes by being there. */
export const readFlag: Reader<boolean> = (found) => {
  if (found === true || found === '' || found === 'true') return { value: true };
  return found === false || found === 'false' ? { value: false } : { expected: 'true or false' };
};

/** One of a few words. */
export function readChoice<Word extends string>(...words: readonly Word[]): Reader<Word> {
  return (found) => {
    const text = typeof found === 'string' ? found.trim() : found;
    const word = words.find((each) => each === text);
    return word === undefined ? { expected: listChoices(words) } : { value: word };
  };
}

/** "retry, skip or fail" */
function listChoices(words: readonly string[]): string {
  return `${words.slice(0, -1).join(', ')} or ${words.at(-1)}`;
}

/** A duration of any length. */
export const readDurationMs: Reader<number> = (found) => {
  const durationMs = typeof found === 'string' ? parseDurationMs(found.trim()) : null;
  return durationMs === null ? { expected: expectedDuration(found) } : { value: durationMs };
};

/** How long to wait, which may be not at all: `0s`. */
export const readDelayMs: Reader<number> = (found) => {
  const delayMs = typeof found === 'string' ? parseDelayMs(found.trim()) : null;
  return delayMs === null ? { expected: expectedDuration(found) } : { value: delayMs };
};

/** A duration that a timer can wait for. */
export const readTimerMs: Reader<number> = (found) => {
  const reading = readDurationMs(found);
  if ('expected' in reading || reading.value <= longestTimerMs) return reading;
  return { expected: 'a duration of at most 24 days' };
};

export function readByteSize(smallest: string): Reader<number> {
  const smallestBytes = parseByteSize(smallest) ?? 0;
  return (found) => {
    const size = typeof found === 'string' ? parseByteSize(found.trim()) : null;
    if (size === null) return { expected: 'a size such as 64mb, 512mb or 1gb' };
    return size >= smallestBytes ? { value: size } : { expected: `a size of at least ${smallest}` };
  };
}

/** A number, or its digits: a tag is always text. */
export function readWholeNumber(least: number, most: number): Reader<number> {
  return (found) => {
    const isDigits = typeof found === 'string' && /^\d{1,9}$/.test(found.trim());
    const number = isDigits ? Number(found) : found;
    const isWithin = Number.isInteger(number) && Number(number) >= least && Number(number) <= most;
    return isWithin
      ? { value: Number(number) }
      : { expected: `a whole number from ${least} to ${most}` };
  };
}

/** A number such as 1.5, or its digits. */
export function readPositiveNumber(most: number): Reader<number> {
  return (found) => {
    const isDigits = typeof found === 'string' && /^\d{1,9}(?:\.\d{1,9})?$/.test(found.trim());
    const number = isDigits ? Number(found) : found;
    const isWithin = typeof number === 'number' && number > 0 && number <= most;
    return isWithin ? { value: number } : { expected: `a number above 0, up to ${most}` };
  };
}

/** A list of words, or a text of words separated by spaces or commas. */
export function readWords(form: RegExp, expected: string): Reader<readonly string[]> {
  return (found) => {
    const words = typeof found === 'string' ? splitWords(found) : found;
    const isList = Array.isArray(words) && words.length > 0;
    const isRight = isList && words.every((word) => typeof word === 'string' && form.test(word));
    return isRight ? { value: [...new Set<string>(words)] } : { expected };
  };
}

function splitWords(text: string): readonly string[] {
  return text.split(/[\s,]+/).filter((word) => word !== '');
}
