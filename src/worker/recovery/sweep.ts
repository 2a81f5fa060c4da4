import { rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { EXEC_VARIABLE, HANDLER_VARIABLE } from '../../child/contract.ts';
import { removeRunFiles, runFilesOf } from '../../execution/run-files.ts';
import { isLeftByRunner, readLedgers, removeWarmFiles } from '../../execution/warm/files.ts';
import { removeDeadWaiters } from '../../queue/claim/waiters.ts';
import type { Runner } from '../../settings/settings.ts';
import { hasSpool } from '../../store/spool/files.ts';
import type { Store } from '../../store/store.ts';
import { listNames } from '../../system/base/values.ts';
import { TRY_PREFIX } from '../../system/place/fallback.ts';
import type { StateFolder } from '../../system/place/state-folder.ts';
import { readStatFields } from '../../system/process/identity.ts';
import { listPids, readVariables } from '../../system/process/tree.ts';

type Place = Pick<Runner, 'root' | 'state'>;

/** The key of the run that a file belongs to: `12.3.log`, `12.3.log.gz`, `12.3.json.4711`, `12.3`. */
const runKey = /^(\d+\.\d+|[\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12})(?:\.|$)/;

/** Removes files of ended runs whose process died before it could remove them. */
export async function sweepRunFiles(store: Store, { root, state }: Place): Promise<void> {
  // List the files first: the log, or the spool, knows a run before it has files.
  const names = [state.output, state.results, state.temporary].flatMap(listNames);
  const keys = new Set(names.flatMap((name) => runKey.exec(name)?.[1] ?? []));
  const held = new Set((await store.claims.ofWorkers()).map(({ token }) => token));
  const isSpooled = hasSpool(state);
  const ended = [...keys].filter((key) => {
    const isOpen = held.has(key) || (!isClaim(key) && isSpooled);
    // A run that a quarantined log knows may still go on.
    return !isOpen && findRunProcess(root, key) === null;
  });
  for (const key of ended) removeRunFiles(runFilesOf(state, key));
  sweepUnfinishedResults(state, names, new Set(ended));
  for (const name of names.filter((each) => each.startsWith(TRY_PREFIX))) {
    rmSync(join(state.temporary, name), { recursive: true, force: true });
  }
  await sweepKeptOutput(store, state, names, held);
  removeDeadWaiters(state);
  sweepWarmFiles(root, state);
}

/** A process that died while it wrote its result has left a file under a separate name. */
function sweepUnfinishedResults({ results }: StateFolder, names: readonly string[], ended: ReadonlySet<string>): void {
  for (const name of names) {
    const [, key] = /^(.+)\.json\.\d+$/.exec(name) ?? [];
    if (key !== undefined && ended.has(key)) rmSync(join(results, name), { force: true });
  }
}

/** Any other key belongs to a run that began without the log. */
function isClaim(key: string): boolean {
  return key.includes('.');
}

/** Removes compressed output that no run names: its run was deleted, or is recorded without it. */
async function sweepKeptOutput(
  store: Store,
  { output }: StateFolder,
  names: readonly string[],
  held: ReadonlySet<string>,
): Promise<void> {
  const files = names.filter((name) => name.endsWith('.gz'));
  if (files.length === 0) return;
  const kept = new Set(await store.runs.outputFiles());
  for (const file of files) {
    const key = runKey.exec(file)?.[1];
    if (!kept.has(file) && key !== undefined && isClaim(key) && !held.has(key)) {
      rmSync(join(output, file), { force: true });
    }
  }
}

/** Removes files of children for many runs, if both the child and its runner are dead. */
export function sweepWarmFiles(root: string, state: StateFolder): void {
  const names = new Set([state.output, state.results, state.temporary].flatMap(listNames));
  for (const name of names) {
    if (isLeftByRunner(name) && findChildProcess(root, name) === null) removeWarmFiles(state, name);
  }
}

/**
 * The process of a run, found by the variables that it was started with; null: none, or no `/proc`. Needed for a run
 * whose runner died before it recorded the pid.
 */
export function findRunProcess(root: string, key: string): number | null {
  return findByVariable(root, `RUNNER_RUN=${key}`, () => true);
}

/**
 * The process that was started to call a handler for this run, and perhaps for others after it. It leads its own group;
 * its child processes lack the last one of these variables.
 */
export function findHostProcess(root: string, key: string): number | null {
  return findByVariable(root, `RUNNER_RUN=${key}`, (_, variables) =>
    variables.some((variable) => variable.startsWith(`${HANDLER_VARIABLE}=`)),
  );
}

/** A process of a child for many runs, by the name of its files. */
function findChildProcess(root: string, name: string): number | null {
  return findByVariable(root, `RUNNER_CHILD=${name}`, () => true);
}

/** The child for many runs that has begun this one last. */
export function findServingProcess(root: string, state: StateFolder, key: string): number | null {
  const entry = readLedgers(state).get(key);
  return entry === undefined ? null : findChildProcess(root, entry.child);
}

/**
 * Whether this very process was started for the run, judged by its variables or by the file it writes to. A pid in the
 * log proves nothing: others may write to the log, and could name any process of this user.
 */
export function isProcessOfRun(root: string, state: StateFolder, key: string, pid: number): boolean {
  const variables = readVariables(pid);
  const isIn = (name: string, value: string): boolean => variables.includes(`${name}=${value}`);
  const child = readLedgers(state).get(key)?.child;
  const isStarted = isIn('RUNNER_RUN', key) || (child !== undefined && isIn('RUNNER_CHILD', child));
  return (isStarted && isOfRoot(variables, root)) || writesTo(pid, runFilesOf(state, key).output);
}

/** A process that was started without its variables, as by `exec env -i`, still has its output. */
function writesTo(pid: number, path: string): boolean {
  try {
    const [own, found] = [statSync(path), statSync(`/proc/${pid}/fd/1`)];
    return own.isFile() && own.dev === found.dev && own.ino === found.ino;
  } catch {
    return false;
  }
}

/** The process of any run of a script; for the case that no log lists the runs. */
export function findScriptProcess(root: string, script: string): number | null {
  // A process that a script left in the background on purpose has its variables too, but leads no group.
  return findByVariable(root, `RUNNER_SCRIPT=${script}`, leadsGroup);
}

/** @param wanted a `NAME=value` that one run, child or script of this root has */
function findByVariable(
  root: string,
  wanted: string,
  isWanted: (pid: number, variables: readonly string[]) => boolean,
): number | null {
  // A script comes before the processes that it started.
  const pid = listPids().find((each) => {
    const variables = readVariables(each);
    return variables.includes(wanted) && isOfRoot(variables, root) && isWanted(each, variables);
  });
  return pid ?? null;
}

function isOfRoot(variables: readonly string[], root: string): boolean {
  const isExec = variables.some((variable) => variable.startsWith(`${EXEC_VARIABLE}=`));
  return variables.includes(`${isExec ? EXEC_VARIABLE : 'RUNNER_ROOT'}=${root}`);
}

function leadsGroup(pid: number): boolean {
  return Number(readStatFields(pid)?.[2]) === pid;
}
