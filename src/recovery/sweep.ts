import { readFileSync, rmSync } from 'node:fs';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { sql } from 'kysely';
import { listNames } from '../base/values.ts';
import { HOST_VARIABLE } from '../child/contract.ts';
import { removeRunFiles, runFilesOf } from '../execution/run-files.ts';
import { ownerOf, removeWarmFiles } from '../execution/warm/files.ts';
import type { StateFolder } from '../place/state-folder.ts';
import { TRY_PREFIX } from '../place/usable.ts';
import { checkLiveness, identifyProcess, readStatFields } from '../process/identity.ts';
import { listPids } from '../process/tree.ts';
import type { Runner } from '../settings/settings.ts';
import { hasSpool } from '../spool/files.ts';
import type { Database } from '../store/store.ts';

type Place = Pick<Runner, 'root' | 'state'>;

/** The number or name of the run that a file is of: `12.log`, `12.log.gz`, `12.json.4711`, `12`. */
const runName = /^(\d+|[\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12})(?:\.|$)/;

/** Removes files of runs that have ended: whoever was to do so died before. */
export async function sweepRunFiles(db: Database, { root, state }: Place): Promise<void> {
  // Listed first: the log, or the spool, knows a run before it has files.
  const names = [state.output, state.results, state.temporary].flatMap(listNames);
  const runs = new Set(names.flatMap((name) => runName.exec(name)?.[1] ?? []));
  const open = await selectOpenRuns(db);
  const isSpooled = hasSpool(state);
  for (const run of runs) {
    const isOpen = /^\d+$/.test(run) ? open.has(run) : isSpooled;
    // One that a log set aside knows may still go on.
    if (!isOpen && findRunProcess(root, run) === null) removeRunFiles(runFilesOf(state, run));
  }
  for (const name of names.filter((each) => each.startsWith(TRY_PREFIX))) {
    rmSync(join(state.temporary, name), { force: true });
  }
  await sweepKeptOutput(db, state, names, open);
  sweepWarmFiles(root, state);
}

async function selectOpenRuns(db: Database): Promise<ReadonlySet<string>> {
  const rows = await db
    .selectFrom('runs')
    .select('id')
    .where('outcome', '=', sql.lit('running' as const))
    .execute();
  return new Set(rows.map(({ id }) => String(id)));
}

/** Compressed output that no run names: its run was deleted, or is recorded without it. */
async function sweepKeptOutput(
  db: Database,
  { output }: StateFolder,
  names: readonly string[],
  open: ReadonlySet<string>,
): Promise<void> {
  const files = names.filter((name) => name.endsWith('.gz'));
  const named = await db
    .selectFrom('runs')
    .select('output_file')
    .where('output_file', 'is not', null)
    .execute();
  const kept = new Set(named.map(({ output_file }) => output_file));
  for (const file of files) {
    const run = runName.exec(file)?.[1];
    if (!kept.has(file) && run !== undefined && /^\d+$/.test(run) && !open.has(run)) {
      rmSync(join(output, file), { force: true });
    }
  }
}

/** Removes files of children that serve many runs, where neither their runner lives nor they do. */
export function sweepWarmFiles(root: string, state: StateFolder): void {
  const names = new Set([state.output, state.temporary].flatMap(listNames));
  for (const name of names) {
    if (isLeft(name) && findChildProcess(root, name) === null) removeWarmFiles(state, name);
  }
}

/** Whether it is of a runner that has died here; another host's cannot be seen from here. */
function isLeft(name: string): boolean {
  const owner = ownerOf(name);
  if (owner === null || owner.host !== hostname()) return false;
  const { bootId } = identifyProcess(owner.pid);
  return checkLiveness({ ...owner, bootId }) === 'dead';
}

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
function findChildProcess(root: string, name: string): number | null {
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
