import { closeSync, openSync, statSync } from 'node:fs';
import { hostname } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import type { ProbeResult } from '../child/probe-contract.ts';
import type { StateFolder } from '../config/state-folder.ts';
import {
  checkLiveness,
  type ProcessIdentity,
  readAgeMs,
  readStartTicks,
} from '../process/process-identity.ts';
import { describeCrash, describeExit, describeOverdue } from './describe-end.ts';
import { findHostProcess, findRunProcess } from './find-run-process.ts';
import { fieldsOf, readNodeWords } from './handler-end.ts';
import { keepOutput } from './keep-output.ts';
import { describeError, endUnmeasured, measureBySelf } from './make-end.ts';
import type { Masker } from './mask-secrets.ts';
import { judgeExit } from './outcome.ts';
import { readProbeResult } from './probe-result.ts';
import type { KeptOutput, RunEnd } from './run-end.ts';
import { runFilesOf } from './run-files.ts';
import { signalGroup } from './terminate.ts';

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
    reason: exitCode === 0 ? null : (said ?? describeExit(exitCode, describeError(result))),
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
