import { findFreePort, makePostgres } from './postgres-server.ts';

/**
 * Starts a PostgreSQL that is there for nothing else, prints its address, and stops it when whoever has started this
 * closes its stdin, which its death does too.
 */
const port = await findFreePort();
const server = await makePostgres('password', port);
process.stdin.resume().once('close', async () => {
  await server.stop();
  process.exit();
});
// Nothing of it has to survive anything.
const careless = ['fsync=off', 'synchronous_commit=off', 'full_page_writes=off'];
try {
  await server.start([...careless, 'max_connections=300', 'listen_addresses=127.0.0.1']);
  console.log(`postgres://postgres:password@127.0.0.1:${port}/postgres`);
} catch (error) {
  console.error(String(error));
  await server.stop();
  process.exit(1);
}
