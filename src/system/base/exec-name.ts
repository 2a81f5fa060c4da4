/**
 * Stands before the names of commands that `runner exec` runs, in the place of a tier: `exec/backup`. No folder of
 * `jobs/` is a tier of this name, because it is a command's.
 */
export const EXEC = 'exec';

/** Whether a name is that of a command, and not of a file in `jobs/`. Each is a tier of its own: it has its own lock. */
export function isExecName(name: string): boolean {
  return name.startsWith(`${EXEC}/`);
}

/** Its lock's files are named by it, and encrypted homes allow names of 143 bytes. */
export const LONGEST_LABEL_BYTES = 80;

/** The part behind `exec/`. Without dots, it is never taken for a file. */
export function isExecLabel(label: string): boolean {
  return /^[\p{L}\p{N}][\p{L}\p{M}\p{N}_-]*$/u.test(label) && Buffer.byteLength(label) <= LONGEST_LABEL_BYTES;
}

/** The name of a call that runs beside others of its name: `exec/backup+2`. */
export function nthName(name: string, nth: number): string {
  return `${name}+${nth}`;
}

/** The name that settings and pauses know: `exec/backup` of `exec/backup+2`; any other name is unchanged. */
export function firstName(name: string): string {
  return isExecName(name) ? name.replace(/\+\d+$/, '') : name;
}
