import { closeSync, constants, statSync, unlinkSync } from 'node:fs';
import { dirname } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { ProbeResult } from '../../child/contract.ts';
import { FILE_CLOCK_STEP_MS } from '../../child/files.ts';
import { discoverNames } from '../../discovery/folder.ts';
import { withoutParameters } from '../../discovery/script.ts';
import { describeScriptError, fieldsOf, readNodeWords } from '../../execution/result/handler-reply.ts';
import { keepOutput } from '../../execution/result/output.ts';
import { readCounts, readProbeResult } from '../../execution/result/report.ts';
import { endUnmeasured, type KeptOutput, measureBySelf, noOutput, type RunEnd } from '../../execution/result/result.ts';
import {
  describeCrash,
  describeExit,
  describeOverdue,
  describeStoppedBy,
  judgeExit,
} from '../../execution/result/wording.ts';
import { heldOutputOf, ifPossible, runFilesOf } from '../../execution/run-files.ts';
import type { Masker } from '../../execution/secrets.ts';
import { type LedgerEntry, readLedgers } from '../../execution/warm/files.ts';
import { releaseClaims } from '../../queue/claim/claim.ts';
import type { RetryPolicy } from '../../queue/settle/retry-policy.ts';
import { type RunToSettle, recordRefused, settleRuns } from '../../queue/settle/settle.ts';
import { isStoreFailure } from '../../store/failures.ts';
import type { WorkerRow } from '../../store/schema.ts';
import type { JobHead } from '../../store/shared/job-columns.ts';
import type { RunStart } from '../../store/shared/run-rows.ts';
import type { ClaimOfWorker } from '../../store/statements/claims.ts';
import { machinesOf } from '../../store/statements/registers.ts';
import type { Store } from '../../store/store.ts';
import { now } from '../../system/base/clock.ts';
import { openPlainFile } from '../../system/base/plain-file.ts';
import { listNames } from '../../system/base/values.ts';
import { type DeadHolder, describeDead } from '../../system/lock/holder.ts';
import { clearDeadLock, lockNameOf } from '../../system/lock/lock-file.ts';
import type { StateFolder } from '../../system/place/state-folder.ts';
import {
  checkLiveness,
  machineName,
  type ProcessIdentity,
  readAgeMs,
  readStartTicks,
} from '../../system/process/identity.ts';
import { signalGroup } from '../../system/process/tree.ts';
import { findHostProcess, findRunProcess, findServingProcess, isProcessOfRun } from './sweep.ts';
import { checkWorker, isElsewhere, isLeaseOver, markCrashed, seenFrom } from './tier-lock.ts';

/** Ends the rows of workers that count as working although their process is gone. */
export async function markDeadWorkers(store: Store, state: StateFolder, at: number): Promise<void> {
  const dead = await findDeadWorkers(store, state);
  if (dead.length === 0) return;
  await store.transaction(async (session) => {
    for (const worker of dead) await markCrashed(session, worker, at);
  });
}

/** Workers that count as working although their process is gone. */
export async function findDeadWorkers(store: Store, state: StateFolder): Promise<WorkerRow[]> {
  const suspects = await store.workers.suspects(seenFrom(store));
  return suspects.filter((worker) => checkWorker(state, worker) === 'dead');
}

/** Removes the locks of dead processes, and records from whom each was taken over. */
export async function clearDeadLocks(store: Store, state: StateFolder, at: number): Promise<void> {
  for (const tier of listLockedTiers(state)) {
    const dead = clearDeadLock(state.locks, tier);
    for (const each of dead.filter((file): file is DeadHolder => file.holder !== null)) {
      const detail = `took ${tier} over from ${describeDead(each, at)}`;
      await store.events.record([{ at, event: 'lock-taken-over', detail }]);
    }
  }
}

/** Tiers with a lock, or with leftovers beside one: `hourly.lock.<token>.new`. */
function listLockedTiers({ locks }: StateFolder): readonly string[] {
  const tiers = listNames(locks).flatMap((name) => /^(.+?)\.lock(?:\.|$)/.exec(name)?.[1] ?? []);
  return [...new Set(tiers.map(lockNameOf))];
}

export interface Rescue {
  readonly at: number;
  /** How many missed times of a repeating job are made up for. */
  readonly missedCap: number;
  /** The retry policy of a job, by its script or handler. */
  readonly policyOf: (job: JobHead) => Promise<RetryPolicy>;
  /** Called with one sentence about each end that could not be recorded unchanged. */
  readonly onRefused: (sentence: string) => void;
}

/** A run that has begun, and whose worker has ended without settling it. */
export interface LostRun {
  readonly claim: ClaimOfWorker;
  readonly start: RunStart;
}

/** The known end of a lost run; for a handler also its result or its request. */
export type LostEnd = Pick<RunToSettle, 'end' | 'result' | 'decision'>;

/** Determines how a lost run ended; null: its process outlived its runner and still runs. */
export type EndLostRun = (run: LostRun) => Promise<LostEnd | null>;

interface Rescued {
  readonly ended: readonly LostRun[];
  /** Runs that outlived their runner; their scripts must not be started a second time. */
  readonly alive: readonly LostRun[];
}

/**
 * Finds the leftovers of workers that have ended, in whatever way: it returns runs that nobody ends any more, and gives
 * back claims that had not begun.
 */
export async function findLostRuns(store: Store, state: StateFolder, at: number): Promise<readonly LostRun[]> {
  const ended = await store.claims.ofEndedWorkers();
  const left = ended.some(({ worker }) => isElsewhere(worker))
    ? await leftToUs(store, dirname(state.path), ended)
    : ended;
  if (left.length === 0) return [];
  const ledgers = readLedgers(state);
  const lost: LostRun[] = [];
  const unbegun: ClaimOfWorker[] = [];
  for (const claim of left) {
    const startedAt = isOpen(claim) ? (claim.run?.startedAt ?? beganAt(state, claim, ledgers)) : null;
    if (startedAt === null) unbegun.push(claim);
    else lost.push({ claim, start: startOf(claim, startedAt) });
  }
  if (unbegun.length > 0) {
    const refs = unbegun.map(({ job, token }) => ({ id: job.id, token }));
    await store.transaction((session) => releaseClaims(session, refs, at));
  }
  return lost;
}

/** A job in any other state was moved on by others: its worker's claim is free. */
function isOpen({ job: { state } }: ClaimOfWorker): boolean {
  return state === 'claimed' || state === 'running';
}

/** When a claimed job's run began, by the files that it left; null: it has not begun. */
function beganAt(
  state: StateFolder,
  { job, token, worker }: ClaimOfWorker,
  ledgers: ReadonlyMap<string, LedgerEntry>,
): number | null {
  if (job.state === 'running') return job.started_at;
  if (isElsewhere(worker)) return null;
  const files = runFilesOf(state, token);
  // Its process was started ahead and waits for its turn: without this file it never begins.
  if (ifPossible(() => unlinkSync(heldOutputOf(files)))) return null;
  // The output of a child for many runs is older than the run.
  const written = ledgers.get(token)?.startedAt ?? timeOf(files.output) ?? timeOf(files.result);
  return written === null ? null : notBefore(job.run_at, written);
}

function notBefore(dueAt: number, at: number): number {
  return at < dueAt && at >= dueAt - FILE_CLOCK_STEP_MS ? dueAt : at;
}

function timeOf(path: string): number | null {
  const stats = statSync(path, { throwIfNoEntry: false });
  if (stats === undefined) return null;
  // A copy has a later time of creation than its contents.
  return Math.round(Math.min(stats.birthtimeMs || stats.mtimeMs, stats.mtimeMs));
}

function startOf({ job, token, run, worker }: ClaimOfWorker, startedAt: number): RunStart {
  const script = job.tier === null ? `queue/${withoutParameters(job.name)}` : job.name;
  return {
    jobId: job.id,
    workerId: worker.id,
    key: token,
    script,
    contentHash: null,
    attempt: run?.attempt ?? job.attempts + 1,
    // Only a script's pass knew when the script was due.
    scheduledFor: job.tier === null ? job.scheduled_for : null,
    startedAt,
    timeoutMs: run?.timeoutMs ?? null,
  };
}

/** Settles runs whose runner is gone, each by its known facts. */
export async function rescueRuns(
  store: Store,
  lost: readonly LostRun[],
  rescue: Rescue,
  endLostRun: EndLostRun,
): Promise<Rescued> {
  const ended: LostRun[] = [];
  const alive: LostRun[] = [];
  for (const lostRun of lost) {
    const end = await endLostRun(lostRun);
    if (end === null) alive.push(lostRun);
    else if (await settleIfPossible(store, lostRun, end, rescue)) ended.push(lostRun);
  }
  return { ended, alive };
}

/** An error in one run must not stop the others, or all commands. */
async function settleIfPossible(store: Store, lost: LostRun, end: LostEnd, rescue: Rescue): Promise<boolean> {
  const { job, token, run } = lost.claim;
  const told: RunToSettle = {
    ...{ claim: { id: job.id, token }, start: lost.start, runId: run?.id ?? null },
    ...{ ...end, isRetryable: true, policy: await rescue.policyOf(job) },
  };
  try {
    return await settle(store, told, rescue);
  } catch (error) {
    try {
      return await recordRefused(told, error, (refused) => settle(store, refused, rescue));
    } catch (again) {
      if (isStoreFailure(again)) throw again;
      const { message } = again as Error;
      rescue.onRefused(`the end of a run of ${lost.start.script} cannot be recorded: ${message}`);
      return false;
    }
  }
}

async function settle(store: Store, run: RunToSettle, { at: observedAt, missedCap }: Rescue): Promise<boolean> {
  const [settled] = await store.transaction((session) => settleRuns(session, [run], { observedAt, missedCap }));
  return settled !== undefined && settled.decision !== null;
}

/** A run that lost its runner, and its limits. */
export interface LostRunRequest {
  /** The key by which its files and its process are found. */
  readonly key: string;
  readonly root: string;
  readonly state: StateFolder;
  readonly startedAt: number;
  /** Its process; a null pid was not recorded before the runner died. */
  readonly process: Omit<ProcessIdentity, 'pid'> & { readonly pid: number | null };
  /** "pid 4711 on web3" */
  readonly runner: string;
  readonly timeoutMs: number;
  /** The person who wants its end; null or absent: nobody does. */
  readonly stoppedBy?: string | null;
  readonly graceMs: number;
  readonly maxOutputBytes: number;
  readonly masker: Masker;
  /** The highest memory seen; null: none. */
  readonly lastSeenRssBytes: number | null;
  /** UTC epoch milliseconds. */
  readonly now: number;
}

const POLL_MS = 20;

/**
 * Determines the true end of a run whose runner died: the end that its script recorded itself, otherwise a crash. A
 * script that still runs is left alone until its time limit or until somebody stops it, and then ended as its runner
 * would have done.
 *
 * @returns null while it runs
 */
export async function endLostRun(request: LostRunRequest): Promise<RunEnd | null> {
  const identity = identifyLost(request);
  const liveness = identity === null ? 'dead' : checkLiveness(identity);
  // A process of another host can only be waited for, and so can one that only the log assigns to the run.
  const isTerminated = identity !== null && liveness === 'alive' && isOfLost(request, identity);
  const stoppedBy = isTerminated ? (request.stoppedBy ?? null) : null;
  if (liveness !== 'dead' && stoppedBy === null && !isOverdue(request, identity)) return null;
  if (isTerminated) await terminate(identity, request.graceMs);
  const files = runFilesOf(request.state, request.key);
  const output = await keepLostOutput(files.output, request);
  if (stoppedBy !== null) return endStopped(request, stoppedBy, output);
  if (isTerminated) return endOverdue(request, output);
  const result = readProbeResult(files.result, request.masker);
  const end = result === null ? endCrashed(request, output) : endBySelf(request, result, output);
  const { counts, warning } = readCounts(files, result?.counts, request.masker);
  return { ...end, warning, ...(counts && { counts }) };
}

function isOfLost({ root, state, key }: LostRunRequest, { pid }: ProcessIdentity): boolean {
  return isProcessOfRun(root, state, key, pid);
}

/** The clock may have been set since the run began; the age of its process does not depend on the clock. */
function isOverdue({ now, startedAt, timeoutMs }: LostRunRequest, identity: ProcessIdentity | null): boolean {
  const isHere = identity !== null && checkLiveness(identity) === 'alive';
  const ageMs = isHere ? readAgeMs(identity.pid) : null;
  return (ageMs ?? now - startedAt) > timeoutMs;
}

/** The run's process, even if its runner died before recording it; null: none. */
export function identifyLost({
  process,
  root,
  state,
  key,
}: Pick<LostRunRequest, 'process' | 'root' | 'state' | 'key'>): ProcessIdentity | null {
  // Processes of another host cannot be searched from here.
  if (process.host !== machineName()) return { ...process, pid: process.pid ?? 0 };
  const pid = process.pid ?? findRunProcess(root, key) ?? findServingProcess(root, state, key);
  if (pid === null) return null;
  const identity = { ...process, pid };
  return checkLiveness(identity) === 'dead' ? findReplacement(identity, root, key) : identity;
}

/** A run can begin in a new process that replaces the one recorded at its claim. */
function findReplacement(dead: ProcessIdentity, root: string, key: string): ProcessIdentity {
  const pid = findHostProcess(root, key);
  return pid === null ? dead : { ...dead, pid, startTicks: readStartTicks(pid) };
}

async function terminate(living: ProcessIdentity, graceMs: number): Promise<void> {
  signalGroup(living.pid, 'SIGTERM');
  const deadline = performance.now() + graceMs;
  while (checkLiveness(living) !== 'dead' && performance.now() < deadline) await sleep(POLL_MS);
  signalGroup(living.pid, 'SIGKILL');
}

/** The script ended by itself; the result file's mtime is the time of its end. */
function endBySelf({ state, key, startedAt, masker }: LostRunRequest, result: ProbeResult, output: KeptOutput): RunEnd {
  const finishedAt = Math.round(statSync(runFilesOf(state, key).result).mtimeMs);
  const { exitCode } = result;
  const words = readNodeWords(result, masker);
  const outcome = judgeExit(exitCode, words.ask);
  const said = words.ask || result.refusal ? words.sentence : null;
  return {
    ...measureBySelf(result),
    outcome,
    finishedAt,
    durationMs: elapsedMs(startedAt, finishedAt),
    exitCode,
    signal: null,
    reason: exitCode === 0 ? null : (said ?? describeExit(exitCode, describeScriptError(result))),
    warning: null,
    suspect: false,
    error: exitCode === 0 ? null : result.error,
    output,
    ...fieldsOf(words, outcome),
  };
}

/** Null if the clock was set back in between: the duration is unknown then. */
function elapsedMs(from: number, to: number): number | null {
  return to < from ? null : to - from;
}

function endOverdue(request: LostRunRequest, output: KeptOutput): RunEnd {
  return endTerminated(request, output, { outcome: 'timed-out', reason: describeOverdue(request.runner) });
}

function endStopped(request: LostRunRequest, stoppedBy: string, output: KeptOutput): RunEnd {
  const { startedAt, now, runner } = request;
  const told = describeStoppedBy(stoppedBy, elapsedMs(startedAt, now));
  const reason = `${told}; its runner (${runner}) had died before`;
  return endTerminated(request, output, { outcome: 'stopped', reason });
}

function endTerminated(
  { now, startedAt, lastSeenRssBytes }: LostRunRequest,
  output: KeptOutput,
  judged: Pick<RunEnd, 'outcome' | 'reason'>,
): RunEnd {
  const durationMs = elapsedMs(startedAt, now);
  return {
    ...endUnmeasured({ ...judged, finishedAt: now, durationMs, output }),
    ...lastSeenMemory(lastSeenRssBytes),
  };
}

function endCrashed(request: LostRunRequest, output: KeptOutput): RunEnd {
  const { now, runner, lastSeenRssBytes } = request;
  const reason = describeCrash(runner, output.text, lastSeenRssBytes);
  const end = { outcome: 'crashed', finishedAt: now, durationMs: null, reason, output } as const;
  return { ...endUnmeasured(end), ...lastSeenMemory(request.lastSeenRssBytes) };
}

/** The runner recorded the memory from time to time. */
export function lastSeenMemory(lastSeenRssBytes: number | null): Partial<RunEnd> {
  return lastSeenRssBytes === null ? {} : { maxRssBytes: lastSeenRssBytes, measuredBy: 'sampled' };
}

/** The file is gone if the runner died between recording the end and reporting it. */
async function keepLostOutput(path: string, { maxOutputBytes: maxBytes, masker }: LostRunRequest): Promise<KeptOutput> {
  let fd: number;
  try {
    fd = openPlainFile(path, constants.O_RDWR);
  } catch {
    return noOutput;
  }
  try {
    const kept = await keepOutput({ path, fd, droppedBytes: 0, maxBytes, masker });
    // A file of this size may have been cut before; only its runner knew by how much.
    return (kept.bytes ?? 0) < maxBytes ? kept : { ...kept, bytes: null, droppedBytes: null };
  } finally {
    closeSync(fd);
  }
}

/** A machine not seen for this long will not come soon to judge its own runs. */
const RECENT_MS = 86_400_000;

/**
 * Selects the claims of ended workers that this machine must settle: its own ones, and those of a silent machine. A
 * silent machine's script is left out if only other machines have it, because its tags decide what follows a crash.
 */
async function leftToUs(
  store: Store,
  root: string,
  claims: readonly ClaimOfWorker[],
): Promise<readonly ClaimOfWorker[]> {
  const silent = claims.filter(({ worker }) => isElsewhere(worker) && isLeaseOver(worker));
  const names = new Set(silent.flatMap(({ job }) => (job.tier === null ? [] : job.name)));
  const seenAfter = now() - RECENT_MS;
  const copies = names.size === 0 ? [] : await machinesOf(store.statements).copies({ names: [...names], seenAfter });
  // The other machines may not know this machine's scripts yet.
  const own = copies.length === 0 ? new Set() : new Set(discoverNames(root).tiers.flatMap(({ scripts }) => scripts));
  const isOurs = ({ job, worker }: ClaimOfWorker): boolean =>
    job.tier === null ||
    own.has(job.name) ||
    !copies.some(({ name, host }) => name === job.name && host !== worker.host && host !== machineName());
  return claims.filter((claim) => !isElsewhere(claim.worker) || (silent.includes(claim) && isOurs(claim)));
}
