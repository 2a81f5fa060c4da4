import { type ChildProcess, type SpawnOptions, spawn } from 'node:child_process';
import { once } from 'node:events';
import { constants, getPriority, setPriority } from 'node:os';
import { basename } from 'node:path';
import type { Duplex } from 'node:stream';
import { PROBE_VARIABLE, type ProbeOptions } from '../child/probe-contract.ts';
import type { Script } from '../discovery/script.ts';
import { type CpuTime, takeEndedChildCpu } from './children-cpu.ts';
import { buildCommand, findMissingInterpreter } from './command.ts';
import { describeNotStarted } from './describe-not-started.ts';
import { buildEnvironment } from './environment.ts';
import type { OpenOutput, RunFiles } from './run-files.ts';
import type { RunRequest } from './run-request.ts';
import { withBackoff } from './spawn-backoff.ts';

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
 */
export async function startProcess(
  request: RunRequest,
  files: RunFiles,
  { appendFd, fd, inputFd }: OpenOutput,
): Promise<StartedProcess | StartFailure> {
  const environment = buildEnvironment(request, files);
  const command = commandOf(request);
  const missing = findMissingInterpreter(command, environment.PATH);
  if (missing !== null) return { failure: `interpreter not found: ${missing}` };
  const isNode = request.script.launch.kind === 'node';
  const hasChannel = isNode && request.handler !== undefined;
  return await startCommand(request, command, {
    env: { ...environment, ...probeVariable(request, files) },
    stdio: [
      inputFd ?? 'ignore',
      appendFd,
      appendFd,
      ...(isNode ? [fd] : []),
      ...(hasChannel ? ['pipe' as const] : []),
    ],
  });
}

/** Starts a program in the root, as a leader; if there is a fourth `stdio`, its channel is that. */
export async function startCommand(
  request: Pick<RunRequest, 'root' | 'script' | 'stop'>,
  [program, ...args]: readonly [string, ...string[]],
  options: Pick<SpawnOptions, 'env' | 'stdio'>,
): Promise<StartedProcess | StartFailure> {
  const start = (): Promise<StartedProcess> => {
    const child = spawn(program, args, { ...options, cwd: request.root, detached: true });
    return confirmStart(child, request.script);
  };
  try {
    return await withBackoff(start, request.stop);
  } catch (error) {
    return { failure: describeNotStarted(error as NodeJS.ErrnoException, basename(program)) };
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

function commandOf({ script, probePath }: RunRequest): readonly [string, ...string[]] {
  const heapLimitBytes = script.options.memoryBytes ?? null;
  return buildCommand(script.launch, script.path, { heapLimitBytes, probePath });
}

function probeVariable(request: RunRequest, files: RunFiles): Record<string, string> {
  const { script } = request;
  if (script.launch.kind !== 'node') return {};
  const options: ProbeOptions = {
    scriptPath: script.path,
    resultPath: files.result,
    cacheFolder: request.state.cache,
    exportsNothing: script.launch.exportsNothing === true,
    ...(request.handler !== undefined && { isHandler: true }),
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
