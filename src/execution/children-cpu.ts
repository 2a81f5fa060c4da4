import { readStatFields } from '../process/process-identity.ts';

/** CPU time of a run's process and of all that it has waited for. */
export interface CpuTime {
  readonly userCpuMs: number;
  readonly systemCpuMs: number;
}

/** USER_HZ, the unit of `/proc/<pid>/stat`, is 100 on every Linux that Node runs on. */
const MS_PER_TICK = 10;

let counted = readChildrenCpu();
let waiting: ((cpu: CpuTime | null) => void)[] = [];

/**
 * What the kernel has counted for a child that has just ended: a script ends between two samples, and
 * only this knows all of it. To be called in the child's `exit` event, for every child.
 *
 * @returns null without `/proc`, or when several children ended together: the kernel keeps one sum
 */
export function takeEndedChildCpu(): Promise<CpuTime | null> {
  return new Promise((resolve) => {
    waiting.push(resolve);
    // Node reports all children that have ended, one after the other, before it goes on to this.
    if (waiting.length === 1) setImmediate(settle);
  });
}

function settle(): void {
  const before = counted;
  counted = readChildrenCpu();
  const isSure = waiting.length === 1 && before !== null && counted !== null;
  const cpu = isSure ? subtract(counted as CpuTime, before) : null;
  for (const resolve of waiting) resolve(cpu);
  waiting = [];
}

function subtract(now: CpuTime, before: CpuTime): CpuTime {
  return {
    userCpuMs: now.userCpuMs - before.userCpuMs,
    systemCpuMs: now.systemCpuMs - before.systemCpuMs,
  };
}

/** 13 and 14: utime and stime of the children that this process has waited for. */
function readChildrenCpu(): CpuTime | null {
  const stat = readStatFields(process.pid);
  if (stat === null) return null;
  return {
    userCpuMs: Number(stat[13]) * MS_PER_TICK,
    systemCpuMs: Number(stat[14]) * MS_PER_TICK,
  };
}
