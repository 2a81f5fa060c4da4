import { runAsWorker } from 'synckit';
import { parseDatabaseUrl } from '../../../src/store/server/connect/url.ts';
import type { ServerConnection } from '../../../src/store/server/engine.ts';

export interface Asked {
  readonly rows: readonly object[];
  readonly changes: number;
}

interface Request {
  readonly connection: number;
  readonly url: string;
  /** Null: the connection ends. */
  readonly sql: string | null;
  readonly values: readonly unknown[];
}

export type AskServer = (request: Request) => Promise<Asked>;

const connections = new Map<number, ServerConnection>();

/** Asks servers for a process that waits until it is answered. */
const ask: AskServer = async ({ connection: id, url, sql, values }) => {
  const known = connections.get(id);
  if (sql === null) {
    connections.delete(id);
    await known?.close();
    return { rows: [], changes: 0 };
  }
  // A test may have broken its server.
  const connection = known?.isLost === false ? known : await connect(url);
  connections.set(id, connection);
  const { rows, changes } = await connection.query(sql, values);
  return { rows: rows.map((row) => ({ ...row })), changes };
};

async function connect(url: string): Promise<ServerConnection> {
  const target = parseDatabaseUrl(url, 'the address for tests', '/');
  if (target.engine === 'postgres') {
    const { postgresEngine } = await import('../../../src/store/server/postgres/engine.ts');
    return await postgresEngine.connect(target, postgresEngine.dialect);
  }
  const { mysqlEngine } = await import('../../../src/store/server/mysql/engine.ts');
  return await mysqlEngine.connect(target, mysqlEngine.dialect);
}

runAsWorker(ask);
