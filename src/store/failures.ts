import { errorCode, isOfSystem, toPackageIncomplete } from '../system/base/errors.ts';

/** By the codes of SQLite, extended ones included, and of the file system. */
const kindsByCode: readonly (readonly [StoreFailureKind, RegExp])[] = [
  ['read-only', /^(SQLITE_READONLY\w*|SQLITE_PERM|EACCES|EPERM|EROFS)$/],
  ['full', /^(SQLITE_FULL|ENOSPC|EDQUOT|EFBIG)$/],
  ['broken', /^SQLITE_(CORRUPT\w*|NOTADB)$/],
  ['locked', /^SQLITE_(BUSY\w*|LOCKED\w*|PROTOCOL)$/],
  ['no-driver', /^ERR_NO_SQLITE$/],
  // No trigger is the log's own, and no statement of the runner's is wrong for its own tables.
  ['changed', /^SQLITE_(ERROR|SCHEMA|CONSTRAINT_TRIGGER)$/],
  ['io', /^(SQLITE_(IOERR\w*|CANTOPEN\w*|NOMEM|NOLFS)|EIO|EEXIST|ENOENT|ENOTDIR|ESTALE|EMFILE|ENFILE)$/],
];

/** The kind of failure of the log; null: the error has another cause, such as a defect. */
export function kindOfStoreFailure(error: unknown): StoreFailureKind | null {
  if (error instanceof StoreUnavailable) return error.kind;
  const code = errorCode(error);
  return kindsByCode.find(([, codes]) => codes.test(code))?.[0] ?? null;
}

/** True if the work is not to blame, but the log's ground: disk, locks, rights, or the file itself. */
export function isStoreFailure(error: unknown): boolean {
  return kindOfStoreFailure(error) !== null;
}

/** The same, of work that also meets other files: only the database's failures are the log's. */
export function isLogFailure(error: unknown): boolean {
  return error instanceof StoreUnavailable || (errorCode(error).startsWith('SQLITE_') && isStoreFailure(error));
}

/**
 * True when the log has refused a value that it was to store: for its size, its form, or a constraint. By the codes
 * of SQLite, PostgreSQL, MySQL and MariaDB.
 */
export function isRefusal(error: unknown): boolean {
  if (isStoreFailure(error)) return false;
  return /^(SQLITE_(CONSTRAINT\w*|TOOBIG|MISMATCH|RANGE)|(22|23)\w{3}|54000|ER_[A-Z]\w*)$/.test(errorCode(error));
}

/** True when nothing outside of this process is to blame: the disk, the log, the server and the package have codes. */
export function isDefect(error: unknown): boolean {
  if (isStoreFailure(error) || isRefusal(error) || toPackageIncomplete(error) !== null) return false;
  return !isOfSystem(error) && !/^(SQLITE_\w+|[0-9A-Z]{5})$/.test(errorCode(error));
}

/** True when the file itself is damaged: to be marked by `markSuspect`. */
export function isCorruption(error: unknown): boolean {
  return kindOfStoreFailure(error) === 'broken';
}

/**
 * True when what is in the file may be to blame, whatever that is: to be marked by `markSuspect`. Not when
 * it is its place, or whoever else uses it.
 */
export function isSuspicious(error: unknown): boolean {
  const kind = kindOfStoreFailure(error);
  return kind === null || kind === 'broken' || kind === 'changed';
}

/**
 * True if the disk may only lack room. SQLite has a separate code for a full disk, but not for an exhausted quota, nor
 * for a lack of room for the files beside the log.
 */
export function mayBeFull(error: unknown): boolean {
  return /^(SQLITE_FULL|SQLITE_IOERR_(WRITE|FSYNC|TRUNCATE|SHM\w+)|SQLITE_CANTOPEN|ENOSPC|EDQUOT)$/.test(
    errorCode(error),
  );
}

/** Why there is no log to write to. */
export type StoreFailureKind =
  | 'locked'
  | 'read-only'
  | 'full'
  | 'broken'
  | 'changed'
  | 'newer-schema'
  /** Its tables were made before the first release. */
  | 'unreleased'
  | 'foreign'
  /** Only for a file: its log lives in a database now. */
  | 'moved'
  | 'no-driver'
  | 'io'
  /** Only for a server: it cannot be reached, or has no room for a connection. */
  | 'away'
  /** Only for a server: it rejects this user, or what must be done. */
  | 'refused';

/** The activity log cannot be opened. The message says what happened and what to do about it. */
export class StoreUnavailable extends Error {
  override readonly name = 'StoreUnavailable';
  readonly kind: StoreFailureKind;

  constructor(kind: StoreFailureKind, message: string, options?: ErrorOptions) {
    super(message, options);
    this.kind = kind;
  }
}
