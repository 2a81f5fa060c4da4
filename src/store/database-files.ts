import { closeSync, fsyncSync, openSync, rmSync } from 'node:fs';

/** The files that belong to a database, the database itself first. */
export const databaseSuffixes = ['', '-wal', '-shm', '-journal'] as const;

/** SQLite would make it with the umask's mode; -wal and -shm get the mode of the file. */
export function createPrivateFile(path: string): void {
  closeSync(openSync(path, 'wx', 0o600));
}

/** Only while nobody has it open: closing it drops SQLite's locks. */
export function syncFile(path: string): void {
  const fd = openSync(path, 'r+');
  try {
    fsyncSync(fd);
  } finally {
    closeSync(fd);
  }
}

export function removeDatabase(path: string): void {
  for (const suffix of databaseSuffixes) rmSync(path + suffix, { force: true });
}
