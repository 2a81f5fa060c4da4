import { lstatSync, rmSync, statSync } from 'node:fs';
import type { Server } from 'node:http';
import { type AddressInfo, connect, createServer, type Server as NetServer } from 'node:net';
import { basename, dirname, join } from 'node:path';
import { errorCode, UsageError } from '../system/base/errors.ts';
import { readIfThere } from '../system/base/values.ts';
import type { StateFolder } from '../system/place/state-folder.ts';
import { judgeRoot, nameUser } from '../system/place/trust.ts';
import { nameOfAddress } from './access/browsers.ts';

/** A place to listen at. */
export type Door =
  /** @param mode who may connect */
  | { readonly kind: 'socket'; readonly path: string; readonly mode: number }
  /** @param port 0: any that is free */
  | { readonly kind: 'port'; readonly host: string; readonly port: number }
  /** Passenger and LiteSpeed take over where the first server listens, and it alone. */
  | { readonly kind: 'loader' };

export interface Listening {
  /** `http://127.0.0.1:8787/`, or the path of the socket; null: where a loader has decided. */
  readonly at: string | null;
  /** Null: at no port of this machine. */
  readonly port: number | null;
  /** Whether it is the socket that was asked for, and not one of a loader that has taken over. */
  readonly isOwnSocket: boolean;
  /** Takes no new connection. */
  stop(): void;
}

export function socketOf({ path }: StateFolder): string {
  return join(path, 'web.sock');
}

/**
 * @throws {UsageError} when the port or the socket is taken, the host is not this machine's, or no socket can be there
 */
export async function listenAt(server: Server, door: Door): Promise<Listening> {
  if (door.kind === 'socket') return await listenAtSocket(server, door.path, door.mode);
  if (door.kind === 'port') return await listenAtPort(server, door.host, door.port);
  await listen(server, () => server.listen(0, '127.0.0.1'));
  const address = addressOf(server);
  return { ...{ at: describeAt(address), port: null, isOwnSocket: false }, stop: () => void server.close() };
}

function listen(server: NetServer, begin: () => void): Promise<void> {
  return new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.once('listening', () => {
      server.off('error', reject);
      resolve();
    });
    begin();
  });
}

/** Null: a socket, or nothing at all, as under LiteSpeed's loader. */
function addressOf(server: NetServer): AddressInfo | null {
  const address: AddressInfo | string | null | undefined = server.address();
  return typeof address === 'object' ? address : null;
}

function describeAt(address: AddressInfo | null, host = address?.address): string | null {
  return address === null || host === undefined ? null : `http://${nameOfAddress(host)}:${address.port}/`;
}

/** A request to `localhost` may reach either address, so nobody else may hold the other one. */
const twins: Readonly<Record<string, string>> = { '127.0.0.1': '::1', '::1': '127.0.0.1', '0.0.0.0': '::1' };

/** Under which names of loopback nobody else can be reached, where it listens at this host. */
export function hasLoopbackNames(host: string): boolean {
  return host in twins || host === '::';
}

/** How often another free port is tried where somebody else has its twin. */
const TRIES = 20;

async function listenAtPort(server: Server, host: string, port: number, tries = TRIES): Promise<Listening> {
  try {
    await listen(server, () => server.listen(port, host));
  } catch (error) {
    throw describePortError(error as Error, host, port);
  }
  const address = addressOf(server);
  const found = address?.port ?? port;
  try {
    const twin = await listenAtTwin(server, twins[host], found);
    const stop = (): void => {
      twin?.close();
      server.close();
    };
    return { at: describeAt(address, host), port: found, isOwnSocket: false, stop };
  } catch (error) {
    await new Promise((resolve) => server.close(resolve));
    if (port === 0 && tries > 1) return await listenAtPort(server, host, port, tries - 1);
    throw describePortError(error as Error, twins[host] ?? host, found);
  }
}

/** Null: there is none, or this machine does not have that kind of addresses, and so nobody can listen there. */
async function listenAtTwin(server: Server, host: string | undefined, port: number): Promise<NetServer | null> {
  if (host === undefined) return null;
  const twin = createServer({ allowHalfOpen: true, noDelay: true }, (socket) => server.emit('connection', socket));
  try {
    await listen(twin, () => twin.listen(port, host));
    return twin;
  } catch (error) {
    if (['EADDRNOTAVAIL', 'EAFNOSUPPORT'].includes(errorCode(error))) return null;
    throw error;
  }
}

function describePortError(error: Error, host: string, port: number): Error {
  const code = errorCode(error);
  if (code === 'EADDRINUSE') return new UsageError(describeTaken(host, port));
  if (code === 'EACCES') return new UsageError(`Port ${port} is reserved for root; choose one from 1024 on.`);
  if (code === 'EADDRNOTAVAIL' || code === 'ENOTFOUND') {
    return new UsageError(`${host} is not an address of this machine; 127.0.0.1 always is.`);
  }
  return error;
}

function describeTaken(host: string, port: number): string {
  const uid = holderOfPort(port);
  const where = `Port ${port} of ${host}`;
  const cure = 'choose another one, or --port 0 for any that is free';
  if (uid !== null && uid === process.geteuid?.()) return `${where} is in use by another program of yours; ${cure}.`;
  const whose = uid === null ? 'and it is not known by whom' : `by another user of this machine, ${nameUser(uid)}`;
  return (
    `${where} is in use, ${whose}: do not log in there. If you have opened it, clear your browser's data for that ` +
    'address; if a token was sent to it, revoke the token. Leave --port out: nobody can take the socket in ' +
    `the state folder. Or ${cure}.`
  );
}

/** As the address of a socket has room for. */
const MOST_BYTES = process.platform === 'linux' ? 107 : 103;

async function listenAtSocket(server: Server, path: string, mode: number): Promise<Listening> {
  checkSocketPath(path);
  await removeStale(path);
  // It never has another mode, not even for a moment.
  const begin = (): void => {
    const before = process.umask(0o777 & ~mode);
    server.listen(path);
    process.umask(before);
  };
  try {
    await listen(server, begin);
  } catch (error) {
    throw new UsageError(
      `No socket can be made at ${path} (${errorCode(error)}); name another place with --socket, or give --port.`,
    );
  }
  const isOwnSocket = server.address() === path;
  return { at: isOwnSocket ? path : null, port: null, isOwnSocket, stop: () => void server.close() };
}

function checkSocketPath(path: string): void {
  const bytes = Buffer.byteLength(path);
  if (bytes > MOST_BYTES) {
    throw new UsageError(
      `The path of a socket may have ${MOST_BYTES} bytes, and ${path} has ${bytes}; name a shorter one, in a folder of ` +
        'your own: --socket ~/runner.sock.',
    );
  }
  const folder = dirname(path);
  if (statSync(folder, { throwIfNoEntry: false })?.isDirectory() !== true) {
    throw new UsageError(`There is no folder ${folder} for the socket ${basename(path)}; make it first.`);
  }
  const distrust = judgeRoot(folder);
  if (distrust === null) return;
  throw new UsageError(
    `${folder} ${distrust.reason}, who could put another socket there; ${distrust.cure(folder)}, or name another ` +
      'folder with --socket.',
  );
}

/** One that a server has left that was killed. */
async function removeStale(path: string): Promise<void> {
  const stats = lstatSync(path, { throwIfNoEntry: false });
  if (stats === undefined) return;
  if (!stats.isSocket()) throw new UsageError(`${path} is there, and is no socket; name another path with --socket.`);
  if (await isAnswered(path)) {
    throw new UsageError(`A program listens at ${path} already, probably another \`npx folder-runner web\`.`);
  }
  rmSync(path, { force: true });
}

function isAnswered(path: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(path);
    const answer = (isAnswered: boolean): void => {
      socket.destroy();
      resolve(isAnswered);
    };
    socket.once('connect', () => answer(true));
    // Full is in use, too.
    socket.once('error', (error) => answer(!['ECONNREFUSED', 'ENOENT'].includes(errorCode(error))));
  });
}

/**
 * The owner of the program that listens at a TCP port of this machine, by the kernel's tables. For messages only, not
 * for decisions.
 *
 * @returns the user's id, another user's before one's own; null: it is not known
 */
function holderOfPort(port: number): number | null {
  const uids = ['/proc/net/tcp', '/proc/net/tcp6'].flatMap((path) => readListeners(path, port));
  return uids.find((uid) => uid !== process.geteuid?.()) ?? uids[0] ?? null;
}

const LISTENING = '0A';

function readListeners(path: string, port: number): number[] {
  const end = `:${port.toString(16).toUpperCase().padStart(4, '0')}`;
  const rows = readIfThere(path).split('\n').slice(1);
  return rows.flatMap((row) => {
    const [, local, , state, , , , uid] = row.trim().split(/\s+/);
    return state === LISTENING && local?.endsWith(end) ? [Number(uid)] : [];
  });
}
