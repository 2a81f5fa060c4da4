import { renameSync, rmSync, writeFileSync } from 'node:fs';
import type { ProbeResult } from './probe-contract.ts';

/** A full disk must not change how the script ends; without the file the runner's samples serve. */
export function writeResult(path: string, result: ProbeResult): void {
  const temporary = `${path}.${process.pid}`;
  try {
    writeFileSync(temporary, JSON.stringify(result), { mode: 0o600 });
    renameSync(temporary, path);
  } catch {
    rmSync(temporary, { force: true });
  }
}

/** What this process has used since it began. */
export function measureSelf(): Pick<ProbeResult, 'userCpuMs' | 'systemCpuMs' | 'maxRssBytes'> {
  const usage = process.resourceUsage();
  return {
    userCpuMs: usage.userCPUTime / 1000,
    systemCpuMs: usage.systemCPUTime / 1000,
    maxRssBytes: usage.maxRSS * 1024,
  };
}
