import { expectedDuration, parseDelayMs, parseDurationMs } from '../../settings/readers.ts';
import { UsageError } from '../../system/base/errors.ts';

/** Milliseconds of `--budget`; null where it is not given. */
export function readBudget(text: string | undefined): number | null {
  if (text === undefined) return null;
  const budgetMs = parseDurationMs(text.trim());
  if (budgetMs !== null) return budgetMs;
  const isNone = parseDelayMs(text.trim()) === 0;
  const expected = isNone ? 'longer than 0s, such as 55s or 14m' : expectedDuration(text, '55s or 14m');
  const cure = isNone ? '; without it, the call has no limit of time' : '';
  throw new UsageError(`--budget must be ${expected}, found ${JSON.stringify(text)}${cure}.`);
}
