import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { copyFileSync, existsSync, mkdirSync, readFileSync, renameSync, rmSync } from 'node:fs';
import { connect, createServer } from 'node:net';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';

const wanted = join(import.meta.dirname, 'peers');
const REDIS = '/usr/bin/redis-server';
const REDIS_START_MS = 10_000;

/**
 * Other people's queues, installed into a cache folder when they are first needed, without running
 * any script of theirs. Null where that fails, as without a network.
 */
export function installPeers(): string | null {
  const folder = join(cacheFolder(), hashOf(join(wanted, 'package-lock.json')));
  if (existsSync(folder)) return folder;
  const unfinished = `${folder}.${process.pid}`;
  mkdirSync(unfinished, { recursive: true });
  for (const file of ['package.json', 'package-lock.json']) {
    copyFileSync(join(wanted, file), join(unfinished, file));
  }
  const args = ['ci', '--ignore-scripts', '--no-audit', '--no-fund', '--loglevel', 'error'];
  const { status, stderr } = spawnSync('npm', args, { cwd: unfinished, encoding: 'utf8' });
  if (status === 0) {
    renameSync(unfinished, folder);
    return folder;
  }
  rmSync(unfinished, { recursive: true, force: true });
  process.stdout.write(`The peers could not be installed:\n${stderr}\n`);
  return null;
}

function cacheFolder(): string {
  const caches = process.env.XDG_CACHE_HOME || join(homedir(), '.cache');
  return join(caches, 'folder-runner-bench');
}

function hashOf(path: string): string {
  return createHash('sha256').update(readFileSync(path)).digest('hex').slice(0, 12);
}

/** A server of the bench's own, which acknowledges nothing before it is on the disk. */
export interface Redis {
  readonly port: number;
  stop(): Promise<void>;
}

/** On loopback, with its data in `folder`; null where Debian's redis-server is not installed. */
export async function startRedis(folder: string): Promise<Redis | null> {
  if (!existsSync(REDIS)) return null;
  mkdirSync(folder);
  const port = await findFreePort();
  const options = { port, bind: '127.0.0.1', dir: folder, save: '', appendonly: 'yes' };
  const args = Object.entries({ ...options, appendfsync: 'always' });
  const server = spawn(
    REDIS,
    args.flatMap(([name, value]) => [`--${name}`, String(value)]),
    { stdio: 'ignore' },
  );
  const exited = once(server, 'exit');
  await waitForPort(port, server);
  return {
    port,
    stop: async () => {
      server.kill();
      await exited;
    },
  };
}

async function findFreePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  server.close();
  await once(server, 'close');
  return typeof address === 'object' && address !== null ? address.port : 0;
}

async function waitForPort(port: number, server: ChildProcess): Promise<void> {
  const deadline = performance.now() + REDIS_START_MS;
  while (!(await accepts(port))) {
    if (server.exitCode !== null) throw new Error(`redis-server ended with ${server.exitCode}`);
    if (performance.now() > deadline) throw new Error('redis-server does not answer');
    await wait(20);
  }
}

async function accepts(port: number): Promise<boolean> {
  const socket = connect(port, '127.0.0.1');
  try {
    await once(socket, 'connect');
    return true;
  } catch {
    return false;
  } finally {
    socket.destroy();
  }
}
