import { type ChildProcess, type SpawnOptions, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { stat } from 'node:fs/promises';
import { constants, getPriority, setPriority } from 'node:os';
import { basename } from 'node:path';
import type { Duplex } from 'node:stream';
import {
  EXEC_VARIABLE,
  type HandlerJob,
  type Hold,
  PROBE_VARIABLE,
  type ProbeOptions,
  type RunFacts,
  runVariables,
} from '../../child/contract.ts';
import type { CallersPlace, Script } from '../../discovery/script.ts';
import type { ScriptOptions } from '../../settings/settings.ts';
import { databaseVariables } from '../../store/shared/which-log.ts';
import { sleepUntil } from '../../system/base/clock.ts';
import { errorCode } from '../../system/base/errors.ts';
import type { StateFolder } from '../../system/place/state-folder.ts';
import { MS_PER_TICK, machineName, readStatFields } from '../../system/process/identity.ts';
import { defaultPath, findOwnNode, findProgram, userEnvironment } from '../../system/process/programs.ts';
import type { OutputScan } from '../result/demands.ts';
import { countsFileOf } from '../result/report.ts';
import type { OpenOutput, RunFiles } from '../run-files.ts';
import type { Masker } from '../secrets.ts';
import { describeNotStarted, type StartFailure } from './start-failure.ts';

/** All that one run needs. */
export interface RunRequest extends RunFacts {
  /** Its number in the log, or a name that no other run has. */
  readonly key: string;
  readonly script: Script;
  /** Default: none. */
  readonly args?: readonly string[];
  readonly root: string;
  readonly state: StateFolder;
  /** The file that Node scripts load before they start. */
  readonly probePath: string;
  readonly timeoutMs: number;
  /** Time between SIGTERM and SIGKILL. */
  readonly graceMs: number;
  /** How many bytes of a run's output stay on the disk. */
  readonly maxOutputBytes: number;
  /** Fixed variables from the settings. */
  readonly variables: Readonly<Record<string, string>>;
  /** Variables from files of the site; default: none. */
  readonly given?: Readonly<Record<string, string>>;
  /** The runner's own environment; a script gets the allowed part of it. */
  readonly environment: NodeJS.ProcessEnv;
  /** Masks all that is kept of the script's words. */
  readonly masker: Masker;
  /** Aborted when the runner is stopped. */
  readonly stop: AbortSignal;
  /** Aborted when the run must end at once. */
  readonly kill?: AbortSignal;
  /** Called when the child has its process, and again if it had to be started a second time. */
  readonly onStarted?: (pid: number) => void;
  /** Called once the process is watched, with a function that stops the run in somebody's name. */
  readonly onWatched?: (stop: (by: string) => void) => void;
  /** Called at every sample with the highest memory seen so far. */
  readonly onSample?: (peakRssBytes: number) => void;
  /** How long a Node script may make no progress before its first line. Default: 30 s. */
  readonly hangAfterMs?: number;
  /** The job of a handler. */
  readonly job?: HandlerJob;
  /** Searches its output for the script's demands; null or absent: none. */
  readonly scan?: OutputScan | null;
}

/** The request for one try of a queued job, whose facts are those of the run. */
export interface HandlerRequest extends RunRequest {
  readonly job: HandlerJob;
  /**
   * Replaces the job's data (JSON) in the log. The handler is informed of a rejection. The run does not end before the
   * last update is settled.
   */
  readonly onUpdate: (data: string) => void | Promise<void>;
}

/** Adds the search of the output, if the script has demands. */
export async function withScan<Request extends RunRequest>(request: Request): Promise<Request> {
  const { options } = request.script;
  if (options.failOn === undefined && options.expect === undefined) return request;
  const { createScan } = await import('../result/demands.ts');
  return { ...request, scan: await createScan(options) };
}

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

/**
 * Starts the script as the leader of its own session and group. Its input is empty or one line, its output goes to a
 * file, and its environment is made from an allow-list.
 *
 * @param hold for a Node script that waits for its turn
 */
export async function startProcess(
  request: RunRequest,
  files: RunFiles,
  { appendFd, fd, inputFd }: OpenOutput,
  hold?: Hold,
): Promise<StartedProcess | StartFailure> {
  const environment = buildEnvironment(request, files);
  const command = commandOf(request);
  const missing = findMissingInterpreter(command, environment.PATH);
  if (missing !== null) return { failure: `interpreter not found: ${missing}` };
  const { launch } = request.script;
  const caller = asCallerOf(request);
  const output = [caller?.writesTo.stdout ? 1 : appendFd, caller?.writesTo.stderr ? 2 : appendFd] as const;
  const input = inputFd ?? (caller === null ? 'ignore' : 0);
  return await startCommand(request, command, {
    env: { ...environment, ...probeVariable(request, files, hold) },
    stdio: [input, ...output, ...(launch.kind === 'node' ? [fd] : []), ...(hold ? ['pipe' as const] : [])],
  });
}

/** Null: a script, or a handler. */
export function asCallerOf({ script: { launch } }: Pick<RunRequest, 'script'>): CallersPlace | null {
  return launch.kind === 'program' ? (launch.asCaller ?? null) : null;
}

/**
 * Node starts its threads for files when it first needs them, and aborts if the limit of processes allows none. So they
 * start before any other process of the runner can take their room.
 */
let threads: Promise<unknown> | undefined;

/** Starts a program in the root as a leader. The fifth `stdio`, if there is one, is its channel. */
export async function startCommand(
  request: Pick<RunRequest, 'root' | 'script' | 'stop'>,
  [program, ...args]: readonly [string, ...string[]],
  options: Pick<SpawnOptions, 'env' | 'stdio'>,
): Promise<StartedProcess | StartFailure> {
  const start = (): Promise<StartedProcess> => {
    const caller = asCallerOf(request);
    const cwd = caller?.cwd ?? request.root;
    const own = caller === null ? null : process.umask(caller.umask);
    try {
      return confirmStart(spawn(program, args, { ...options, cwd, detached: true }), request.script);
    } finally {
      if (own !== null) process.umask(own);
    }
  };
  threads ??= stat('/');
  await threads;
  try {
    return await withBackoff(start, request.stop);
  } catch (error) {
    const caller = asCallerOf(request);
    if (caller !== null && errorCode(error) === 'ENOENT') {
      return {
        failure: existsSync(caller.cwd) ? `command not found: ${program}` : `its folder is gone: ${caller.cwd}`,
      };
    }
    return describeNotStarted(error as NodeJS.ErrnoException, basename(program) || program);
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

/** The arguments of a run: Node with the probe, or the script's interpreter. */
export function commandOf({
  script,
  probePath,
  args = [],
}: Pick<RunRequest, 'script' | 'probePath' | 'args'>): readonly [string, ...string[]] {
  const { launch, path, options } = script;
  if (launch.kind === 'program') return [...launch.command, ...args];
  return buildNodeCommand(options, '--require', probePath, path, ...args);
}

/** Uses the Node that runs this process. Without a limit V8's own applies. */
export function buildNodeCommand(
  { memoryBytes }: ScriptOptions,
  ...args: readonly string[]
): readonly [string, ...string[]] {
  const heap = memoryBytes === undefined ? [] : [`--max-old-space-size=${Math.ceil(memoryBytes / 1_048_576)}`];
  return [findOwnNode(), ...heap, ...args];
}

/** The interpreter that `#!/usr/bin/env name` asks for, if it is nowhere on the script's PATH. */
export function findMissingInterpreter(command: readonly string[], path: string | undefined): string | null {
  const [program, name] = command;
  if (program === undefined || name === undefined) return null;
  if (basename(program) !== 'env' || name.startsWith('-') || name.includes('/')) return null;
  return findProgram(name, path ?? '') === null ? name : null;
}

/** Variables of the runner's environment that a script gets without `@env`. */
const allowedNames = [
  'TZ',
  // Without them a script that adds jobs would add them to another log.
  ...databaseVariables,
];

type VariablesRequest = Pick<RunRequest, 'environment' | 'variables' | 'given' | 'script'>;
type EnvironmentRequest = VariablesRequest & Pick<RunRequest, 'key' | 'root' | 'job' | keyof RunFacts>;

/**
 * The environment is fixed, except for variables named by the settings and `@env`: a script behaves under cron as by
 * hand and never sees the runner's secrets. As under cron there is no TMPDIR: sockets, locks and notes of programs must
 * be found again by the next run, by daemons, and by the site. Files that should disappear with the run go to the run's
 * own folder.
 */
export function buildEnvironment(request: EnvironmentRequest, files: RunFiles): Record<string, string | undefined> {
  const own = asCallerOf(request) !== null ? request.environment : userEnvironment(request.environment);
  return {
    ...own,
    ...(own === request.environment ? {} : chosenVariables(request)),
    RUNNER_TMPDIR: files.temporary,
    RUNNER_COUNTS: countsFileOf(files),
    [rootVariableOf(request)]: request.root,
    RUNNER_HOST: machineName(),
    ...runVariables({ ...request, script: request.script.name }),
  };
}

/** The variable of a run's process that has the root of its log. */
export function rootVariableOf(request: Pick<RunRequest, 'script'>): string {
  return asCallerOf(request) === null ? 'RUNNER_ROOT' : EXEC_VARIABLE;
}

/** The variables of the site's files, passed on from the runner's environment, and of the settings: the last wins. */
export function chosenVariables({
  environment,
  variables,
  given,
  script,
}: VariablesRequest): Record<string, string | undefined> {
  const asked = new Set(script.options.env ?? []);
  const passed = Object.entries(environment).filter(([name]) => allowedNames.includes(name) || asked.has(name));
  return { ...given, ...Object.fromEntries(passed), ...variables };
}

/** The PATH on which a script finds programs. */
export function searchPathOf(request: VariablesRequest): string {
  return chosenVariables(request).PATH ?? defaultPath();
}

function probeVariable(request: RunRequest, files: RunFiles, hold: Hold | undefined): Record<string, string> {
  const { script, scheduledFor, latenessMs, attempt, lastSuccess, previouslyCrashed } = request;
  if (script.launch.kind !== 'node') return {};
  const options: ProbeOptions = {
    scriptPath: script.path,
    resultPath: files.result,
    cacheFolder: request.state.cache,
    exportsNothing: script.launch.exportsNothing === true,
    ...(hold !== undefined && { hold }),
    script: script.name,
    facts: { scheduledFor, latenessMs, attempt, lastSuccess, previouslyCrashed },
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
  const cpu = isSure ? subtractCpu(counted as CpuTime, before) : null;
  for (const resolve of waiting) resolve(cpu);
  waiting = [];
}

function subtractCpu(now: CpuTime, before: CpuTime): CpuTime {
  return { userCpuMs: now.userCpuMs - before.userCpuMs, systemCpuMs: now.systemCpuMs - before.systemCpuMs };
}

/** 13 and 14: utime and stime of the children that this process has waited for. */
function readChildrenCpu(): CpuTime | null {
  const stat = readStatFields(process.pid);
  return stat && { userCpuMs: Number(stat[13]) * MS_PER_TICK, systemCpuMs: Number(stat[14]) * MS_PER_TICK };
}
