import { nearestName } from '../config/near-miss.ts';
import { UsageError } from '../config/usage-error.ts';
import { outcomes } from '../store/outcomes.ts';
import type { Outcome } from '../store/schema.ts';
import { printableLine } from './printable.ts';

/**
 * The outcomes that `--outcome failed,timed-out` names.
 *
 * @throws {UsageError} that names the nearest outcome
 */
export function parseOutcomes(text: string): Outcome[] {
  return text.split(',').map((word) => parseOutcome(word.trim()));
}

function parseOutcome(word: string): Outcome {
  const outcome = outcomes.find((each) => each === word);
  if (outcome !== undefined) return outcome;
  const nearest = nearestName(word, outcomes);
  throw new UsageError(
    `--outcome expects one of ${outcomes.join(', ')}, found ${JSON.stringify(printableLine(word))}` +
      (nearest === null ? '.' : `; did you mean ${nearest}?`),
  );
}
