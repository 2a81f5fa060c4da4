import { jobStates } from '../../queue/read/list.ts';
import { outcomes } from '../../store/words.ts';
import type { CommandName } from '../../system/base/command-names.ts';
import { nearestName } from '../../system/base/suggest.ts';

/**
 * What was meant by an option that a command does not have, without its dashes.
 *
 * @param near options of the command that look like it, if only a little
 */
export function guessOption(option: string, near: readonly string[], command: CommandName | null): string | null {
  const word = withoutDashes(option);
  return guessFilter(word, command) ?? nearestName(word, near.map(withoutDashes));
}

/** `report --failed`: it is the value of an option. */
function guessFilter(word: string, command: CommandName | null): string | null {
  if (command === 'report' && outcomes.some((outcome) => outcome === word)) return `outcome ${word}`;
  return command === 'jobs' && jobStates.some((state) => state === word) ? `state ${word}` : null;
}

function withoutDashes(option: string): string {
  return option.replace(/^-+/, '');
}
