/** The primary result codes, by their numbers from 1 on: https://sqlite.org/rescode.html. */
const primary = words(`
  ERROR INTERNAL PERM ABORT BUSY LOCKED NOMEM READONLY INTERRUPT IOERR CORRUPT NOTFOUND FULL CANTOPEN
  PROTOCOL EMPTY SCHEMA TOOBIG CONSTRAINT MISMATCH MISUSE NOLFS AUTH FORMAT RANGE NOTADB NOTICE WARNING`);

/** What the extended codes add, by the numbers in their higher bytes from 1 on. */
const extended: Readonly<Record<string, readonly string[]>> = {
  BUSY: words('RECOVERY SNAPSHOT TIMEOUT'),
  LOCKED: words('SHAREDCACHE VTAB'),
  READONLY: words('RECOVERY CANTLOCK ROLLBACK DBMOVED CANTINIT DIRECTORY'),
  IOERR: words(`
    READ SHORT_READ WRITE FSYNC DIR_FSYNC TRUNCATE FSTAT UNLOCK RDLOCK DELETE BLOCKED NOMEM ACCESS
    CHECKRESERVEDLOCK LOCK CLOSE DIR_CLOSE SHMOPEN SHMSIZE SHMLOCK SHMMAP SEEK DELETE_NOENT MMAP
    GETTEMPPATH CONVPATH VNODE AUTH BEGIN_ATOMIC COMMIT_ATOMIC ROLLBACK_ATOMIC DATA CORRUPTFS IN_PAGE`),
  CORRUPT: words('VTAB SEQUENCE INDEX'),
  CANTOPEN: words('NOTEMPDIR ISDIR FULLPATH CONVPATH DIRTYWAL SYMLINK'),
  CONSTRAINT: words(`
    CHECK COMMITHOOK FOREIGNKEY FUNCTION NOTNULL PRIMARYKEY TRIGGER UNIQUE VTAB ROWID PINNED DATATYPE`),
};

/** The name of a result code: `SQLITE_BUSY`, `SQLITE_IOERR_WRITE`. */
export function sqliteErrorName(code: number): string {
  const name = primary[(code & 0xff) - 1] ?? `ERROR_${code}`;
  const more = extended[name]?.[(code >> 8) - 1];
  return more === undefined ? `SQLITE_${name}` : `SQLITE_${name}_${more}`;
}

function words(text: string): readonly string[] {
  return text.trim().split(/\s+/);
}
