import { existsSync, renameSync, rmSync } from 'node:fs';
import { basename } from 'node:path';
import type { RetryPolicy } from '../../queue/settle/retry-policy.ts';
import { noteEnd, type RunToSettle, recordRefused, settleRuns } from '../../queue/settle/settle.ts';
import { isLogFailure, isStoreFailure } from '../../store/failures.ts';
import type { FinishedRun, WorkerRow } from '../../store/schema.ts';
import { workerOf } from '../../store/shared/claims.ts';
import type { JobHead } from '../../store/shared/job-columns.ts';
import { listSpoolFiles, type SpoolFile, unreadablePath } from '../../store/spool/files.ts';
import type { SpooledEnd, SpooledRun, SpoolFinish, SpoolHeader } from '../../store/spool/format.ts';
import { isReady, readSpool, type SpoolLine } from '../../store/spool/read.ts';
import type { ClaimRef } from '../../store/statements/runs.ts';
import type { Store, StoreSession } from '../../store/store.ts';
import { moveOutput, type StateFolder } from '../../system/place/state-folder.ts';
import type { LostEnd } from './dead-workers.ts';

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

/** The known end of a worker without the log. */
interface SpoolWorkerEnd {
  readonly state: 'finished' | 'crashed';
  readonly finishedAt: number;
  readonly reason: string | null;
}

interface SpooledRuns {
  readonly worker: SpoolHeader;
  readonly end: SpoolWorkerEnd;
  readonly runs: readonly SpooledEnd[];
}

interface RefusedRun extends SpooledRuns {
  readonly runs: readonly [SpooledEnd];
}

/** The process that replays the runs; a null `workerId`: it is no worker. */
interface SpoolTaker {
  readonly workerId: number | null;
  readonly at: number;
  /** How many missed times of a repeating job are made up for. */
  readonly missedCap: number;
}

/**
 * Settles runs that were recorded without the log, together with their worker, in one transaction. Repeated calls
 * record each run once. Returns how many were missing in the log.
 */
function recordSpooledRuns(store: Store, { worker, end, runs }: SpooledRuns, taker: SpoolTaker): Promise<number> {
  return store.transaction(async (session) => {
    const row = await session.workers.find(worker);
    const ended = toWorkerEnd(worker, end);
    // Another worker may have its tier by now.
    const workerId = row?.id ?? (await session.workers.addEnded(worker, ended));
    const isNews = row === null || mayCorrect(row, end);
    if (row !== null && isNews) await session.workers.correct(workerId, ended);
    const known = new Set(await session.runs.knownSpoolIds(runs.map(({ spoolId }) => spoolId)));
    let count = 0;
    for (const run of runs) {
      if (known.has(run.spoolId)) continue;
      known.add(run.spoolId);
      if (await replay(session, run, { ...taker, spoolWorkerId: workerId, isOfThisLog: row !== null })) count += 1;
    }
    if (count > 0 || isNews) {
      const detail = describe(count, worker.reason);
      const { at } = taker;
      await session.events.record([{ at, event: 'spool-replayed', workerId: taker.workerId, detail }]);
    }
    return count;
  });
}

function describe(count: number, reason: string): string {
  const what = count === 0 ? 'a pass' : count === 1 ? '1 run' : `${count} runs`;
  return `${what} that ${count > 1 ? 'were' : 'was'} recorded without the log, because ${reason}`;
}

/** A worker's own report counts more than the discovery that it is dead. */
function mayCorrect({ state }: WorkerRow, end: SpoolWorkerEnd): boolean {
  return state === 'running' || (state === 'crashed' && end.state === 'finished');
}

function toWorkerEnd({ reason: cause }: SpoolHeader, { state, finishedAt: at, reason }: SpoolWorkerEnd) {
  const without = `it ran without the log, because ${cause}`;
  return { state, at, reason: reason === null ? without : `${reason}; ${without}` };
}

interface Replaying extends SpoolTaker {
  readonly spoolWorkerId: number;
  /** Whether its worker began in this log: a log that was made anew, or restored, does not know it. */
  readonly isOfThisLog: boolean;
}

/** False: nothing was added, because the log has the run already, or no longer has its job. */
async function replay(session: StoreSession, run: SpooledEnd, replaying: Replaying): Promise<boolean> {
  if (run.claim !== null) {
    // Its spooler did not know whether the run had lasted long enough to have a row, nor whether its end was committed
    // when the database was lost.
    const runId = await session.runs.ofClaim(run.claim);
    const told = toSettle(run, run.claim, replaying, { runId, policy: run.policy });
    if (await settle(session, told, replaying)) return true;
    // A queued job that this log does not know belongs to another log.
    if (replaying.isOfThisLog || run.start.script.startsWith('queue/'))
      return runId === null && (await recordOvertaken(session, told, run.tier));
  }
  const { id, waiting } = await findJob(session, run);
  await releaseOwn(session, waiting, run, replaying);
  const claim = { id, token: run.spoolId };
  const begun = { ...claim, state: 'running' as const, at: run.start.startedAt };
  const [claimed] = waiting === null ? [] : await session.scriptJobs.claim([begun]);
  const mayRetry = run.claim !== null || (waiting !== null && waiting.attempts > 0);
  const told = toSettle(run, claim, replaying, { runId: null, policy: mayRetry ? run.policy : once });
  if (claimed !== undefined) await settle(session, told, replaying);
  else await recordAlone(session, told);
  return true;
}

/**
 * Releases the job that the run's own worker had claimed when it lost the log, and could not give back. Otherwise the
 * claim would count as somebody else's: the run would be recorded beside the job, and the job would run once more.
 */
async function releaseOwn(
  { claims }: StoreSession,
  waiting: JobHead | null,
  { start: { startedAt } }: SpooledRun,
  { spoolWorkerId, isOfThisLog }: Replaying,
): Promise<void> {
  if (!isOfThisLog || waiting?.state !== 'claimed' || waiting.claim_token === null) return;
  const { id, claim_token: token } = waiting;
  if (workerOf(token) === spoolWorkerId) await claims.release([{ id, token }], startedAt);
}

/** Without the log nothing could have tried it again. */
const once: RetryPolicy = {
  maxAttempts: 1,
  delay: { firstMs: 0, factor: 1, longestMs: 0 },
  onCrash: null,
};

interface FoundJob {
  readonly id: number;
  /** The row that this run settles; null: another worker decides about it by now. */
  readonly waiting: JobHead | null;
}

/**
 * The script's row: its open one at the time the log was lost, otherwise one that begins anew unless the row is
 * younger.
 */
async function findJob(session: StoreSession, run: SpooledRun): Promise<FoundJob> {
  const { tier, onlyHost, jobId, slot: scheduledFor } = run;
  const { script, startedAt: at } = run.start;
  const host = onlyHost ?? null;
  const name = { name: script, tier: tier ?? script.split('/', 1)[0] ?? script, host };
  const find = async () =>
    (await session.scriptJobs.ofTier(name.tier)).find((job) => job.name === script && job.host === host);
  const row = await find();
  if (row !== undefined && row.finished_at === null) {
    const isForIt = row.run_at <= at || (row.state === 'retrying' && row.id === jobId);
    return { id: row.id, waiting: isForIt && row.created_at <= at ? row : null };
  }
  if (row?.finished_at != null && row.finished_at >= at) return { id: row.id, waiting: null };
  await session.scriptJobs.enqueue([{ ...name, scheduledFor, at }]);
  const made = (await find()) as JobHead;
  return { id: made.id, waiting: made };
}

function toSettle(
  { spoolId, claim: own, start, end, isRetryable, result, decision }: SpooledEnd,
  claim: ClaimRef,
  { spoolWorkerId: workerId }: Replaying,
  known: Pick<RunToSettle, 'runId' | 'policy'>,
): RunToSettle {
  // A claim from another log means nothing in this one.
  const key = claim === own ? claim.token : null;
  const run = { spoolId, claim, end, isRetryable, result, decision };
  return { ...run, ...known, start: { ...start, jobId: claim.id, workerId, key } };
}

async function settle(session: StoreSession, run: RunToSettle, { at, missedCap }: Replaying): Promise<boolean> {
  // Only a run that is tried again counts from now on.
  const isTriedAgain = run.end.outcome !== 'succeeded' && run.policy !== once;
  const context = { missedCap, ...(isTriedAgain && { observedAt: at }) };
  const [settled] = await settleRuns(session, [run], context);
  return settled !== undefined && settled.decision !== null;
}

/**
 * Records a run that somebody considered unbegun: its job has run again since, but this run took place nevertheless.
 */
async function recordOvertaken(session: StoreSession, run: RunToSettle, tier: string | null): Promise<boolean> {
  const { id } = run.claim;
  const rows = tier === null ? await session.jobs.byId([id]) : await session.scriptJobs.ofTier(tier);
  if (!rows.some((row) => row.id === id)) return false;
  await recordAlone(session, run);
  return true;
}

/** Records a run without its job: by now somebody else runs the script. */
async function recordAlone(session: StoreSession, run: RunToSettle): Promise<void> {
  const leftJob = run.end.outcome === 'succeeded' ? null : ('failed' as const);
  const { start, end, spoolId = null } = run;
  const [runId] = await session.runs.end([{ ...start, runId: null, end, leftJob, spoolId }]);
  const at = end.finished_at ?? start.startedAt;
  await noteEnd(session, { ...start, runId, end, leftJob, at, isLate: true });
}
