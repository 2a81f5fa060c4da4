import { linkSync, unlinkSync } from 'node:fs';

/** Gives a file a second name, whatever had it before. Where that cannot be, it has just the first. */
export function linkAnew(path: string, name: string): void {
  try {
    linkSync(path, name);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') replaceLink(path, name);
  }
}

function replaceLink(path: string, name: string): void {
  try {
    unlinkSync(name);
    linkSync(path, name);
  } catch {}
}
