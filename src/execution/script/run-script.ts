import { existsSync, ftruncateSync, readFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import type { HandlerJob } from '../../child/contract.ts';
import { sleepUntil } from '../../system/base/clock.ts';
import { readFreeMemory } from '../../system/process/memory.ts';
import { signalGroup } from '../../system/process/tree.ts';
import { judgeEnd } from '../result/end.ts';
import { readProgramWords } from '../result/handler-reply.ts';
import { keepOutput, readHead } from '../result/output.ts';
import { readCounts, readLingering, readProbeResult } from '../result/report.ts';
import { addCpu, endNotStarted, measureBySelf, type RunEnd } from '../result/result.ts';
import { type EndFacts, isDiskFull } from '../result/wording.ts';
import {
  closeOutput,
  createRunFiles,
  heldOutputOf,
  type OpenOutput,
  type RunFiles,
  removeRunFiles,
  runFilesOf,
} from '../run-files.ts';
import {
  asCallerOf,
  commandOf,
  type Exit,
  type RunRequest,
  rootVariableOf,
  type StartedProcess,
  startProcess,
  withScan,
} from '../start/process.ts';
import { describeFailedStart, describeHungStart, describeNoFiles, type StartFailure } from '../start/start-failure.ts';
import { findLeft, type Termination, type Watched, watchRun } from '../watch/watch.ts';

/**
 * Runs a script to its end. It never throws, whatever the script does.
 *
 * @param output the files of the run, if they were made before it began
 */
export async function runScript(asked: RunRequest, output = openRunFiles(asked)): Promise<RunEnd> {
  const request = await withScan(asked);
  const startedAt = performance.now();
  if ('failure' in output) return endNotStarted(output, 0);
  return await endRun(request, output, observeRun(request, output), startedAt);
}

/** Like `runScript`, with a process that was started ahead. Null: it ended before anything of the script was loaded. */
export async function runHeldScript(asked: RunRequest, held: HeldScript): Promise<RunEnd | null> {
  const request = await withScan(asked);
  const startedAt = performance.now();
  const observed = await observeHeld(request, held);
  return observed && (await endRun(request, held.output, observed, startedAt));
}

function openRunFiles({ state, key, job }: RunRequest): OpenOutput | StartFailure {
  try {
    return createRunFiles(runFilesOf(state, key), job ? toProgramLine(job) : null);
  } catch (error) {
    return { failure: describeNoFiles(error as NodeJS.ErrnoException) };
  }
}

async function endRun(
  request: RunRequest,
  output: OpenOutput,
  observing: Observation | Promise<Observation | StartFailure>,
  startedAt: number,
): Promise<RunEnd> {
  try {
    const observed = await observing;
    const durationMs = performance.now() - startedAt;
    if ('failure' in observed) return endNotStarted(await addCure(request, observed), durationMs);
    return await judgeObserved(request, output.fd, observed, durationMs);
  } finally {
    closeOutput(output);
  }
}

/** Only a failure needs to know where another interpreter is. While the package is replaced, that is unknown. */
async function addCure(request: RunRequest, failed: StartFailure): Promise<StartFailure> {
  if (isNode(request) || asCallerOf(request) !== null) return failed;
  const cures = await import('../result/cures.ts').catch(() => null);
  const cure = cures?.describeMissingInterpreter(request, commandOf(request)) ?? null;
  return cure === null ? failed : { ...failed, failure: `${failed.failure}; ${cure}` };
}

async function judgeObserved(
  request: RunRequest,
  fd: number,
  observed: Observation,
  durationMs: number,
): Promise<RunEnd> {
  const { state, key, masker, maxOutputBytes: maxBytes } = request;
  const { exit, sampled, droppedBytes } = observed;
  const files = runFilesOf(state, key);
  const result = readProbeResult(files.result, masker);
  const { counts, warning } = readCounts(files, result?.counts, masker);
  return await judgeEnd({
    ...observed,
    startFailure: observed.startFailure?.failure ?? null,
    ...{ request, durationMs, result, counts },
    output: await keepOutput({ path: files.output, fd, droppedBytes, maxBytes, masker }),
    lingering: result?.lingering ?? readLingering(files.result),
    measured: result === null ? addCpu(sampled, exit.cpu) : measureBySelf(result),
    words: readProgramWords(request, exit.code, fd),
    isDiskFull: isDiskFull(state.output),
    findRefutation: async () => (await request.scan?.finish(fd, masker)) ?? null,
    notes: [warning],
  });
}

/** A run as seen from outside. */
type Observation = Watched &
  Pick<EndFacts, 'left' | 'firstFailure'> & {
    /** Why it never came to its first line; null: it may have. */
    readonly startFailure: StartFailure | null;
    readonly pid: number;
    readonly exit: Exit;
  };

/** Null: the process ended before anything of the script was loaded, and the runner did not stop it. */
async function observeHeld(request: RunRequest, held: HeldScript): Promise<Observation | null> {
  const { process, output } = held;
  if (held.release(request.latenessMs)) {
    const observed = await observeProcess(process, request, output.fd);
    if ((await held.hasBegun()) || request.stop.aborted) return observed;
  }
  await held.drop();
  return null;
}

const RESTART_AFTER_MS = 500;

/**
 * Starts a run's process and waits for its end. A Node that fails before the script's first line is started a second
 * time: nothing of the script has happened yet, and hosts are often full only for a moment.
 */
async function observeRun(request: RunRequest, output: OpenOutput): Promise<Observation | StartFailure> {
  const first = await observeStart(request, output);
  if ('failure' in first || first.startFailure === null) return first;
  await sleepUntil(request.stop, RESTART_AFTER_MS);
  if (request.stop.aborted) return first;
  ftruncateSync(output.fd);
  const second = await observeStart(request, output);
  if ('failure' in second) return second;
  if (second.startFailure?.isReplaced) return second.startFailure;
  return { ...second, firstFailure: first.startFailure.failure };
}

async function observeStart(request: RunRequest, output: OpenOutput): Promise<Observation | StartFailure> {
  const started = await startProcess(request, runFilesOf(request.state, request.key), output);
  return 'failure' in started ? started : await observeProcess(started, request, output.fd);
}

async function observeProcess({ pid, exited }: StartedProcess, request: RunRequest, fd: number): Promise<Observation> {
  request.onStarted?.(pid);
  const stopWatching = watchRun(pid, request, fd);
  const exit = await exited;
  const watched = stopWatching();
  return {
    ...watched,
    pid,
    exit,
    left: await findLeft(pid, [`${rootVariableOf(request)}=${request.root}`, `RUNNER_RUN=${request.key}`]),
    startFailure: describeFailure(request, watched.termination, exit, fd),
    firstFailure: null,
  };
}

const isNode = ({ script }: RunRequest): boolean => script.launch.kind === 'node';

function describeFailure(
  request: RunRequest,
  { cause }: Termination,
  { code, signal }: Exit,
  fd: number,
): StartFailure | null {
  if (cause === 'hung') return { failure: describeHungStart(request.hangAfterMs) };
  const isOwnEnd = signal === 'SIGABRT' || signal === 'SIGTRAP';
  if (!isNode(request) || cause !== null || !(isOwnEnd || code === 1)) return null;
  const failure = describeFailedStart(readHead(fd));
  return failure !== null && (failure.isReplaced ?? false) === (code === 1) ? failure : null;
}

/**
 * The standard input of a handler: one line of JSON. The data is copied as text: a number may have more digits than
 * JavaScript can keep.
 */
function toProgramLine(job: HandlerJob): string {
  const fields: readonly (readonly [string, string])[] = [
    ['id', String(job.id)],
    ['name', JSON.stringify(job.name)],
    ['data', onOneLine(job.data)],
    ['attempt', String(job.attempt)],
    ['scheduledFor', instantText(job.scheduledFor)],
    ['latenessMs', String(job.latenessMs)],
    ['lastSuccess', instantText(job.lastSuccess)],
    ['previouslyCrashed', String(job.previouslyCrashed)],
    ['parentData', onOneLine(job.parentData ?? 'null')],
    ['children', onOneLine(job.children ?? '{"finished":[],"failed":[],"cancelled":[]}')],
  ];
  return `{${fields.map(([key, value]) => `"${key}":${value}`).join(',')}}\n`;
}

/** Line breaks are only white space here: JSON escapes those within strings. */
function onOneLine(json: string): string {
  return json.replace(/[\r\n]+/g, ' ');
}

function instantText(instant: number | null): string {
  return JSON.stringify(instant === null ? null : new Date(instant));
}

/**
 * Longest time that a process waits for its turn, in milliseconds. If the script before it is slow for once, waiting is
 * not worth the memory; and a process much older than its run would count as running too long.
 */
const HOLD_MS = 10_000;

/**
 * The process of a Node script, started before its turn. It waits before anything of the script is loaded. It ends with
 * this process, however that ends.
 */
export interface HeldScript {
  readonly files: RunFiles;
  readonly output: OpenOutput;
  readonly process: StartedProcess;
  /** Lets the script begin. False: its process has ended. */
  release(latenessMs: number): boolean;
  /** Settles when the process has ended, and says whether anything of the script was loaded. */
  hasBegun(): Promise<boolean>;
  /** Ends the process if necessary, and removes the files. */
  drop(): Promise<void>;
}

/** Null: it could not be started now. When its turn comes, it is started as usual. */
export async function holdScript(request: RunRequest): Promise<HeldScript | null> {
  const files = runFilesOf(request.state, request.key);
  const hold = { heldOutput: heldOutputOf(files), output: files.output };
  let output: OpenOutput;
  try {
    output = createRunFiles(files, null, true);
  } catch {
    return null;
  }
  // An aborted signal prevents waiting if there is no room now.
  const started = await startProcess({ ...request, stop: AbortSignal.abort() }, files, output, hold);
  if (!('failure' in started)) return toHeld(files, output, started);
  closeOutput(output);
  removeRunFiles(files);
  return null;
}

function toHeld(files: RunFiles, output: OpenOutput, process: StartedProcess): HeldScript {
  const channel = process.channel as NonNullable<StartedProcess['channel']>;
  let hasEnded = false;
  let isRefused = false;
  const timer = setTimeout(() => signalGroup(process.pid, 'SIGKILL'), HOLD_MS).unref();
  const closed = new Promise<void>((resolve) => channel.once('close', resolve));
  // Writing fails if the process has ended; `exited` tells that.
  channel.on('error', () => {});
  channel.on('data', () => {
    isRefused = true;
  });
  const exited = process.exited.then(() => {
    hasEnded = true;
    clearTimeout(timer);
  });
  return {
    files,
    output,
    process,
    release: (latenessMs) => {
      clearTimeout(timer);
      if (!hasEnded) channel.end(String(latenessMs));
      return !hasEnded;
    },
    hasBegun: async () => {
      await closed;
      return !isRefused && !existsSync(heldOutputOf(files));
    },
    drop: async () => {
      if (!hasEnded) signalGroup(process.pid, 'SIGKILL');
      await exited;
      channel.destroy();
      closeOutput(output);
      removeRunFiles(files);
    },
  };
}

/** Enough for two processes of Node and for what their scripts may need. */
const SPARE_MEMORY_BYTES = 512 * 1024 * 1024;
/** Each of Node's threads counts as a process, and scripts start processes of their own. */
const SPARE_PROCESSES = 200;
/** The runner itself has five or six files open per process that it keeps. */
const SPARE_FILES = 256;

/** Whether a process can be started before its turn without hindering the script that runs. */
export function hasRoomToHold(): boolean {
  return availableParallelism() > 1 && hasRoomToSpare();
}

/** Whether the host has room for a process that is not indispensable. */
export function hasRoomToSpare(): boolean {
  const isEnough = (found: number | null, wanted: number): boolean => found === null || found >= wanted;
  const limits = existsSync('/proc/self/limits') ? readFileSync('/proc/self/limits', 'latin1') : '';
  return (
    isEnough(readFreeMemory(), SPARE_MEMORY_BYTES) &&
    isEnough(limitIn(limits, 'processes'), SPARE_PROCESSES) &&
    isEnough(limitIn(limits, 'open files'), SPARE_FILES)
  );
}

/** The limit of `ulimit -u` or `-n`; null: none, or unknown. */
function limitIn(limits: string, what: string): number | null {
  const [, soft] = new RegExp(`^Max ${what}\\s+(\\d+)`, 'm').exec(limits) ?? [];
  return soft === undefined ? null : Number(soft);
}
