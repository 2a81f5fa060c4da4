import { accessSync, constants, existsSync } from 'node:fs';
import { devNull } from 'node:os';
import { basename, dirname } from 'node:path';
import prettyMilliseconds from 'pretty-ms';
import { errorCode } from '../../system/base/errors.ts';
import { keepPackage } from '../../system/process/package-files.ts';
import { findOwnNode, isExecutable } from '../../system/process/programs.ts';

/** Why a script could not be started, or ended before its first line. */
export interface StartFailure {
  /** One sentence. */
  readonly failure: string;
  /** Files that a start needs were replaced: the run has not begun, and does not count as a try of its job. */
  readonly isReplaced?: true;
}

const PACKAGE_REPLACED: StartFailure = {
  failure: 'the package changed during this pass; the next pass continues',
  isReplaced: true,
};
const NODE_REPLACED: StartFailure = {
  failure: 'Node changed during this pass; the next pass continues',
  isReplaced: true,
};

/**
 * Why this process can start no further child: an upgrade or a removal has taken away files that a start needs, or that
 * record its end. Null: it can.
 */
export function findReplaced(probePath: string): StartFailure | null {
  const isThere = keepPackage(dirname(probePath)) && existsSync(probePath);
  return isThere ? findReplacedNode() : PACKAGE_REPLACED;
}

function findReplacedNode(): StartFailure | null {
  return isExecutable(findOwnNode()) ? null : NODE_REPLACED;
}

const OPEN_FILES = "too many files are open for the host's limit (ulimit -n)";

/** Why a script could not be started at all. */
export function describeNotStarted(error: NodeJS.ErrnoException, program: string): StartFailure {
  const replaced = program === basename(findOwnNode()) ? findReplacedNode() : null;
  if (replaced !== null) return replaced;
  // The kernel uses the same codes for the program itself.
  if (['ENOENT', 'EACCES', 'EPERM'].includes(error.code ?? '') && !isUsable(devNull)) {
    const failure = `no program can be started: ${devNull} is missing on this host, or closed to your user; ask your host to restore it`;
    return { failure };
  }
  const shown = program.length <= LONGEST_SHOWN ? program : `${program.slice(0, LONGEST_SHOWN)}…`;
  const sentence =
    sentences[error.code ?? ''] ?? `could not start <program>: ${error.message.replaceAll(program, shown)}`;
  return { failure: sentence.replace('<program>', () => shown) };
}

/** Each program gets this device as its input. */
function isUsable(path: string): boolean {
  try {
    accessSync(path, constants.R_OK | constants.W_OK);
    return true;
  } catch {
    return false;
  }
}

/** A `#!` line may hold anything, and cron would mail all of it. */
const LONGEST_SHOWN = 200;

const sentences: Readonly<Record<string, string>> = {
  ENOENT: 'interpreter not found: <program>',
  EACCES: 'not allowed to execute <program>',
  E2BIG: 'could not start <program>: its environment is larger than the host allows; shorten `env` in the settings',
  EAGAIN:
    "no process could be started for <program>: the host's limit of processes is reached; run fewer scripts at the same time, or set limits.maxProcesses to wait",
  ENOMEM:
    'no process could be started for <program>: the host has no memory left for it; run fewer scripts at the same time, or set limits.minFreeMemory to wait',
  EMFILE: `could not start <program>: ${OPEN_FILES}`,
  ELOOP: 'could not start <program>: too many symlinks on the way to it',
  ENFILE: 'could not start <program>: too many files are open on the host',
};

/** The reason is a full disk, or a state folder that somebody else has changed. */
export function describeNoFiles(error: NodeJS.ErrnoException): string {
  if (error.code === 'EMFILE') return `no output file could be opened: ${OPEN_FILES}`;
  const isForWantOfRoom = ['ENOSPC', 'EDQUOT'].includes(errorCode(error));
  const what = isForWantOfRoom ? 'no space for its output or its temporary files' : 'its files could not be made';
  return `${what}: ${error.message}`;
}

/** The first words of Node when it fails to start, and their meaning. */
const failedStarts: readonly (readonly [RegExp, StartFailure])[] = [
  [
    /^[#\s]*Fatal process out of memory/,
    {
      failure:
        "Node could not start: the host's memory limit (ulimit -v) leaves it too little address space; Node 24 needs about 1.2 GB",
    },
  ],
  [
    /^.{0,500}Assertion.{0,20}\(0\) == \(uv_thread_create/s,
    {
      failure:
        "Node could not start: it got no thread, so the host's limit of processes is reached; run fewer scripts at the same time, or set limits.maxProcesses to wait",
    },
  ],
  [
    /^node:internal\/.{0,100}\nError: Cannot find module '[^'\n]*\/(?:probe-[^'\n/]+'\nRequire stack:\n- internal\/preload|handler-host-[^'\n/]+')\n/s,
    PACKAGE_REPLACED,
  ],
  // The file was found, but gone before it was read.
  [
    /^node:fs:.{0,400}\nError: ENOENT: .{0,80}, open '[^'\n]*\/(?:probe-[^'\n/]+|handler-host-[^'\n/]+)'\n.{0,2000}loadPreloadModules/s,
    PACKAGE_REPLACED,
  ],
];

/**
 * Why Node ended itself before the script's first line; null: as far as can be seen, it did not. Once a script runs,
 * Node's last words follow the script's own, come with a JavaScript stack trace, or belong to a worker thread.
 */
export function describeFailedStart(output: string): StartFailure | null {
  if (/JavaScript stack trace|node::worker::/.test(output)) return null;
  return failedStarts.find(([words]) => words.test(output))?.[1] ?? null;
}

/** Node ended before it could call a handler, for an unknown reason. */
export function describeEarlyEnd(end: number | string | null, output: string): string {
  const how = describeHow(end);
  const [lastLine = ''] = output.trimEnd().split('\n').slice(-1);
  const said = lastLine === '' ? '' : `; its last words: ${lastLine.slice(0, 200)}`;
  return `the process for handlers ended ${how} before it called one${said}`;
}

/** A process that had served other jobs was gone when its next job came. */
export function describeGone(end: number | string | null): string {
  return `the process that waited for it had ended ${describeHow(end)}, so another one was started`;
}

function describeHow(end: number | string | null): string {
  return typeof end === 'number' ? `with exit code ${end}` : `by ${end}`;
}

/** Node hangs for ever if it gets some of the threads that it starts with, but not all. */
export const HANG_AFTER_MS = 30_000;

/** Neither the script nor its time limit is to blame. */
export function describeHungStart(hangAfterMs = HANG_AFTER_MS): string {
  const standstill = prettyMilliseconds(hangAfterMs);
  return `hung before its first line: for ${standstill} Node made no progress and did not end; probably the host's limit of processes is nearly reached; run fewer scripts at the same time, or set limits.maxProcesses to wait`;
}
