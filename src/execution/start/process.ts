import { type ChildProcess, type SpawnOptions, spawn } from 'node:child_process';
import { once } from 'node:events';
import { stat } from 'node:fs/promises';
import { constants, getPriority, setPriority } from 'node:os';
import { basename } from 'node:path';
import type { Duplex } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Hold, PROBE_VARIABLE, type ProbeOptions } from '../../child/contract.ts';
import type { Script } from '../../discovery/script.ts';
import { readStatFields } from '../../system/process/identity.ts';
import type { OpenOutput, RunFiles } from '../run-files.ts';
import { buildCommand, buildEnvironment, findMissingInterpreter } from './command.ts';
import type { StartRequest } from './request.ts';
import { describeNotStarted } from './start-failure.ts';

export interface Exit {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  /** Null where it is not known. */
  readonly cpu: CpuTime | null;
}

export interface StartedProcess {
  readonly pid: number;
  /** Settles when the process itself has ended, whoever else still holds its output open. */
  readonly exited: Promise<Exit>;
  /** The way to it, where one was asked for. */
  readonly channel: Duplex | null;
}

/** Why there is no process, in one sentence. */
export interface StartFailure {
  readonly failure: string;
}

/**
 * Starts the script as the leader of its own session and group, with nothing to read, its output in
 * a file, and an environment made from an allow-list.
 *
 * @param hold of a Node script that is to wait for its turn
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
 * Node starts its threads for files once it needs them, and aborts where the limit of processes allows none. They
 * begin before anything else of ours may take their room.
 */
let threads: Promise<unknown> | undefined;

/** Starts a program in the root, as a leader; if there is a fourth `stdio`, its channel is that. */
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

/** The argument vector of a run. */
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

/** On top of the runner's own niceness: who is not root can only raise it. */
function beNice(pid: number, nice: number | undefined): void {
  if (nice === undefined) return;
  try {
    setPriority(pid, Math.min(getPriority() + nice, constants.priority.PRIORITY_LOW));
  } catch {
    // It has already ended, or is another user's by now: it runs all the same.
  }
}

/** Other processes end within seconds, as a rule: 5 s in all. */
const DELAYS_MS = [100, 200, 400, 800, 1600, 1900];

/** Full for the moment: processes, memory, open files of the whole host. */
const passing = ['EAGAIN', 'ENOMEM', 'ENFILE'];

/** Tries again and again to start a process where the host has no room for it; not once stopped. */
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
    await sleep(delayMs, undefined, { signal: stop }).catch(() => {});
    if (stop.aborted) throw error;
    return await withBackoff(start, stop, rest);
  }
}

/** CPU time of a run's process and of all that it has waited for. */
interface CpuTime {
  readonly userCpuMs: number;
  readonly systemCpuMs: number;
}

/** USER_HZ, the unit of `/proc/<pid>/stat`, is 100 on every Linux that Node runs on. */
const MS_PER_TICK = 10;

let counted = readChildrenCpu();
let waiting: ((cpu: CpuTime | null) => void)[] = [];

/**
 * What the kernel has counted for a child that has just ended: a script ends between two samples, and
 * only this knows all of it. To be called in the child's `exit` event, for every child.
 *
 * @returns null without `/proc`, or when several children ended together: the kernel keeps one sum
 */
function takeEndedChildCpu(): Promise<CpuTime | null> {
  return new Promise((resolve) => {
    waiting.push(resolve);
    // Node reports all children that have ended, one after the other, before it goes on to this.
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
