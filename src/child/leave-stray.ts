import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { STRAY_FILE, type Stray } from './handler-contract.ts';

/** On a full disk the runner learns only that the process has ended. */
export function leaveStray(temporary: string, stray: Stray): void {
  try {
    writeFileSync(join(temporary, STRAY_FILE), JSON.stringify(stray), { mode: 0o600 });
  } catch {}
}
