import { readFileSync } from 'node:fs';
import { HOST_VARIABLE } from '../child/handler-contract.ts';
import { listPids } from '../process/list-pids.ts';
import { readStatFields } from '../process/process-identity.ts';

/**
 * The process of a run, by the variables that it was started with; null where there is none, or no
 * `/proc`. For a run whose runner died before it wrote the pid down.
 */
export function findRunProcess(root: string, runId: number | string): number | null {
  return findByVariables([`RUNNER_ROOT=${root}`, `RUNNER_RUN=${runId}`], () => true);
}

/**
 * The process that was started to call a handler for this run, and perhaps for others after it. It
 * leads a group of its own, and what it has started lacks the last of these variables.
 */
export function findHostProcess(root: string, runId: number | string): number | null {
  const wanted = [`RUNNER_ROOT=${root}`, `RUNNER_RUN=${runId}`];
  return findByVariables(wanted, (_, variables) =>
    variables.some((variable) => variable.startsWith(`${HOST_VARIABLE}=`)),
  );
}

/** A process of a child that serves many runs, by the name of its files. */
export function findChildProcess(root: string, name: string): number | null {
  return findByVariables([`RUNNER_ROOT=${root}`, `RUNNER_CHILD=${name}`], () => true);
}

/** The process of any run of a script: for when no log tells which runs there are. */
export function findScriptProcess(root: string, script: string): number | null {
  // What it left in the background on purpose has its variables too, but leads no group.
  return findByVariables([`RUNNER_ROOT=${root}`, `RUNNER_SCRIPT=${script}`], leadsGroup);
}

function findByVariables(
  wanted: readonly string[],
  isWanted: (pid: number, variables: readonly string[]) => boolean,
): number | null {
  // A script comes before what it started itself.
  const pid = listPids().find((each) => {
    const variables = readVariables(each);
    return wanted.every((variable) => variables.includes(variable)) && isWanted(each, variables);
  });
  return pid ?? null;
}

function leadsGroup(pid: number): boolean {
  return Number(readStatFields(pid)?.[2]) === pid;
}

function readVariables(pid: number): readonly string[] {
  try {
    return readFileSync(`/proc/${pid}/environ`, 'utf8').split('\0');
  } catch {
    // Another user's, or gone by now.
    return [];
  }
}
