import {
  closeSync,
  fsyncSync,
  linkSync,
  mkdirSync,
  openSync,
  renameSync,
  statSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { timeOf } from './amounts.ts';
import { describeFileSystem } from './file-system-name.ts';
import { type Check, type Finding, problem, warning } from './finding.ts';
import { inScratchFolder, UnwritablePlace } from './scratch-folder.ts';
import { tryPrograms } from './try-program.ts';

/** What is tried there; each throws what keeps it from working. */
const trials: Readonly<Record<string, (folder: string) => void>> = {
  'to make and rename a folder': tryFolders,
  'to make a hard link': (folder) => linkSync(makeFile(folder, 'one'), join(folder, 'two')),
  'to write to the disk at once (fsync)': tryFsync,
  'to set the time of a file': (folder) => utimesSync(makeFile(folder, 'dated'), 1, 1),
};

const OTHER_PLACE = 'Move the root to a file system of the machine itself, or ask the host.';

export const checkFileSystem: Check = {
  name: 'file system',
  run: (place) =>
    inScratchFolder(place, async (folder) => [
      describeFileSystem(folder),
      ...Object.entries(trials).flatMap(([what, attempt]) => tryOut(folder, what, attempt)),
      ...judgeTime(folder),
      ...(await tryPrograms(place, folder)),
    ]).catch(notWritable),
};

function notWritable(error: Error): Finding[] {
  if (!(error instanceof UnwritablePlace)) throw error;
  return [
    problem(
      error.message,
      'Make the root and .runner writable for you (`chmod u+rwx`), and see that the disk is not full.',
    ),
  ];
}

function tryOut(folder: string, what: string, attempt: (folder: string) => void): Finding[] {
  try {
    attempt(folder);
    return [];
  } catch (error) {
    return [problem(`it does not work ${what}: ${(error as Error).message}`, OTHER_PLACE)];
  }
}

/** As a tier's lock does it: onto an empty folder it works, onto one with a file in it it must not. */
function tryFolders(folder: string): void {
  const [held, next] = [join(folder, 'held'), join(folder, 'next')];
  for (const each of [held, next]) mkdirSync(each);
  renameSync(next, held);
  makeFile(held, 'holder');
  mkdirSync(next);
  if (isDone(() => renameSync(next, held)))
    throw new Error('a folder that is not empty was replaced');
}

function isDone(attempt: () => void): boolean {
  try {
    attempt();
    return true;
  } catch {
    return false;
  }
}

function tryFsync(folder: string): void {
  const fd = openSync(join(folder, 'synced'), 'w');
  try {
    fsyncSync(fd);
  } finally {
    closeSync(fd);
  }
}

function makeFile(folder: string, name: string): string {
  const path = join(folder, name);
  writeFileSync(path, name);
  return path;
}

const TOLERATED_MS = 5000;

/** A server that keeps the files can have another clock: locks of other hosts are judged by it. */
function judgeTime(folder: string): Finding[] {
  const before = Date.now();
  const apart = statSync(makeFile(folder, 'now')).mtimeMs - before;
  if (Math.abs(apart) <= TOLERATED_MS) return [];
  const direction = apart > 0 ? 'ahead of' : 'behind';
  return [
    warning(
      `files are dated ${timeOf(Math.abs(apart))} ${direction} the clock of this machine`,
      'Ask the host to set the clocks of its machines by NTP.',
    ),
  ];
}
