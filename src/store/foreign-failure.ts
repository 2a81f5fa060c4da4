import { errorCode } from '../config/error-code.ts';
import { UsageError } from '../config/usage-error.ts';

/** @throws {UsageError} instead of SQLite's own words, or those of the file system */
export function orTold<T>(path: string, work: () => T): T {
  try {
    return work();
  } catch (error) {
    throw error instanceof UsageError ? error : describeFailure(path, error);
  }
}

const sentences: readonly (readonly [RegExp, string])[] = [
  [/^ENOENT$/, 'is not there'],
  [/^EISDIR$/, 'is a folder; name the SQLite file in it'],
  [/^(EACCES|EPERM)$/, 'cannot be read by this user'],
  [/^SQLITE_NOTADB$/, 'is no SQLite database, or an encrypted one'],
  [/^SQLITE_CORRUPT/, 'is damaged; try `sqlite3 <file> .recover` first'],
  [/^SQLITE_(BUSY|LOCKED)/, 'stays locked; stop the programs that use it, then try again'],
  [
    /^SQLITE_(CANTOPEN|READONLY)/,
    'was left in the middle of a write; let its own program open it once, then try again',
  ],
];

function describeFailure(path: string, error: unknown): unknown {
  const [, said] = sentences.find(([codes]) => codes.test(errorCode(error))) ?? [];
  if (said === undefined) return error;
  return new UsageError(`${path} ${said} (${(error as Error).message}).`);
}
