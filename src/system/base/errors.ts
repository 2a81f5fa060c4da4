import { constants } from 'node:os';

/**
 * Wrong use: the command prints the message, one sentence or one line per problem, and exits with 2. The message names
 * the subject, the place, what was expected and the cure.
 */
export class UsageError extends Error {
  override readonly name = 'UsageError';
  /** Not a property: two errors that say the same are equal. */
  readonly #faults: readonly (Fault | string)[];

  /** @param said one sentence, or all that is wrong */
  constructor(said: string | readonly (Fault | string)[], options?: ErrorOptions) {
    const faults = typeof said === 'string' ? [said] : said;
    super(faults.map((each) => (typeof each === 'string' ? each : sentenceOf(each))).join('\n'), options);
    this.#faults = faults;
  }

  /** All that is wrong, for who shows the cures apart. */
  get faults(): readonly (Fault | string)[] {
    return this.#faults;
  }
}

/** Wrong use: nothing has this name or number, or several things have it. The API answers 404. */
export class NoSuchName extends UsageError {}

/** A fault, and how to fix it. */
export interface Fault {
  readonly found: string;
  readonly cure: string;
}

export function sentenceOf({ found, cure }: Fault): string {
  return `${found}; ${cure}`;
}

/** Files of the package that this process starts from, or loads, are missing. */
export class PackageIncomplete extends Error {
  override readonly name = 'PackageIncomplete';

  /** @param missing an error message, of which the first line is shown */
  constructor(missing: string) {
    super(
      `the package is not complete (${missing.split('\n', 1)[0]}): it is being installed, or was removed. ` +
        'The next call tries again; if this stays so, install it again.',
    );
  }
}

/** The error as `PackageIncomplete`, if one of the package's files was not found or not loaded; null: another error. */
export function toPackageIncomplete(error: unknown): PackageIncomplete | null {
  if (error instanceof PackageIncomplete) return error;
  const isOfChunk = errorCode(error) === 'MODULE_NOT_FOUND' && MISSING_CHUNK.test((error as Error).message);
  return isOfChunk ? new PackageIncomplete((error as Error).message) : null;
}

const MISSING_CHUNK = /^Cannot find module '\.\/[\w-]+\.cjs'/;

/** Whether the operating system refused something: a file, a disk, a connection. */
export function isOfSystem(error: unknown): boolean {
  return /^E(?!RR_)[A-Z0-9]+$/.test(errorCode(error));
}

/** The code of an error of the operating system or of SQLite: `ENOSPC`, `SQLITE_BUSY`; '' if it has none. */
export function errorCode(error: unknown): string {
  if (!(error instanceof Error)) return '';
  const { code, errno } = error as NodeJS.ErrnoException;
  // libuv has no name for an exhausted quota: its code is "Unknown system error -122".
  return errno === -constants.errno.EDQUOT ? 'EDQUOT' : (code ?? '');
}

/** Whether a user may not look into what they asked for: nothing is known of it then. */
export function isDenied(error: unknown): boolean {
  return ['EACCES', 'EPERM'].includes(errorCode(error));
}
