import { readdirSync, readFileSync } from 'node:fs';

/**
 * The process of a run, by the variables that it was started with; null where there is none, or no
 * `/proc`. For a run whose runner died before it wrote the pid down.
 */
export function findRunProcess(root: string, runId: number): number | null {
  const wanted = [`RUNNER_ROOT=${root}`, `RUNNER_RUN=${runId}`];
  const pid = listPids().find((each) => {
    const variables = readVariables(each);
    return wanted.every((variable) => variables.includes(variable));
  });
  return pid === undefined ? null : Number(pid);
}

/** In order of their start, mostly: a script comes before what it started itself. */
function listPids(): string[] {
  try {
    return readdirSync('/proc').filter((name) => /^\d+$/.test(name));
  } catch {
    return [];
  }
}

function readVariables(pid: string): readonly string[] {
  try {
    return readFileSync(`/proc/${pid}/environ`, 'utf8').split('\0');
  } catch {
    // Another user's, or gone by now.
    return [];
  }
}
