import { type ChildProcess, type SpawnOptions, spawn } from 'node:child_process';
import { once } from 'node:events';
import { stat } from 'node:fs/promises';
import { constants, getPriority, setPriority } from 'node:os';
import { basename } from 'node:path';
import type { Duplex } from 'node:stream';
import { type Hold, PROBE_VARIABLE, type ProbeOptions } from '../../child/contract.ts';
import type { Script } from '../../discovery/script.ts';
import { sleepUntil } from '../../system/base/sleep.ts';
import { readStatFields } from '../../system/process/identity.ts';
import type { OpenOutput, RunFiles } from '../run-files.ts';
import { buildCommand, buildEnvironment, findMissingInterpreter } from './command.ts';
import type { StartRequest } from './request.ts';
import { describeNotStarted } from './start-failure.ts';

export interface Exit {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  /** Null if unknown. */
  readonly cpu: CpuTime | null;
}

export interface StartedProcess {
  readonly pid: number;
  /** Settles when the process itself has ended, even if others still hold its output open. */
  readonly exited: Promise<Exit>;
  /** The channel to the process, if one was asked for. */
  readonly channel: Duplex | null;
}

/** One sentence that says why there is no process. */
export interface StartFailure {
  readonly failure: string;
}

/**
 * Starts the script as the leader of its own session and group. Its input is empty or one line, its output goes to a
 * file, and its environment is made from an allow-list.
 *
 * @param hold for a Node script that waits for its turn
 */
export async function startProcess(
  request: StartRequest,
  files: RunFiles,
  { appendFd, fd, inputFd }: OpenOutput,
  hold?: Hold,
): Promise<StartedProcess | StartFailure> {
  const environment = buildEnvironment(request, files);
  const command = commandOf(request);
  const missing = findMissingInterpreter(command, environment.PATH);
  if (missing !== null) return { failure: `interpreter not found: ${missing}` };
  const isNode = request.script.launch.kind === 'node';
  return await startCommand(request, command, {
    env: { ...environment, ...probeVariable(request, files, hold) },
    stdio: [inputFd ?? 'ignore', appendFd, appendFd, ...(isNode ? [fd] : []), ...(hold ? ['pipe' as const] : [])],
  });
}

/**
 * Node starts its threads for files when it first needs them, and aborts if the limit of processes allows none. So they
 * start before any other process of the runner can take their room.
 */
let threads: Promise<unknown> | undefined;

/** Starts a program in the root as a leader. The fifth `stdio`, if there is one, is its channel. */
export async function startCommand(
  request: Pick<StartRequest, 'root' | 'script' | 'stop'>,
  [program, ...args]: readonly [string, ...string[]],
  options: Pick<SpawnOptions, 'env' | 'stdio'>,
): Promise<StartedProcess | StartFailure> {
  const start = (): Promise<StartedProcess> => {
    const child = spawn(program, args, { ...options, cwd: request.root, detached: true });
    return confirmStart(child, request.script);
  };
  threads ??= stat('/');
  await threads;
  try {
    return await withBackoff(start, request.stop);
  } catch (error) {
    return { failure: describeNotStarted(error as NodeJS.ErrnoException, basename(program) || program) };
  }
}

async function confirmStart(child: ChildProcess, { options }: Script): Promise<StartedProcess> {
  const exited = new Promise<Exit>((resolve) => {
    child.once('exit', async (code, signal) => {
      resolve({ code, signal, cpu: await takeEndedChildCpu() });
    });
  });
  await once(child, 'spawn');
  const pid = child.pid as number;
  beNice(pid, options.nice);
  return { pid, exited, channel: (child.stdio[4] as Duplex | undefined | null) ?? null };
}

/** The arguments of a run. */
export function commandOf({
  script,
  probePath,
  args,
}: Pick<StartRequest, 'script' | 'probePath' | 'args'>): readonly [string, ...string[]] {
  const heapLimitBytes = script.options.memoryBytes ?? null;
  return buildCommand(script.launch, script.path, { heapLimitBytes, probePath }, args);
}

function probeVariable(request: StartRequest, files: RunFiles, hold: Hold | undefined): Record<string, string> {
  const { script } = request;
  if (script.launch.kind !== 'node') return {};
  const options: ProbeOptions = {
    scriptPath: script.path,
    resultPath: files.result,
    cacheFolder: request.state.cache,
    exportsNothing: script.launch.exportsNothing === true,
    ...(hold !== undefined && { hold }),
    context: {
      script: script.name,
      scheduledFor: request.scheduledFor,
      latenessMs: request.startedAt - request.scheduledFor,
      attempt: request.attempt,
      lastSuccess: request.lastSuccess,
      previouslyCrashed: request.previouslyCrashed,
    },
  };
  return { [PROBE_VARIABLE]: JSON.stringify(options) };
}

/** Added to the runner's own niceness: only root can lower it. */
function beNice(pid: number, nice: number | undefined): void {
  if (nice === undefined) return;
  try {
    setPriority(pid, Math.min(getPriority() + nice, constants.priority.PRIORITY_LOW));
  } catch {
    // The process has ended or belongs to another user by now; it runs all the same.
  }
}

/** Other processes usually end within seconds: 5 s in all. */
const DELAYS_MS = [100, 200, 400, 800, 1600, 1900];

/** Shortages of the whole host that usually pass: processes, memory, open files. */
const passing = ['EAGAIN', 'ENOMEM', 'ENFILE'];

/** Retries the start of a process while the host has no room for it, but not after a stop. */
export async function withBackoff<T>(
  start: () => Promise<T>,
  stop: AbortSignal,
  delaysMs: readonly number[] = DELAYS_MS,
): Promise<T> {
  try {
    return await start();
  } catch (error) {
    const [delayMs, ...rest] = delaysMs;
    const isPassing = passing.includes((error as NodeJS.ErrnoException).code ?? '');
    if (!isPassing || delayMs === undefined || stop.aborted) throw error;
    await sleepUntil(stop, delayMs);
    if (stop.aborted) throw error;
    return await withBackoff(start, stop, rest);
  }
}

/** CPU time of a run's process and of all processes that it has waited for. */
interface CpuTime {
  readonly userCpuMs: number;
  readonly systemCpuMs: number;
}

/** USER_HZ, the unit of `/proc/<pid>/stat`, is 100 on every Linux that Node runs on. */
const MS_PER_TICK = 10;

let counted = readChildrenCpu();
let waiting: ((cpu: CpuTime | null) => void)[] = [];

/**
 * The CPU time that the kernel counts for a child that has just ended. A script ends between two samples, and only this
 * count includes all of its time. Call it in the `exit` event of every child.
 *
 * @returns null without `/proc`, or if several children ended together: the kernel keeps one sum
 */
function takeEndedChildCpu(): Promise<CpuTime | null> {
  return new Promise((resolve) => {
    waiting.push(resolve);
    // Node first reports all children that have ended, one after the other; then `settle` runs.
    if (waiting.length === 1) setImmediate(settle);
  });
}

function settle(): void {
  const before = counted;
  counted = readChildrenCpu();
  const isSure = waiting.length === 1 && before !== null && counted !== null;
  const cpu = isSure ? subtract(counted as CpuTime, before) : null;
  for (const resolve of waiting) resolve(cpu);
  waiting = [];
}

function subtract(now: CpuTime, before: CpuTime): CpuTime {
  return {
    userCpuMs: now.userCpuMs - before.userCpuMs,
    systemCpuMs: now.systemCpuMs - before.systemCpuMs,
  };
}

/** 13 and 14: utime and stime of the children that this process has waited for. */
function readChildrenCpu(): CpuTime | null {
  const stat = readStatFields(process.pid);
  if (stat === null) return null;
  return {
    userCpuMs: Number(stat[13]) * MS_PER_TICK,
    systemCpuMs: Number(stat[14]) * MS_PER_TICK,
  };
}
