import { unlinkSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { readPlainFile } from '../system/base/plain-file.ts';
import { listNames } from '../system/base/values.ts';
import type { StateFolder } from '../system/place/state-folder.ts';
import { isOwnerDead, nameOwnFile, ownerOf } from '../system/process/identity.ts';
import { ifPossible, restoreFolders } from './run-files.ts';
import type { NotedSecret } from './secrets.ts';

/**
 * A runner leaves notes about its secrets for the case that it dies. The process that then collects the output of its
 * runs may have other variables. The file exists as long as the runner works.
 */
const KIND = 'secrets';

/** Paths of this process's notes, by temporary folder. */
const left = new Map<string, string>();

/** Call it before a run starts whose files are in that folder. */
export function leaveNote({ temporary }: StateFolder, secrets: readonly NotedSecret[]): void {
  if (secrets.length === 0 || left.has(temporary)) return;
  const path = join(temporary, nameOwnFile(KIND, left.size));
  left.set(temporary, path);
  const write = () => writeFileSync(path, JSON.stringify(secrets), { mode: 0o600 });
  // On a full disk there is no note, and scripts run nevertheless.
  if (ifPossible(write)) return;
  restoreFolders([path]);
  ifPossible(write);
}

/** Call it once the ends of all runs of this process are on the disk. */
export function takeNotesBack(): void {
  for (const path of left.values()) ifPossible(() => unlinkSync(path));
  left.clear();
}

/** The notes of all runners in the folder, dead or alive; unchecked. */
export function readNotes(state: StateFolder): readonly unknown[] {
  return listNotes(state).flatMap(readNote);
}

/** The notes of processes that have died here. */
export function listDeadNotes(state: StateFolder): readonly string[] {
  return listNotes(state).filter((path) => isOwnerDead(basename(path), KIND));
}

/** Listing fails if another user took the folder's name first. */
function listNotes({ temporary }: StateFolder): readonly string[] {
  try {
    const notes = listNames(temporary).filter((name) => ownerOf(name, KIND) !== null);
    return notes.map((name) => join(temporary, name));
  } catch {
    return [];
  }
}

/** Empty if a crash of the machine cut the note. */
function readNote(path: string): readonly unknown[] {
  try {
    const noted: unknown = JSON.parse(readPlainFile(path));
    return Array.isArray(noted) ? noted : [];
  } catch {
    return [];
  }
}
