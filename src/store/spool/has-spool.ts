import { readdirSync } from 'node:fs';
import type { StateFolder } from '../../config/state-folder.ts';

/** Whether there may be something to take in. Asked at every start: one look, and nothing else loaded. */
export function hasSpool({ spool }: StateFolder): boolean {
  try {
    return readdirSync(spool).some((name) => name.endsWith('.jsonl') || name.endsWith('.part'));
  } catch {
    // None, mostly. What cannot be read, nobody can take in.
    return false;
  }
}
