import { loadBetterSqlite3 } from './better-sqlite3.ts';
import type { Driver } from './connection.ts';

/** The driver of this process, and what there was to be said against the better one. */
export interface FoundDriver {
  readonly driver: Driver;
  /** Why it is not better-sqlite3; null: it is. */
  readonly reasonAgainstBetter: string | null;
}

// One for the whole process: two drivers on one file do not see each other's locks.
let found: FoundDriver | undefined;

/**
 * better-sqlite3, else `node:sqlite`.
 *
 * @throws when neither can be loaded
 */
export async function findDriver(): Promise<FoundDriver> {
  found ??= await loadDriver();
  return found;
}

async function loadDriver(): Promise<FoundDriver> {
  try {
    return { driver: loadBetterSqlite3(), reasonAgainstBetter: null };
  } catch (error) {
    return await loadOther(firstLine(error));
  }
}

async function loadOther(reasonAgainstBetter: string): Promise<FoundDriver> {
  const { loadNodeSqlite } = await import('./node-sqlite.ts');
  try {
    return { driver: loadNodeSqlite(), reasonAgainstBetter };
  } catch (error) {
    const message = `better-sqlite3: ${reasonAgainstBetter}; ${firstLine(error)}`;
    throw Object.assign(new Error(message), { code: 'ERR_NO_SQLITE' });
  }
}

/** Node lists, below it, who wanted the module. */
function firstLine(error: unknown): string {
  return (error as Error).message.split('\n', 1)[0] as string;
}
