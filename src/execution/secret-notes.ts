import { unlinkSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { readPlainFile } from '../system/base/plain-file.ts';
import { listNames } from '../system/base/values.ts';
import type { StateFolder } from '../system/place/state-folder.ts';
import { isOwnerDead, nameOwnFile, ownerOf } from '../system/process/identity.ts';
import { ifPossible, restoreFolders } from './run-files.ts';
import type { NotedSecret } from './secrets.ts';

/**
 * What a runner knows of secrets, for whoever collects what its runs have printed, should it die: that one may
 * have other variables. The file is there for as long as the runner works.
 */
const KIND = 'secrets';

/** Of this process, by the folder that they are in. */
const left = new Map<string, string>();

/** To be called before the process of a run starts that has its files there. */
export function leaveNote({ temporary }: StateFolder, secrets: readonly NotedSecret[]): void {
  if (secrets.length === 0 || left.has(temporary)) return;
  const path = join(temporary, nameOwnFile(KIND, left.size));
  left.set(temporary, path);
  const write = () => writeFileSync(path, JSON.stringify(secrets), { mode: 0o600 });
  // On a full disk there is none, and scripts run all the same.
  if (ifPossible(write)) return;
  restoreFolders([path]);
  ifPossible(write);
}

/** To be called once the ends of all runs of this process are on the disk. */
export function takeNotesBack(): void {
  for (const path of left.values()) ifPossible(() => unlinkSync(path));
  left.clear();
}

/** What runners have noted whose files are there, whether they live or not; unchecked. */
export function readNotes(state: StateFolder): readonly unknown[] {
  return listNotes(state).flatMap(readNote);
}

/** Those of processes that have died here. */
export function listDeadNotes(state: StateFolder): readonly string[] {
  return listNotes(state).filter((path) => isOwnerDead(basename(path), KIND));
}

/** The folder may be another user's, who took its name first. */
function listNotes({ temporary }: StateFolder): readonly string[] {
  try {
    const notes = listNames(temporary).filter((name) => ownerOf(name, KIND) !== null);
    return notes.map((name) => join(temporary, name));
  } catch {
    return [];
  }
}

/** Nothing where it was cut by a crash of the machine. */
function readNote(path: string): readonly unknown[] {
  try {
    const noted: unknown = JSON.parse(readPlainFile(path));
    return Array.isArray(noted) ? noted : [];
  } catch {
    return [];
  }
}
