import { spawnSync } from 'node:child_process';
import { identifyProcess, type ProcessIdentity } from '../../../src/system/process/identity.ts';

/** Who a process was that has just ended on this host. */
export function identifyDeadProcess(): ProcessIdentity {
  const { pid } = spawnSync('/bin/true');
  return { ...identifyProcess(process.pid), pid };
}

/** Of a negative number, whether any process of that group is. */
export function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}
