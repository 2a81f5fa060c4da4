import { readIfThere } from '../system/base/values.ts';

/**
 * Whose program listens at a TCP port of this machine, by the kernel's tables: for telling people, not for deciding
 * anything.
 *
 * @returns the user's id, another user's before one's own; null: it is not known
 */
export function holderOfPort(port: number): number | null {
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
