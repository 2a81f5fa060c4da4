import { ftruncateSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import prettyMilliseconds from 'pretty-ms';
import { describeFailedStart, describeHungStart } from './describe-not-started.ts';
import { countLeft } from './left-processes.ts';
import { readHead } from './read-head.ts';
import type { OpenOutput, RunFiles } from './run-files.ts';
import type { RunRequest } from './run-request.ts';
import {
  type Exit,
  type StartedProcess,
  type StartFailure,
  startProcess,
} from './start-process.ts';
import { HANG_AFTER_MS } from './start-watchdog.ts';
import { takeUpdates } from './take-updates.ts';
import type { Termination } from './terminate.ts';
import { type Watched, watchRun } from './watch-run.ts';

/** What was seen of a run from outside. */
export interface Observation extends Watched {
  readonly exit: Exit;
  readonly leftProcesses: number;
  /** Why it never came to its first line; null: it may have. */
  readonly startFailure: string | null;
  /** Why it was started a second time. */
  readonly firstFailure: string | null;
}

const RESTART_AFTER_MS = 500;

/**
 * Starts a run's process and waits for its end. A Node that fails before the script's first line is
 * started a second time: nothing of the script has happened yet, and hosts are full only for moments.
 */
export async function observeRun(
  request: RunRequest,
  files: RunFiles,
  output: OpenOutput,
): Promise<Observation | StartFailure> {
  const first = await observeStart(request, files, output);
  if ('failure' in first || first.startFailure === null) return first;
  await sleep(RESTART_AFTER_MS, undefined, { signal: request.stop }).catch(() => {});
  if (request.stop.aborted) return first;
  ftruncateSync(output.fd);
  const second = await observeStart(request, files, output);
  return 'failure' in second ? second : { ...second, firstFailure: first.startFailure };
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

async function observeProcess(
  { pid, exited, channel }: StartedProcess,
  request: RunRequest,
  fd: number,
): Promise<Observation> {
  const stopWatching = watchRun(pid, request, fd);
  const settleUpdates = channel && request.handler && takeUpdates(channel, request.handler);
  const exit = await exited;
  const watched = stopWatching();
  await settleUpdates?.();
  return {
    ...watched,
    exit,
    leftProcesses: await countLeft(pid),
    startFailure: describeFailure(request, watched.termination, exit, fd),
    firstFailure: null,
  };
}

const isNode = ({ script }: RunRequest): boolean => script.launch.kind === 'node';

function describeFailure(
  request: RunRequest,
  { cause }: Termination,
  { signal }: Exit,
  fd: number,
): string | null {
  if (cause === 'hung') {
    return describeHungStart(prettyMilliseconds(request.hangAfterMs ?? HANG_AFTER_MS));
  }
  const isOwnEnd = signal === 'SIGABRT' || signal === 'SIGTRAP';
  return isNode(request) && cause === null && isOwnEnd ? describeFailedStart(readHead(fd)) : null;
}
