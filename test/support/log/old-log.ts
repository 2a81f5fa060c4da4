import { closeSync, openSync } from 'node:fs';
import { loadBetterSqlite3 } from '../../../src/store/sqlite/driver.ts';
import { APPLICATION_ID } from '../../../src/store/sqlite/file.ts';
import type { StateFolder } from '../../../src/system/place/state-folder.ts';

/** A log of an older runner, before the first migration of this one. */
export function makeOldLog(folder: StateFolder): void {
  closeSync(openSync(folder.database, 'wx', 0o600));
  const connection = loadBetterSqlite3().open(folder.database, { timeoutMs: 0 });
  connection.pragma('auto_vacuum = incremental');
  connection.pragma(`application_id = ${APPLICATION_ID}`);
  connection.pragma('journal_mode = wal');
  connection.close();
}
