import { nearestName } from '../config/near-miss.ts';
import { UsageError } from '../config/usage-error.ts';
import { jobStates } from '../queue/job-states.ts';
import type { ListOptions } from '../queue/queue.ts';
import type { JobState } from '../store/schema.ts';
import { printableLine } from './printable.ts';

/**
 * The states that `--state failed,cancelled` names, or `ready` or `delayed`: what waits and is due, or not
 * yet.
 *
 * @throws {UsageError} that names the nearest one
 */
export function readJobStates(text: string): Pick<ListOptions, 'state' | 'due'> {
  const words = text.split(',').map((word) => word.trim());
  if (words.length === 1 && (words[0] === 'ready' || words[0] === 'delayed')) {
    return { due: words[0] };
  }
  return { state: words.map(readState) };
}

function readState(word: string): JobState {
  const state = jobStates.find((each) => each === word);
  if (state !== undefined) return state;
  const guess = nearestName(word, [...jobStates, 'ready', 'delayed']);
  const nearest = guess === word ? null : guess;
  throw new UsageError(
    `--state expects some of ${jobStates.join(', ')}, or ready or delayed alone, ` +
      `found ${JSON.stringify(printableLine(word))}${nearest === null ? '.' : `; did you mean ${nearest}?`}`,
  );
}
