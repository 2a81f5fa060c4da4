import { readFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { isIPv4 } from 'node:net';
import { endianness } from 'node:os';

/** The two ends of a TCP connection, as a socket of ours has them. */
export interface SocketEnds {
  readonly remoteAddress?: string | undefined;
  readonly remotePort?: number | undefined;
  readonly localAddress?: string | undefined;
  readonly localPort?: number | undefined;
}

/**
 * Whose process is at the other end of a connection within this machine, by the kernel's own tables.
 *
 * Only a connection that stands is believed, and only while somebody has it: of one that its process has left the
 * kernel says that it is root's. While ours stands, nobody else can have one between the same two ends.
 *
 * @returns the user's id; null: it cannot be known
 */
export async function uidOfPeer(ends: SocketEnds): Promise<number | null> {
  const { remoteAddress, remotePort, localAddress, localPort } = ends;
  // Passenger's loader gives requests of its own socket the port 0.
  if (!remoteAddress || !remotePort || !localAddress || !localPort) return null;
  const rows = await readTables();
  const theirs = addressesOf(remoteAddress, remotePort);
  const ours = addressesOf(localAddress, localPort);
  const found = rows.filter(({ local, remote }) => theirs.includes(local) && ours.includes(remote));
  // A table is read in pieces: a row may turn up twice.
  const [row, ...others] = [...new Map(found.map((each) => [each.inode, each])).values()];
  if (row === undefined || others.length > 0) return null;
  return row.state === ESTABLISHED && row.inode !== '0' ? row.uid : null;
}

/** Whether the kernel's tables show this listening socket as ours: some hosts hide them, or parts of them. */
export async function canKnowPeers(address: string, port: number): Promise<boolean> {
  const own = process.geteuid?.();
  if (own === undefined || isAnybody(own)) return false;
  const ends = addressesOf(address, port);
  const rows = await readTables();
  return rows.some(({ local, state, uid }) => state === LISTENING && ends.includes(local) && uid === own);
}

const ESTABLISHED = '01';
const LISTENING = '0A';

interface Row {
  readonly local: string;
  readonly remote: string;
  readonly state: string;
  readonly uid: number;
  readonly inode: string;
}

async function readTables(): Promise<Row[]> {
  const texts = await Promise.all(['/proc/net/tcp', '/proc/net/tcp6'].map(readIfThere));
  return texts.flatMap((text) => text.split('\n').slice(1).flatMap(readRow));
}

/** Without IPv6, or without /proc, nobody is found in it. */
async function readIfThere(path: string): Promise<string> {
  try {
    return await readFile(path, 'latin1');
  } catch {
    return '';
  }
}

function readRow(line: string): Row[] {
  const [, local, remote, state, , , , uid, , inode] = line.trim().split(/\s+/);
  if (local === undefined || remote === undefined || state === undefined || inode === undefined) return [];
  return [{ local, remote, state, uid: Number(uid), inode }];
}

/** As the tables write it; an IPv4 address also as a socket for IPv6 has it. */
function addressesOf(address: string, port: number): string[] {
  const end = `:${port.toString(16).toUpperCase().padStart(4, '0')}`;
  const v4 = /^(?:::ffff:)?(\d+\.\d+\.\d+\.\d+)$/i.exec(address)?.[1];
  if (v4 === undefined) return [hexOf(bytesOfIPv6(address)) + end];
  const bytes = v4.split('.').map(Number);
  return [hexOf(bytes) + end, hexOf([...Array(10).fill(0), 255, 255, ...bytes]) + end];
}

function bytesOfIPv6(address: string): number[] {
  const [head = '', tail] = address.replace(/%.*$/, '').split('::');
  const groups = (text: string) => (text === '' ? [] : text.split(':').map((group) => Number.parseInt(group, 16)));
  const [first, last] = [groups(head), tail === undefined ? [] : groups(tail)];
  const all = [...first, ...Array(Math.max(0, 8 - first.length - last.length)).fill(0), ...last];
  return all.flatMap((group) => [group >> 8, group & 255]);
}

/** Words of four bytes, each as the processor has it. */
function hexOf(bytes: readonly number[]): string {
  const words = Array.from({ length: bytes.length / 4 }, (_, index) => bytes.slice(4 * index, 4 * index + 4));
  return words
    .flatMap((word) => (endianness() === 'LE' ? word.toReversed() : word))
    .map((byte) => byte.toString(16).toUpperCase().padStart(2, '0'))
    .join('');
}

/** In a user namespace all users of outside have this one number. */
function isAnybody(uid: number): boolean {
  try {
    const overflow = Number(readFileSync('/proc/sys/kernel/overflowuid', 'latin1'));
    const isWhole = /^\s*0\s+0\s+4294967295\s*$/.test(readFileSync('/proc/self/uid_map', 'latin1'));
    return uid === overflow && !isWhole;
  } catch {
    return true;
  }
}

/** `127.0.0.1`, `::1`, `::ffff:127.1.2.3`. */
export function isLoopback(address: string): boolean {
  const v4 = address.replace(/^::ffff:/i, '');
  return address === '::1' || (isIPv4(v4) && v4.startsWith('127.'));
}
