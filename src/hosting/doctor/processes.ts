import { readFileSync, statSync } from 'node:fs';
import { listPids } from '../../process/list-pids.ts';

export interface SeenProcess {
  readonly pid: number;
  readonly program: string;
  readonly uid: number;
  readonly threads: number;
}

/** The processes that `/proc` shows; none where it is missing. */
export function listProcesses(): SeenProcess[] {
  return listPids().flatMap((pid) => readProcess(pid) ?? []);
}

/** Null for one that is gone, or that this user may not look into. */
function readProcess(pid: number): SeenProcess | null {
  try {
    const status = readFileSync(`/proc/${pid}/status`, 'latin1');
    const program = readFileSync(`/proc/${pid}/comm`, 'latin1').trim();
    const threads = Number(/^Threads:\s+(\d+)/m.exec(status)?.[1] ?? 1);
    return { pid, program, uid: statSync(`/proc/${pid}`).uid, threads };
  } catch {
    return null;
  }
}
