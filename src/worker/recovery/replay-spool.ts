import { existsSync, renameSync, rmSync } from 'node:fs';
import { basename } from 'node:path';
import { recordRefused } from '../../queue/settle/settle.ts';
import { isLogFailure, isStoreFailure } from '../../store/failures.ts';
import type { FinishedRun } from '../../store/schema.ts';
import { listSpoolFiles, type SpoolFile, unreadablePath } from '../../store/spool/files.ts';
import {
  isReady,
  readSpool,
  type SpooledEnd,
  type SpooledRun,
  type SpoolFinish,
  type SpoolHeader,
  type SpoolLine,
} from '../../store/spool/read.ts';
import type { Store } from '../../store/store.ts';
import { moveOutput, type StateFolder } from '../../system/place/state-folder.ts';
import type { LostEnd } from './dead-workers.ts';
import { recordSpooledRuns, type SpooledRuns, type SpoolTaker, type SpoolWorkerEnd } from './record-spooled.ts';

/** A run that began without the log, and whose end its runner did not record. */
export interface LostSpooledRun {
  readonly run: SpooledRun;
  readonly worker: SpoolHeader;
  /** The folder of its files. */
  readonly state: StateFolder;
}

export interface SpoolReplay extends SpoolTaker {
  /** The folder of the log, and of the output files that the log names. */
  readonly state: StateFolder;
  /** Determines how a lost run ended; null: its process outlived its runner and still runs. */
  readonly endLostRun: (lost: LostSpooledRun) => Promise<LostEnd | null>;
}

interface ReplayedSpool {
  /** How many runs were added to the log. */
  readonly runs: number;
  /** Lost runs that have been ended: their files can be removed. */
  readonly ended: readonly LostSpooledRun[];
  /** Lost runs that still run; their scripts must not be started a second time. */
  readonly alive: readonly LostSpooledRun[];
  /** Notes for a person, one sentence each. */
  readonly notes: readonly string[];
}

/** Runs per transaction, so that others need not wait long for the log. */
const RUNS_PER_STEP = 200;

/**
 * Replays records made without the log. Each run is recorded once, even if the process is killed at any point, or
 * another one does the same at that moment. A file that cannot be replayed stays in its place, and a note says why.
 *
 * @param folders the folders that may contain spools: the state folder, and its fallbacks that nobody else can have
 * written
 */
export async function replaySpool(
  store: Store,
  folders: readonly StateFolder[],
  taking: SpoolReplay,
): Promise<ReplayedSpool> {
  const context: Context = { store, taking, folders, runs: 0, ended: [], alive: [], notes: [] };
  for (const folder of folders) {
    for (const file of listReadable(context, folder)) await tryFile(context, folder, file);
  }
  const { runs, ended, alive, notes } = context;
  return { runs, ended, alive, notes };
}

interface Context {
  readonly store: Store;
  readonly taking: SpoolReplay;
  readonly folders: readonly StateFolder[];
  runs: number;
  readonly ended: LostSpooledRun[];
  readonly alive: LostSpooledRun[];
  readonly notes: string[];
}

function listReadable({ notes }: Context, folder: StateFolder): readonly SpoolFile[] {
  try {
    return listSpoolFiles(folder);
  } catch (error) {
    notes.push(`${folder.spool} could not be read: ${(error as Error).message}.`);
    return [];
  }
}

async function tryFile(context: Context, folder: StateFolder, file: SpoolFile): Promise<void> {
  try {
    if (isReady(file, context.taking.at)) await takeInFile(context, folder, file);
  } catch (error) {
    // The following steps would consider the runs in this file lost.
    if (isLogFailure(error)) throw error;
    // Another worker has taken the file in, or its own worker has just closed it.
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
  /** Runs without an end so far. */
  readonly begun: Map<string, SpooledRun>;
  /** Read, but not recorded yet. */
  ended: SpooledEnd[];
  problem: string | null;
  /** Why one of its runs cannot be recorded at all. */
  refusal: Error | null;
  isTorn: boolean;
  lastAt: number;
}

async function takeInFile(context: Context, folder: StateFolder, file: SpoolFile): Promise<void> {
  const taking: Taking = {
    ...{ context, folder, file, worker: null, finish: null, begun: new Map(), ended: [] },
    ...{ problem: null, refusal: null, isTorn: false, lastAt: 0 },
  };
  for (const line of readSpool(file.path)) {
    noteLine(taking, line);
    // Without the first line, the owner of the other lines is unknown.
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
    case 'ended':
      taking.begun.delete(line.spoolId);
      taking.ended.push(line);
      taking.lastAt = line.end.finished_at ?? line.start.startedAt;
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

/** Records the rest, the lost runs last; returns the lost runs that still run. */
async function conclude(taking: Taking, worker: SpoolHeader): Promise<LostSpooledRun[]> {
  const { context } = taking;
  const { lost, alive } = await endLostRuns(taking, worker);
  await recordStep(taking, worker, endOf(taking));
  if (taking.refusal !== null) throw taking.refusal;
  context.ended.push(...lost);
  context.alive.push(...alive);
  return alive;
}

async function endLostRuns({ context, folder, file, begun, ended }: Taking, worker: SpoolHeader) {
  const lost: LostSpooledRun[] = [];
  const alive: LostSpooledRun[] = [];
  const endedElsewhere = begun.size === 0 ? new Set() : readEndedElsewhere(context, file.path);
  for (const run of begun.values()) {
    const known = await context.store.runs.knownSpoolIds([run.spoolId]);
    if (known.length > 0 || endedElsewhere.has(run.spoolId)) continue;
    const each: LostSpooledRun = { run, worker, state: folder };
    const end = await context.taking.endLostRun(each);
    if (end === null) alive.push(each);
    else {
      lost.push(each);
      ended.push({ ...run, ...end, type: 'ended', isRetryable: true });
    }
  }
  return { lost, alive };
}

/** Runs whose ends are in other files, because their worker could no longer write to this one. */
function readEndedElsewhere(context: Context, path: string): ReadonlySet<string> {
  const ids = new Set<string>();
  for (const file of context.folders.flatMap((folder) => listReadable(context, folder))) {
    if (file.path === path) continue;
    try {
      for (const line of readSpool(file.path)) if (line.type === 'ended') ids.add(line.spoolId);
    } catch {
      // A file that cannot be read is reported when its turn comes.
    }
  }
  return ids;
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
  const runs = taking.ended.map((ended) => ({
    ...ended,
    end: withMovedOutput(ended.end, folder, context.taking.state),
  }));
  taking.ended = [];
  await recordApart(taking, { worker, end, runs });
}

/** Finds a refused run among several by halves, so that each other run is recorded. */
async function recordApart(taking: Taking, spooled: SpooledRuns): Promise<void> {
  const { context } = taking;
  const { store, taking: taker } = context;
  const { runs } = spooled;
  try {
    context.runs += await recordSpooledRuns(store, spooled, taker);
  } catch (error) {
    const [run] = runs;
    if (run === undefined || isStoreFailure(error)) throw error;
    if (runs.length === 1) return await recordRefusedRun(taking, { ...spooled, runs: [run] }, error);
    const middle = Math.ceil(runs.length / 2);
    await recordApart(taking, { ...spooled, runs: runs.slice(0, middle) });
    await recordApart(taking, { ...spooled, runs: runs.slice(middle) });
  }
}

/** A run that cannot be recorded at all keeps its file in place, but does not stop other runs from being recorded. */
async function recordRefusedRun(taking: Taking, spooled: RefusedRun, error: unknown): Promise<void> {
  const { context } = taking;
  const [run] = spooled.runs;
  try {
    context.runs += await recordRefused(run, error, (refused) =>
      recordSpooledRuns(context.store, { ...spooled, runs: [refused] }, context.taking),
    );
    context.notes.push(`A run of ${run.start.script} is recorded as failed: ${(error as Error).message}.`);
  } catch (again) {
    if (isStoreFailure(again)) throw again;
    taking.refusal ??= again as Error;
  }
}

/**
 * Call it once the whole file is in the log. If the process is killed before, the next one finds nothing new in the
 * file.
 */
function putAway({ context, file, worker, problem, isTorn }: Taking): void {
  const { path } = file;
  if (isTorn) context.notes.push(`The last line of ${path} is incomplete; it was never acknowledged.`);
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

/** The end to record: without its output file, if that no longer exists anywhere. */
function withMovedOutput(end: FinishedRun, from: StateFolder, to: StateFolder): FinishedRun {
  return end.output_file === null || moveOutput(end.output_file, from, to) ? end : withoutFile(end);
}

/** The row must not name a missing file; the part of the output in the row is still kept. */
function withoutFile(end: FinishedRun): FinishedRun {
  const { output_bytes: bytes, output } = end;
  const dropped = bytes === null ? null : Math.max(0, bytes - Buffer.byteLength(output ?? ''));
  return { ...end, output_file: null, output_file_bytes: null, output_dropped_bytes: dropped };
}

interface RefusedRun extends SpooledRuns {
  readonly runs: readonly [SpooledEnd];
}
