import { expectedDuration, parseDelayMs, parseDurationMs, type Reader } from '../../settings/readers.ts';
import { UsageError } from '../../system/base/errors.ts';
import { printableLine } from '../../system/base/text.ts';

/** Reads the value of an option as a setting of that kind is read. */
export function by<T>(reader: Reader<T>): (word: string, option: string) => T {
  return (word, option) => {
    const reading = reader(word);
    if ('value' in reading) return reading.value;
    throw new UsageError(`${option} must be ${reading.expected}, found ${JSON.stringify(word)}.`);
  };
}

/** Empty it would be the root's folder, which changes for other reasons. */
export const readPathOption: Reader<string> = (found) =>
  typeof found === 'string' && found !== '' ? { value: found } : { expected: 'a path' };

const MOST = 1_000_000_000;

/** The whole number of an option, from 1 on. */
export function readCount(word: string, option: string, most = MOST): number {
  const count = /^\d{1,10}$/.test(word) ? Number(word) : 0;
  if (count > 0 && count <= most) return count;
  throw new UsageError(
    `${option} must be a whole number from 1 to ${most}, found ${JSON.stringify(printableLine(word))}.`,
  );
}

/** The same where nothing is too many. */
export function readLimit(word: string, option: string): number {
  const limit = /^\d{1,9}$/.test(word) ? Number(word) : 0;
  if (limit > 0) return limit;
  throw new UsageError(`${option} must be a whole number from 1, found ${JSON.stringify(word)}.`);
}

/** Milliseconds of `--budget`. */
export function readBudget(text: string): number {
  const budgetMs = parseDurationMs(text.trim());
  if (budgetMs !== null) return budgetMs;
  const isNone = parseDelayMs(text.trim()) === 0;
  const expected = isNone ? 'longer than 0s, such as 55s or 14m' : expectedDuration(text, '55s or 14m');
  const cure = isNone ? '; without it, the call has no limit of time' : '';
  throw new UsageError(`--budget must be ${expected}, found ${JSON.stringify(text)}${cure}.`);
}

/**
 * Whether a call that runs something is only to show what it would do.
 *
 * @throws {UsageError} where JSON is asked for of a call that prints none
 */
export function asksForPlan({ dryRun, json }: { readonly dryRun?: boolean; readonly json?: boolean }): boolean {
  if (json && !dryRun)
    throw new UsageError('--json needs --dry-run beside it; `npx folder-runner report --json` tells of runs.');
  return dryRun === true;
}
