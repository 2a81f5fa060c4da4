import { type Driver, loadBetterSqlite3, loadNodeSqlite } from '../../../src/store/sqlite/driver.ts';

/** For `describe.each`: a test must not open one file with both at the same time. */
export const drivers: readonly (readonly [string, Driver])[] = [
  ['better-sqlite3', loadBetterSqlite3()],
  ['node:sqlite', loadNodeSqlite()],
];
