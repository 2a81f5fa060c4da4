import { closeSync, openSync, statSync } from 'node:fs';
import { hostname } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { sql } from 'kysely';
import type { HandlerAsk, ProbeResult } from '../child/contract.ts';
import { fieldsOf, readNodeWords } from '../execution/result/handler-reply.ts';
import { keepOutput } from '../execution/result/output.ts';
import { readProbeResult } from '../execution/result/probe-result.ts';
import {
  describeScriptError,
  endUnmeasured,
  type KeptOutput,
  measureBySelf,
  type RunEnd,
} from '../execution/result/result.ts';
import {
  describeCrash,
  describeExit,
  describeOverdue,
  judgeExit,
} from '../execution/result/wording.ts';
import { runFilesOf } from '../execution/run-files.ts';
import type { Masker } from '../execution/secrets.ts';
import { signalGroup } from '../execution/watch/terminate.ts';
import type { StateFolder } from '../place/state-folder.ts';
import {
  checkLiveness,
  type ProcessIdentity,
  readAgeMs,
  readStartTicks,
} from '../process/identity.ts';
import type { Claim } from '../queue/claim/script-claim.ts';
import type { RetryPolicy } from '../queue/settle/retry-policy.ts';
import { finishJob } from '../queue/settle/script-run.ts';
import { recordRunEnd } from '../queue/settle/settle-run.ts';
import { defaultSettings } from '../settings/settings.ts';
import { isStoreFailure } from '../store/failures.ts';
import type { FinishedRun, WorkerState } from '../store/schema.ts';
import type { Database } from '../store/store.ts';
import { findHostProcess, findRunProcess } from './sweep.ts';

export interface Rescue {
  readonly at: number;
  /** Whether what lives may be ended at its time limit: not by who only looks. */
  readonly mayTerminate: boolean;
  /** How many missed times of a repeating job are made up for. Default: that of the settings. */
  readonly missedCap?: number;
  /** Told of what could not be recorded as it was, one sentence each. */
  readonly onRefused?: (sentence: string) => void;
}

/** A run that has not ended as far as the log knows, and by what its process and its runner can be told. */
export interface OpenRun {
  readonly id: number;
  readonly jobId: number;
  readonly workerId: number;
  readonly script: string;
  readonly startedAt: number;
  readonly timeoutMs: number | null;
  readonly pid: number | null;
  readonly startTicks: number | null;
  /** The most memory it was seen with. */
  readonly maxRssBytes: number | null;
  readonly host: string;
  readonly bootId: string | null;
  readonly runnerPid: number;
  /** Whether the log believes its runner to be at work. */
  readonly runnerState: WorkerState;
  readonly claim: Claim;
  readonly policy: RetryPolicy;
  /** Whether its job is one of the queue. */
  readonly isQueued: boolean;
}

/** What is known of the end of a lost run; of a handler's also what it gave back or asked for. */
export interface LostEnd {
  readonly run: FinishedRun;
  readonly result: string | null;
  readonly ask: HandlerAsk | null;
}

/** How a lost run ended; null: its process outlived its runner and still runs. */
export type EndLostRun = (run: OpenRun) => Promise<LostEnd | null>;

interface Rescued {
  readonly ended: readonly OpenRun[];
  /** They outlived their runner: their scripts are not to be started a second time. */
  readonly alive: readonly OpenRun[];
}

/** Ends runs whose runner is gone, each by what is known of it. */
export async function rescueJobs(
  db: Database,
  lost: readonly OpenRun[],
  { at, missedCap = defaultSettings.queue.missedCap, onRefused = () => {} }: Rescue,
  endLostRun: EndLostRun,
): Promise<Rescued> {
  const ended: OpenRun[] = [];
  const alive: OpenRun[] = [];
  for (const lostRun of lost) {
    const end = await endLostRun(lostRun);
    if (end === null) alive.push(lostRun);
    else if (await tellEndIfPossible(lostRun, end)) ended.push(lostRun);
  }
  return { ended, alive };

  /** What is wrong with one of them must not keep the others, nor all commands, from going on. */
  async function tellEndIfPossible(lostRun: OpenRun, end: LostEnd): Promise<boolean> {
    try {
      return await tellEnd(lostRun, end);
    } catch (error) {
      if (isStoreFailure(error)) throw error;
      onRefused(`the end of run ${lostRun.id} cannot be recorded: ${(error as Error).message}`);
      return false;
    }
  }

  async function tellEnd({ claim, policy, isQueued }: OpenRun, end: LostEnd): Promise<boolean> {
    const teller = { workerId: null, toldAt: at, missedCap, onRefused };
    const told = { claim, isRetryable: true, ...end };
    const verdict = isQueued
      ? await recordRunEnd((work) => db.transaction().execute(work), told, teller)
      : await finishJob(db, { ...told, policy }, teller);
    return verdict !== null;
  }
}

/** Every run that the log believes to go on. */
export async function selectOpenRuns(db: Database): Promise<OpenRun[]> {
  const rows = await db
    .selectFrom('runs')
    .innerJoin('workers', 'workers.id', 'runs.worker_id')
    .innerJoin('jobs', 'jobs.id', 'runs.job_id')
    .select(['runs.id', 'runs.job_id as jobId', 'runs.worker_id as workerId', 'runs.script'])
    .select(['runs.started_at as startedAt', 'runs.timeout_ms as timeoutMs', 'runs.attempt'])
    .select(['runs.pid', 'runs.pid_start_ticks as startTicks', 'runs.max_rss_bytes as maxRssBytes'])
    .select(['workers.host', 'workers.boot_id as bootId', 'workers.pid as runnerPid'])
    .select(['workers.state as runnerState', 'jobs.claim_token as token'])
    .select(['jobs.max_attempts as maxAttempts', 'jobs.retry_delay_ms as retryDelayMs'])
    .select(['jobs.retry_factor as retryFactor', 'jobs.retry_longest_ms as retryLongestMs'])
    .select(['jobs.on_crash as onCrash', 'jobs.tier as jobTier'])
    // Written out, not bound: only so the partial index `runs_running` answers it.
    .where('runs.outcome', '=', sql.lit('running'))
    .$narrowType<{ token: string; workerId: number; maxAttempts: number; retryDelayMs: number }>()
    .execute();
  return rows.map(({ attempt, token, jobTier, ...row }) => ({
    ...row,
    isQueued: jobTier === null,
    claim: { id: row.jobId, token, runId: row.id, startedAt: row.startedAt, attempt },
    policy: row,
  }));
}

/** A run that lost its runner, and what it may do. */
export interface LostRunRequest {
  readonly runId: number | string;
  readonly root: string;
  readonly state: StateFolder;
  readonly startedAt: number;
  /** Its process; a pid of null was not written down before the runner died. */
  readonly process: Omit<ProcessIdentity, 'pid'> & { readonly pid: number | null };
  /** "pid 4711 on web3" */
  readonly runner: string;
  readonly timeoutMs: number;
  readonly graceMs: number;
  readonly maxOutputBytes: number;
  readonly masker: Masker;
  /** The most memory it was seen with; null: it never was. */
  readonly lastSeenRssBytes: number | null;
  /** Whether it may be ended at its time limit: not by who only looks. */
  readonly mayTerminate: boolean;
  /** UTC epoch milliseconds. */
  readonly now: number;
}

const POLL_MS = 20;

/**
 * The true end of a run whose runner died: what its script wrote down itself, else a crash. A script
 * that still runs is left alone until its time limit, and then ended as its runner would have done.
 *
 * @returns null while it runs
 */
export async function endLostRun(request: LostRunRequest): Promise<RunEnd | null> {
  const identity = identifyLost(request);
  const liveness = identity === null ? 'dead' : checkLiveness(identity);
  if (liveness !== 'dead' && !(request.mayTerminate && isOverdue(request, identity))) return null;
  // Another host's process can be waited for, but not be ended from here.
  const isTerminated = identity !== null && liveness === 'alive';
  if (isTerminated) await terminate(identity, request.graceMs);
  const files = runFilesOf(request.state, request.runId);
  const output = await keepLostOutput(files.output, request);
  if (isTerminated) return endOverdue(request, output);
  const result = readProbeResult(files.result, request.masker);
  return result === null ? endCrashed(request, output) : endBySelf(request, result, output);
}

/** The clock may have been set since it began; its process's own age is not altered by that. */
function isOverdue(
  { now, startedAt, timeoutMs }: LostRunRequest,
  identity: ProcessIdentity | null,
): boolean {
  const isHere = identity !== null && checkLiveness(identity) === 'alive';
  const ageMs = isHere ? readAgeMs(identity.pid) : null;
  return (ageMs ?? now - startedAt) > timeoutMs;
}

/** Its process, also where its runner died before it wrote it down; null: there is none. */
export function identifyLost({
  process,
  root,
  runId,
}: Pick<LostRunRequest, 'process' | 'root' | 'runId'>): ProcessIdentity | null {
  // Another host's processes cannot be looked through from here.
  if (process.host !== hostname()) return { ...process, pid: process.pid ?? 0 };
  const pid = process.pid ?? findRunProcess(root, runId);
  if (pid === null) return null;
  const identity = { ...process, pid };
  return checkLiveness(identity) === 'dead' ? findReplacement(identity, root, runId) : identity;
}

/** A run can begin in a new process in the place of the one that was written down at its claim. */
function findReplacement(
  dead: ProcessIdentity,
  root: string,
  runId: number | string,
): ProcessIdentity {
  const pid = findHostProcess(root, runId);
  return pid === null ? dead : { ...dead, pid, startTicks: readStartTicks(pid) };
}

async function terminate(living: ProcessIdentity, graceMs: number): Promise<void> {
  signalGroup(living.pid, 'SIGTERM');
  const deadline = performance.now() + graceMs;
  while (checkLiveness(living) !== 'dead' && performance.now() < deadline) await sleep(POLL_MS);
  signalGroup(living.pid, 'SIGKILL');
}

/** The script came to its end alone: when that was tells its file. */
function endBySelf(
  { state, runId, startedAt, masker }: LostRunRequest,
  result: ProbeResult,
  output: KeptOutput,
): RunEnd {
  const finishedAt = Math.round(statSync(runFilesOf(state, runId).result).mtimeMs);
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
    error: exitCode === 0 ? null : result.error,
    output,
    ...fieldsOf(words, outcome),
  };
}

/** Null where the clock was set back in between: then nobody knows. */
function elapsedMs(from: number, to: number): number | null {
  return to < from ? null : to - from;
}

function endOverdue(request: LostRunRequest, output: KeptOutput): RunEnd {
  const { now, startedAt, runner } = request;
  const reason = describeOverdue(runner);
  const durationMs = elapsedMs(startedAt, now);
  const end = endUnmeasured({ outcome: 'timed-out', finishedAt: now, durationMs, reason, output });
  return { ...end, ...lastSeenMemory(request) };
}

function endCrashed(request: LostRunRequest, output: KeptOutput): RunEnd {
  const { now, runner, lastSeenRssBytes } = request;
  const reason = describeCrash(runner, output.text, lastSeenRssBytes);
  const end = { outcome: 'crashed', finishedAt: now, durationMs: null, reason, output } as const;
  return { ...endUnmeasured(end), ...lastSeenMemory(request) };
}

/** Its runner wrote it down now and then. */
function lastSeenMemory({ lastSeenRssBytes }: LostRunRequest): Partial<RunEnd> {
  return lastSeenRssBytes === null ? {} : { maxRssBytes: lastSeenRssBytes, measuredBy: 'sampled' };
}

/** The file is gone where the runner died between writing the end and saying so. */
async function keepLostOutput(
  path: string,
  { maxOutputBytes: maxBytes, masker }: LostRunRequest,
): Promise<KeptOutput> {
  let fd: number;
  try {
    fd = openSync(path, 'r+');
  } catch {
    return { text: '', bytes: 0, droppedBytes: 0, file: null, fileBytes: null };
  }
  try {
    const kept = await keepOutput({ path, fd, droppedBytes: 0, maxBytes, masker });
    // A file of this size may have been cut before, by the runner that alone knew by how much.
    return (kept.bytes ?? 0) < maxBytes ? kept : { ...kept, bytes: null, droppedBytes: null };
  } finally {
    closeSync(fd);
  }
}
