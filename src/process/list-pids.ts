import { readdirSync } from 'node:fs';

/**
 * All processes that can be seen, in order of their start, mostly; where the host hides those of
 * others, the user's own. Empty where there is no `/proc`.
 */
export function listPids(): number[] {
  try {
    return readdirSync('/proc')
      .filter((name) => /^\d+$/.test(name))
      .map(Number);
  } catch {
    return [];
  }
}
