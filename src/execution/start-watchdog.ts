import { constants, readFileSync, readlinkSync } from 'node:fs';
import { SIGN_OF_LIFE_FD } from '../child/probe-contract.ts';
import { readProgress } from '../process/process-progress.ts';

/** Node hangs for ever where it gets some of the threads that it starts with, but not all. */
export const HANG_AFTER_MS = 30_000;
const LOOKS = 30;

/**
 * Calls `onHung` when a Node script has neither come to the probe nor got on at all for so long. That
 * is counted in looks, not by the clock: while the runner itself stands still, nothing counts.
 */
export function watchStart(pid: number, hangAfterMs: number, onHung: () => void): () => void {
  let looks = 0;
  let before: string | null = null;
  const look = (): void => {
    const now = isStarting(pid) ? readProgress(pid) : null;
    looks = now === before ? looks + 1 : 0;
    before = now;
    if (now !== null && looks < LOOKS) return;
    clearInterval(timer);
    if (now !== null) onHung();
  };
  const timer = setInterval(look, hangAfterMs / LOOKS);
  return () => clearInterval(timer);
}

/** Without `/proc`, or for a process of another user, nothing is known: it is taken for started. */
function isStarting(pid: number): boolean {
  try {
    const [output, sign] = [1, SIGN_OF_LIFE_FD].map((fd) => readlinkSync(`/proc/${pid}/fd/${fd}`));
    return output === sign && isForBoth(pid, SIGN_OF_LIFE_FD);
  } catch {
    return false;
  }
}

/** For reading and writing: not what a script gets that opens `/dev/stdout` and the same number. */
function isForBoth(pid: number, fd: number): boolean {
  const info = readFileSync(`/proc/${pid}/fdinfo/${fd}`, 'latin1');
  const flags = Number.parseInt(/^flags:\s+([0-7]+)$/m.exec(info)?.[1] ?? '', 8);
  return (flags & ACCESS_MODE) === constants.O_RDWR;
}

const ACCESS_MODE = constants.O_RDONLY | constants.O_WRONLY | constants.O_RDWR;
