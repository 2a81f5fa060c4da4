import { ftruncateSync } from 'node:fs';
import type { HandlerJob } from '../../child/contract.ts';
import { sleepUntil } from '../../system/base/sleep.ts';
import { judgeEnd } from '../result/end.ts';
import { readProgramWords } from '../result/handler-reply.ts';
import { keepOutput, readHead } from '../result/output.ts';
import { readCounts, readLingering, readProbeResult } from '../result/report.ts';
import { addCpu, endNotStarted, measureBySelf, type RunEnd } from '../result/result.ts';
import { type EndFacts, isDiskFull } from '../result/wording.ts';
import { closeOutput, createRunFiles, type OpenOutput, runFilesOf } from '../run-files.ts';
import { commandOf, type Exit, type StartedProcess, startProcess } from '../start/process.ts';
import { type RunRequest, withScan } from '../start/request.ts';
import { describeFailedStart, describeHungStart, describeNoFiles, type StartFailure } from '../start/start-failure.ts';
import { findLeft, type Termination } from '../watch/terminate.ts';
import { type Watched, watchRun } from '../watch/watch.ts';
import type { HeldScript } from './held-script.ts';

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
  if (isNode(request)) return failed;
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
