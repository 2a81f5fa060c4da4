import { spawn } from 'node:child_process';
import type { Socket } from 'node:net';
import { createInterface } from 'node:readline';
import { createConnection } from 'mysql2/promise';
import { testedEngines } from './engines.ts';

/**
 * For projects of vitest: the servers that their tests need. PostgreSQL is started, once for all projects of a run,
 * unless the environment names one; MySQL or MariaDB is what the environment names.
 */
export async function setup(): Promise<void> {
  // Each project loads this file for itself.
  process.env.TEST_RUN ??= Date.now().toString(36);
  if (testedEngines.some(({ name }) => name === 'postgres')) process.env.TEST_POSTGRES_URL ??= await startPostgres();
  await dropOfMysql((run) => Number.parseInt(run, 36) < Date.now() - OLD_MS);
}

/** A run that was killed leaves some; one that goes on beside this one must keep them. */
const OLD_MS = 24 * 3_600_000;

/** The server goes on when the tests have ended. */
export async function teardown(): Promise<void> {
  await dropOfMysql((run) => run === process.env.TEST_RUN);
}

async function dropOfMysql(isOver: (run: string) => boolean): Promise<void> {
  const { TEST_MYSQL_URL } = process.env;
  if (TEST_MYSQL_URL === undefined) return;
  const server = await createConnection(TEST_MYSQL_URL);
  const [rows] = await server.query(`select schema_name as name from information_schema.schemata
    union select user from mysql.user`);
  for (const { name } of rows as { readonly name: string }[]) {
    const [, run] = /^test_(\w+?)_/.exec(name) ?? [];
    if (run === undefined || !isOver(run)) continue;
    await server.query(`drop database if exists ${name}`);
    await server.query(`drop user if exists ${name}`);
  }
  await server.end();
}

/** Its keeper ends it once this process has ended, however it does. */
async function startPostgres(): Promise<string> {
  const keeper = spawn(process.execPath, [new URL('./postgres-keeper.ts', import.meta.url).pathname], {
    stdio: ['pipe', 'pipe', 'inherit'],
    // Ctrl-C is for the tests: they still need it then.
    detached: true,
  });
  keeper.unref();
  (keeper.stdin as Socket).unref();
  for await (const line of createInterface(keeper.stdout)) {
    keeper.stdout.destroy();
    return line;
  }
  throw new Error('PostgreSQL for the tests could not be started: what it said stands above.');
}
