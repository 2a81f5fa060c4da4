import { test } from 'vitest';
import { engine } from './engines/engines.ts';

/** For what only SQLite has: its file, its plans, its triggers. Beside each such test stands what that is. */
export const testOfSqlite = test.runIf(engine.name === 'sqlite');
