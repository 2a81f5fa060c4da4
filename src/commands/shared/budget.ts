import { expectedDuration, parseDurationMs } from '../../settings/readers.ts';
import { UsageError } from '../../system/base/errors.ts';

/** Milliseconds of `--budget`; null where it is not given. */
export function readBudget(text: string | undefined): number | null {
  if (text === undefined) return null;
  const budgetMs = parseDurationMs(text.trim());
  if (budgetMs !== null) return budgetMs;
  const expected = expectedDuration(text, '55s or 14m');
  throw new UsageError(`--budget must be ${expected}, found ${JSON.stringify(text)}.`);
}
