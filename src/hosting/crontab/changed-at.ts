import { existsSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { findOtherOwner } from '../../system/place/owner.ts';
import { stateFolderOf } from '../../system/place/state-folder.ts';

/** Empty; its time tells when the lines of this root were last installed, changed or taken out. */
const markOf = (root: string): string => join(stateFolderOf(root).cache, 'crontab-changed');

/** Without it a line that was installed a minute ago looks as if its calls had been missed since ever. */
export function markChanged(root: string): void {
  // What root makes in another user's site would shut that user out.
  if (!existsSync(stateFolderOf(root).cache) || findOtherOwner(root) !== null) return;
  try {
    writeFileSync(markOf(root), '', { mode: 0o600 });
  } catch {
    // The crontab is changed all the same; that nothing can be written here each pass says.
  }
}

/** Null: not known, as with lines that were pasted. */
export function readChangedAt(root: string): number | null {
  return statSync(markOf(root), { throwIfNoEntry: false })?.mtimeMs ?? null;
}
