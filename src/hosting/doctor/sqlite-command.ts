import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';
import { findOwnNode } from '../../process/find-program.ts';
import { findDriver } from '../../store/sqlite/load-driver.ts';

/** How SQLite's URIs name what may be done to a file; `rwc` makes it where it is missing. */
export type SqliteAccess = 'mode=rwc' | 'mode=rw' | 'mode=ro' | 'immutable=1';

export interface SqliteRequest {
  readonly path: string;
  readonly access: SqliteAccess;
  readonly env: NodeJS.ProcessEnv;
}

export interface SqliteCommand {
  readonly command: readonly [string, ...string[]];
  readonly env: NodeJS.ProcessEnv;
}

/** What is said where there is no driver. */
export const NO_SQLITE = 'SQLite cannot be loaded';

/** Both drivers have what is used of them under the same names; one of them would wait for a lock. */
const OPEN = `
  const sqlite = require(process.argv[1]);
  const Sqlite = sqlite.Database ?? sqlite.DatabaseSync ?? sqlite;
  const database = new Sqlite(process.argv[2], { timeout: 0 });
`;

/**
 * Runs code that knows an open `database` in a process of its own, by the driver that the runner uses.
 * Null where there is none.
 */
export async function sqliteCommand(
  code: string,
  { path, access, env }: SqliteRequest,
): Promise<SqliteCommand | null> {
  const module = await findModule();
  if (module === null) return null;
  const place = `${pathToFileURL(path)}?${access}`;
  return {
    command: [findOwnNode(), '-e', `${OPEN}${code}`, module, place],
    env: { ...env, SQLITE_USE_URI: '1' },
  };
}

async function findModule(): Promise<string | null> {
  try {
    const { driver } = await findDriver();
    if (driver.name === 'node:sqlite') return driver.name;
    return createRequire(import.meta.filename).resolve(driver.name);
  } catch {
    return null;
  }
}
