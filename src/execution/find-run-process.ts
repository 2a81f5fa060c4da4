import { readFileSync } from 'node:fs';
import { listPids } from '../process/list-pids.ts';

/**
 * The process of a run, by the variables that it was started with; null where there is none, or no
 * `/proc`. For a run whose runner died before it wrote the pid down.
 */
export function findRunProcess(root: string, runId: number | string): number | null {
  const wanted = [`RUNNER_ROOT=${root}`, `RUNNER_RUN=${runId}`];
  // A script comes before what it started itself.
  const pid = listPids().find((each) => {
    const variables = readVariables(each);
    return wanted.every((variable) => variables.includes(variable));
  });
  return pid ?? null;
}

function readVariables(pid: number): readonly string[] {
  try {
    return readFileSync(`/proc/${pid}/environ`, 'utf8').split('\0');
  } catch {
    // Another user's, or gone by now.
    return [];
  }
}
