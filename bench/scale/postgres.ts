import pg from 'pg';
import { findFreePort, makePostgres } from '../../test/support/engines/postgres-server.ts';

/** A server of the bench's own, with its data on the disk that is measured, which acknowledges nothing before it is there. */
export interface Postgres {
  /** Address of a new database. */
  create(name: string): Promise<string>;
  drop(name: string): Promise<void>;
  stop(): Promise<void>;
}

const PASSWORD = 'bench';
const CONNECTIONS = 200;

/** @param folder on the disk to measure; every user must be able to enter it, as PostgreSQL does not run as root */
export async function startPostgres(folder: string): Promise<Postgres> {
  const port = await findFreePort();
  const server = await makePostgres(PASSWORD, port, folder);
  await server.start([`max_connections=${CONNECTIONS}`]);
  const address = (name: string): string => `postgres://postgres:${PASSWORD}@127.0.0.1:${port}/${name}`;
  const ask = async (statement: string): Promise<void> => {
    const client = new pg.Client(address('postgres'));
    await client.connect();
    await client.query(statement).finally(() => client.end());
  };
  return {
    create: async (name) => {
      await ask(`create database ${name}`);
      return address(name);
    },
    drop: (name) => ask(`drop database ${name}`),
    stop: () => server.stop(),
  };
}
