import { ftruncateSync } from 'node:fs';
import prettyMilliseconds from 'pretty-ms';
import type { HandlerJob } from '../../child/contract.ts';
import { sleepUntil } from '../../system/base/sleep.ts';
import { readCounts } from '../result/counts.ts';
import { judgeEnd } from '../result/end.ts';
import { readProgramWords } from '../result/handler-reply.ts';
import { keepOutput, readHead } from '../result/output.ts';
import { readLingering, readProbeResult } from '../result/probe-result.ts';
import { addCpu, endNotStarted, measureBySelf, type RunEnd } from '../result/result.ts';
import { isDiskFull } from '../result/wording.ts';
import { closeOutput, createRunFiles, type OpenOutput, type RunFiles, runFilesOf } from '../run-files.ts';
import { commandOf, type Exit, type StartedProcess, type StartFailure, startProcess } from '../start/process.ts';
import { type RunRequest, withScan } from '../start/request.ts';
import { describeFailedStart, describeHungStart, describeNoFiles, isReplaced } from '../start/start-failure.ts';
import { findLeft, type LeftProcess, type Termination } from '../watch/terminate.ts';
import { HANG_AFTER_MS, type Watched, watchRun } from '../watch/watch.ts';
import type { HeldScript } from './held-script.ts';

/**
 * Runs a script to its end. It never throws, whatever the script does.
 *
 * @param output the files of the run, if they were made before it began
 */
export async function runScript(asked: RunRequest, output = openRunFiles(asked)): Promise<RunEnd> {
  const request = await withScan(asked);
  const startedAt = performance.now();
  if ('failure' in output) return endNotStarted(output.failure, 0);
  const observing = observeRun(request, runFilesOf(request.state, request.key), output);
  return await endObserved(request, output, observing, startedAt);
}

/** Like `runScript`, with a process that was started ahead. Null: it ended before anything of the script was loaded. */
export async function runHeldScript(asked: RunRequest, held: HeldScript): Promise<RunEnd | null> {
  const request = await withScan(asked);
  const startedAt = performance.now();
  const observed = await observeHeld(request, held);
  return observed && (await endObserved(request, held.output, observed, startedAt));
}

async function endObserved(
  request: RunRequest,
  output: OpenOutput,
  observing: Observation | Promise<Observation | StartFailure>,
  startedAt: number,
): Promise<RunEnd> {
  try {
    const observed = await observing;
    const durationMs = performance.now() - startedAt;
    if ('failure' in observed) return endNotStarted(await addCure(request, observed.failure), durationMs);
    const files = runFilesOf(request.state, request.key);
    return await endRun(request, files, { ...observed, fd: output.fd, durationMs });
  } finally {
    closeOutput(output);
  }
}

/** Only a failure needs to know where another interpreter is. While the package is replaced, that is unknown. */
async function addCure(request: RunRequest, failure: string): Promise<string> {
  if (isNode(request)) return failure;
  const causes = await import('../result/causes.ts').catch(() => null);
  const cure = causes?.describeMissingInterpreter(request, commandOf(request)) ?? null;
  return cure === null ? failure : `${failure}; ${cure}`;
}

function openRunFiles({ state, key, job }: RunRequest): OpenOutput | StartFailure {
  try {
    return createRunFiles(runFilesOf(state, key), job ? toProgramLine(job) : null);
  } catch (error) {
    return { failure: describeNoFiles(error as NodeJS.ErrnoException) };
  }
}

interface Observed extends Observation {
  readonly durationMs: number;
}

async function endRun(
  request: RunRequest,
  files: RunFiles,
  observed: Observed & { readonly fd: number },
): Promise<RunEnd> {
  const result = readProbeResult(files.result, request.masker);
  const { counts, warning } = readCounts(files, result?.counts, request.masker);
  const { fd, droppedBytes } = observed;
  const { maxOutputBytes: maxBytes, masker } = request;
  const output = await keepOutput({ path: files.output, fd, droppedBytes, maxBytes, masker });
  return await judgeEnd(request, {
    ...{ ...observed, result, output },
    lingering: result?.lingering ?? readLingering(files.result),
    measured: result === null ? addCpu(observed.sampled, observed.exit.cpu) : measureBySelf(result),
    words: readProgramWords(request, observed.exit.code, fd),
    isDiskFull: isDiskFull(request.state.output),
    findRefutation: async () => (await request.scan?.finish(fd, masker)) ?? null,
    counts,
    notes: [warning],
  });
}

/** A run as seen from outside. */
interface Observation extends Watched {
  readonly pid: number;
  readonly exit: Exit;
  readonly left: readonly LeftProcess[];
  /** Why it never came to its first line; null: it may have. */
  readonly startFailure: string | null;
  /** Why it was started a second time; null: it was not. */
  readonly firstFailure: string | null;
}

/** Null: the process ended before anything of the script was loaded, and the runner did not stop it. */
async function observeHeld(request: RunRequest, held: HeldScript): Promise<Observation | null> {
  const { process, output } = held;
  if (held.release(request.startedAt - request.scheduledFor)) {
    request.onStarted(process.pid);
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
async function observeRun(
  request: RunRequest,
  files: RunFiles,
  output: OpenOutput,
): Promise<Observation | StartFailure> {
  const first = await observeStart(request, files, output);
  if ('failure' in first || first.startFailure === null) return first;
  await sleepUntil(request.stop, RESTART_AFTER_MS);
  if (request.stop.aborted) return first;
  ftruncateSync(output.fd);
  const second = await observeStart(request, files, output);
  if ('failure' in second) return second;
  const { startFailure } = second;
  if (startFailure !== null && isReplaced(startFailure)) return { failure: startFailure };
  return { ...second, firstFailure: first.startFailure };
}

async function observeStart(
  request: RunRequest,
  files: RunFiles,
  output: OpenOutput,
): Promise<Observation | StartFailure> {
  const started = await startProcess(request, files, output);
  if ('failure' in started) return started;
  request.onStarted(started.pid);
  return await observeProcess(started, request, output.fd);
}

async function observeProcess({ pid, exited }: StartedProcess, request: RunRequest, fd: number): Promise<Observation> {
  const stopWatching = watchRun(pid, request, fd);
  const exit = await exited;
  const watched = stopWatching();
  return {
    ...watched,
    pid,
    exit,
    left: await findLeft(pid, [`RUNNER_ROOT=${request.root}`, `RUNNER_RUN=${request.key}`]),
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
): string | null {
  if (cause === 'hung') {
    return describeHungStart(prettyMilliseconds(request.hangAfterMs ?? HANG_AFTER_MS));
  }
  const isOwnEnd = signal === 'SIGABRT' || signal === 'SIGTRAP';
  if (!isNode(request) || cause !== null || !(isOwnEnd || code === 1)) return null;
  const failure = describeFailedStart(readHead(fd));
  return failure !== null && isReplaced(failure) === (code === 1) ? failure : null;
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
    ['scheduledFor', JSON.stringify(toText(job.scheduledFor))],
    ['latenessMs', String(job.latenessMs)],
    ['lastSuccess', JSON.stringify(toText(job.lastSuccess))],
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

function toText(instant: number | null): string | null {
  return instant === null ? null : new Date(instant).toISOString();
}
