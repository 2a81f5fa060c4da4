import { copyFileSync, existsSync, renameSync, rmSync, statSync, unlinkSync } from 'node:fs';
import { basename, join } from 'node:path';
import { reasonAgainstPrivateFolder } from '../place/fallback.ts';
import type { StateFolder } from '../place/state-folder.ts';
import { listSpoolFiles, type SpoolFile, unreadablePath } from '../spool/files.ts';
import type {
  SpooledEnd,
  SpooledRun,
  SpoolFinish,
  SpoolHeader,
  SpoolRun,
} from '../spool/format.ts';
import { isReady, readSpool, type SpoolLine } from '../spool/read.ts';
import type { Store } from '../store/contract.ts';
import type { FinishedRun } from '../store/schema.ts';
import { recordSpooledRuns, type SpoolTaker, type SpoolWorkerEnd } from './spooled-runs.ts';

/** A run that began without the log, and whose end its runner did not record. */
export interface LostSpooledRun {
  readonly run: SpoolRun;
  readonly worker: SpoolHeader;
  /** Where its files are. */
  readonly state: StateFolder;
}

export interface SpoolReplay extends SpoolTaker {
  /** Where the log is, and with it the output files that it tells of. */
  readonly state: StateFolder;
  /** How a lost run ended; null: its process outlived its runner and still runs. */
  readonly endLostRun: (lost: LostSpooledRun) => Promise<FinishedRun | null>;
}

interface ReplayedSpool {
  /** How many runs are in the log that were not there before. */
  readonly runs: number;
  /** Lost runs that have been ended: their files can go. */
  readonly ended: readonly LostSpooledRun[];
  /** Lost runs that still run: their scripts are not to be started a second time. */
  readonly alive: readonly LostSpooledRun[];
  /** What somebody should know, one sentence each. */
  readonly notes: readonly string[];
}

/** So many runs are recorded at once, so that others need not wait long for the log. */
const RUNS_PER_STEP = 200;

/**
 * Replays what was recorded without the log, each run once: whoever is killed on the way, at
 * any point, or does the same in the same moment. What cannot be replayed stays where it is, and a
 * note tells why.
 *
 * @param folders where spools are looked for: the state folder, and the one that took its place
 */
export async function replaySpool(
  store: Store,
  folders: readonly StateFolder[],
  taking: SpoolReplay,
): Promise<ReplayedSpool> {
  const context: Context = { store, taking, runs: 0, ended: [], alive: [], notes: [] };
  for (const folder of folders) {
    for (const file of listTrusted(context, folder)) await tryFile(context, folder, file);
  }
  const { runs, ended, alive, notes } = context;
  return { runs, ended, alive, notes };
}

interface Context {
  readonly store: Store;
  readonly taking: SpoolReplay;
  runs: number;
  readonly ended: LostSpooledRun[];
  readonly alive: LostSpooledRun[];
  readonly notes: string[];
}

function listTrusted({ taking, notes }: Context, folder: StateFolder): readonly SpoolFile[] {
  try {
    const files = listSpoolFiles(folder);
    if (files.length === 0 || folder.path === taking.state.path) return files;
    const reason = reasonAgainstPrivateFolder(folder.path);
    if (reason === null) return files;
    notes.push(`${folder.spool} could not be read: ${reason}.`);
  } catch (error) {
    notes.push(`${folder.spool} could not be read: ${(error as Error).message}.`);
  }
  return [];
}

async function tryFile(context: Context, folder: StateFolder, file: SpoolFile): Promise<void> {
  try {
    if (isReady(file, context.taking.at)) await takeInFile(context, folder, file);
  } catch (error) {
    // Another worker took it in, or its own one has just closed it.
    if (!existsSync(file.path)) return;
    context.notes.push(`${file.path} stays where it is: ${(error as Error).message}.`);
  }
}

/** One file on its way into the log. */
interface Taking {
  readonly context: Context;
  readonly folder: StateFolder;
  readonly file: SpoolFile;
  worker: SpoolHeader | null;
  finish: SpoolFinish | null;
  /** Without an end so far. */
  readonly begun: Map<string, SpoolRun>;
  /** Read, and not yet recorded. */
  ended: (SpooledRun | SpooledEnd)[];
  problem: string | null;
  isTorn: boolean;
  lastAt: number;
}

async function takeInFile(context: Context, folder: StateFolder, file: SpoolFile): Promise<void> {
  const taking: Taking = {
    ...{ context, folder, file, worker: null, finish: null, begun: new Map(), ended: [] },
    ...{ problem: null, isTorn: false, lastAt: 0 },
  };
  for (const line of readSpool(file.path)) {
    noteLine(taking, line);
    // Without its first line nobody knows whose the others are.
    if (taking.worker === null) break;
    if (taking.ended.length >= RUNS_PER_STEP) await recordStep(taking, taking.worker);
  }
  const alive = taking.worker === null ? [] : await conclude(taking, taking.worker);
  if (alive.length === 0) putAway(taking);
}

function noteLine(taking: Taking, line: SpoolLine): void {
  switch (line.type) {
    case 'worker':
      taking.worker = line;
      break;
    case 'begun':
      taking.begun.set(line.spoolId, line);
      break;
    case 'run':
    case 'end':
      taking.begun.delete(line.spoolId);
      taking.ended.push(line);
      taking.lastAt = line.run.finished_at ?? line.startedAt;
      break;
    case 'finished':
      taking.finish = line;
      break;
    case 'not-understood':
      taking.problem ??= line.problem;
      break;
    case 'torn':
      taking.isTorn = true;
  }
}

/** Records what is left, the lost runs last; those that still run are the answer. */
async function conclude(taking: Taking, worker: SpoolHeader): Promise<LostSpooledRun[]> {
  const { context } = taking;
  const { lost, alive } = await endLostRuns(taking, worker);
  await recordStep(taking, worker, endOf(taking));
  context.ended.push(...lost);
  context.alive.push(...alive);
  return alive;
}

async function endLostRuns({ context, folder, begun, ended }: Taking, worker: SpoolHeader) {
  const lost: LostSpooledRun[] = [];
  const alive: LostSpooledRun[] = [];
  for (const run of begun.values()) {
    const known = await context.store.runs.knownSpoolIds([run.spoolId]);
    if (known.length > 0) continue;
    const each: LostSpooledRun = { run, worker, state: folder };
    const end = await context.taking.endLostRun(each);
    if (end === null) alive.push(each);
    else {
      lost.push(each);
      ended.push({ ...run, type: 'run', run: end });
    }
  }
  return { lost, alive };
}

/** Until its last line is read, a worker counts as one that did not come to its end. */
function endOf({ context, file, worker, finish, lastAt }: Taking): SpoolWorkerEnd {
  if (finish !== null) return { ...finish, state: 'finished' };
  if (!file.isClosed) return crashed(context);
  const finishedAt = Math.max(lastAt, worker?.startedAt ?? 0);
  return { state: 'finished', finishedAt, reason: 'its end could not be written' };
}

function crashed({ taking }: Context): SpoolWorkerEnd {
  const reason = 'its process has gone without finishing';
  return { state: 'crashed', finishedAt: taking.at, reason };
}

async function recordStep(
  taking: Taking,
  worker: SpoolHeader,
  end: SpoolWorkerEnd = crashed(taking.context),
): Promise<void> {
  const { context, folder } = taking;
  const { store, taking: taker } = context;
  const runs = taking.ended.map((ended) => ({
    ...ended,
    run: moveOutput(ended.run, folder, taker.state),
  }));
  taking.ended = [];
  context.runs += await recordSpooledRuns(store, { worker, end, runs }, taker);
}

/** Once all of it is in the log. Killed before that, whoever comes next finds nothing new in it. */
function putAway({ context, file, worker, problem, isTorn }: Taking): void {
  const { path } = file;
  if (isTorn)
    context.notes.push(`The last line of ${path} is incomplete; it was never acknowledged.`);
  if (problem === null) {
    rmSync(path, { force: true });
    return;
  }
  renameSync(path, unreadablePath(path));
  const what = worker === null ? 'Nothing of it' : 'Its readable part';
  context.notes.push(
    `${path} was quarantined as ${basename(unreadablePath(path))}: ${problem}. ` +
      `${what} is in the log; look at the file, then remove it.`,
  );
}

/**
 * Brings a run's output file to where the log looks for it. Whoever was interrupted in the middle of
 * it, or does the same in the same moment, changes nothing about the result.
 *
 * @returns the run as it is to be recorded: without the file, if that is nowhere any more
 */
function moveOutput(run: FinishedRun, from: StateFolder, to: StateFolder): FinishedRun {
  if (run.output_file === null) return run;
  const target = join(to.output, run.output_file);
  if (from.path !== to.path) moveFile(join(from.output, run.output_file), target);
  return isThere(target) ? run : withoutFile(run);
}

/** A source that is gone has been moved before, by whoever was interrupted, or is lost. */
function moveFile(source: string, target: string): void {
  try {
    rename(source, target);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
  }
}

function rename(source: string, target: string): void {
  try {
    renameSync(source, target);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EXDEV') throw error;
    copyFile(source, target);
  }
}

/** To another file system: whole, or not at all. */
function copyFile(source: string, target: string): void {
  const temporary = `${target}.${process.pid}`;
  try {
    copyFileSync(source, temporary);
    renameSync(temporary, target);
  } finally {
    rmSync(temporary, { force: true });
  }
  unlinkSync(source);
}

function isThere(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isFile() === true;
}

/** The row must not promise what is not there; what it holds itself is still kept. */
function withoutFile(run: FinishedRun): FinishedRun {
  const { output_bytes: bytes, output } = run;
  const dropped = bytes === null ? null : Math.max(0, bytes - Buffer.byteLength(output ?? ''));
  return { ...run, output_file: null, output_file_bytes: null, output_dropped_bytes: dropped };
}
