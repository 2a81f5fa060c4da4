import { jobStates, outcomes } from '../../store/words.ts';
import type { CommandName } from '../../system/base/command-names.ts';
import { nearestName } from '../../system/base/suggest.ts';

/**
 * What was meant by an option that a command does not have, without its dashes.
 *
 * @param known the options that the command has
 */
export function guessOption(option: string, known: readonly string[], command: CommandName | null): string | null {
  const word = withoutDashes(option);
  return guessFilter(word, command) ?? (option.startsWith('--') ? nearestName(word, known.map(withoutDashes)) : null);
}

/** `report --failed`: it is the value of an option. */
function guessFilter(word: string, command: CommandName | null): string | null {
  if (command === 'report' && outcomes.some((outcome) => outcome === word)) return `outcome ${word}`;
  return command === 'jobs' && jobStates.some((state) => state === word) ? `state ${word}` : null;
}

function withoutDashes(option: string): string {
  return option.replace(/^-+/, '');
}
