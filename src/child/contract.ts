import { statSync } from 'node:fs';
import type { Counts } from './counts.ts';

/**
 * A Node script gets the runner's own descriptor of its output too, and the first thing that the probe
 * does is to close it: so anybody can see, at the price of two system calls, that Node came that far.
 */
export const SIGN_OF_LIFE_FD = 3;

/** What the runner tells the probe in a Node script, as JSON in one environment variable. */
export interface ProbeOptions {
  readonly scriptPath: string;
  readonly resultPath: string;
  readonly cacheFolder: string;
  /** It exports nothing. */
  readonly exportsNothing: boolean;
  /** It was started before its turn, and waits on {@link HOLD_FD}. */
  readonly hold?: Hold;
  readonly context: ProbeContext;
}

/**
 * The name of its output file while a process waits for its turn, and from then on. Who renames it begins, and
 * who removes it before that keeps it from ever beginning.
 */
export interface Hold {
  readonly heldOutput: string;
  readonly output: string;
}

/** What a script's function learns of its run; instants in epoch milliseconds. */
export interface ProbeContext {
  readonly script: string;
  readonly scheduledFor: number;
  readonly latenessMs: number;
  readonly attempt: number;
  readonly lastSuccess: number | null;
  readonly previouslyCrashed: boolean;
}

/** What the probe leaves at the script's end. */
export interface ProbeResult extends HandlerEnd {
  readonly userCpuMs: number;
  readonly systemCpuMs: number;
  /** Null where nobody knows, as of a later job of a warm child without `/proc`. */
  readonly maxRssBytes: number | null;
  /** Of a child that serves many jobs, by how much it has grown with this one; absent: nobody knows. */
  readonly rssDeltaBytes?: number;
  /** What it has counted, by name; absent: nothing. */
  readonly counts?: Counts;
  /** What kept it running; absent: nothing, or not for long. */
  readonly lingering?: Lingering;
  /** What it exports though nothing calls that, in a few words; absent: nothing. */
  readonly uncalled?: string;
}

/** A process that goes on though its script's code has come to its end. */
export interface Lingering {
  /** Whether that was its default function, which has said by that that it is done; else the file's own code. */
  readonly isFunction: boolean;
  /** How long the function took; null: it was none. */
  readonly afterMs: number | null;
  /** Kinds of what is open, by Node's own names: `TCPServerWrap`, `Timeout`. */
  readonly resources: readonly string[];
}

/** How a script ended, and what only handlers say of that. */
export interface HandlerEnd {
  readonly exitCode: number;
  readonly error: ProbeError | null;
  /** JSON; absent: none. */
  readonly result?: string;
  readonly ask?: SpokenAsk;
  /** Why it counts as failed though nothing was thrown: one sentence. */
  readonly refusal?: string;
}

/** What a handler asked for, in its own words. */
export type SpokenAsk =
  | {
      readonly kind: 'retry';
      readonly delay?: string;
      /** ISO 8601. */
      readonly runAt?: string;
      readonly failure?: string;
      readonly priority?: number;
      readonly name?: string;
      /** JSON. */
      readonly data?: string;
    }
  | { readonly kind: 'fail'; readonly reason: string };

export interface ProbeError {
  readonly name: string;
  readonly message: string;
  readonly stack: string | null;
}

/** Deleted from `process.env` before any code of the script runs. */
export const PROBE_VARIABLE = 'RUNNER_PROBE';

/** What a handler is told of its job. JSON stays text until the child reads it; instants in epoch milliseconds. */
export interface HandlerJob {
  readonly id: number;
  readonly name: string;
  /** JSON. */
  readonly data: string;
  readonly attempt: number;
  readonly scheduledFor: number | null;
  readonly startedAt: number;
  readonly latenessMs: number;
  readonly lastSuccess: number | null;
  readonly previouslyCrashed: boolean;
  /** JSON; null: it has no parent. */
  readonly parentData: string | null;
  /** JSON of `HandlerChildren`; null: there are none to tell of. */
  readonly children: string | null;
}

/** What a warm child is started with, as JSON in one environment variable. */
export interface HostOptions {
  readonly root: string;
  readonly cacheFolder: string;
  /** Where all output of this process goes. */
  readonly output: string;
  /** Where it writes down which run has begun. */
  readonly ledger: string;
  readonly temporary: string;
  /** It serves one job, and ends with it. */
  readonly isAlone: boolean;
}

/** A job for a warm child. */
export interface JobMessage {
  readonly job: HandlerJob;
  readonly key: string;
  readonly script: string;
  readonly path: string;
  /** Where the end is written down should nobody be there to be told. */
  readonly resultPath: string;
  /** Where the output is looked for then. */
  readonly outputPath: string;
}

/** Jobs for a warm child, one after the other. */
export interface JobsMessage {
  readonly jobs: readonly JobMessage[];
  /** Counts all jobs that the child was ever sent: the number of the first of these. */
  readonly first: number;
  /** So many of the last runs before may not be in the log: of the others nobody asks any more. */
  readonly unsettled: number;
  /** With more memory in use no further one is begun. */
  readonly mostRssBytes: number;
}

/** What the runner tells a warm child. */
export type ToChild =
  | JobsMessage
  /** An update is in the log, or why it is not. */
  | { readonly updated: number; readonly problem: string | null }
  | { readonly bye: true };

/** What a warm child tells the runner. */
export type FromChild =
  | { readonly ready: true }
  | { readonly update: number; readonly data: string }
  /** So many of the jobs that it was sent last have not begun, and do not any more. */
  | { readonly unbegun: number }
  | EndMessage;

export interface EndMessage {
  readonly end: ProbeResult;
  readonly durationMs: number;
  /** Null where nobody knows. */
  readonly rssBytes: number | null;
  /** Files that it has imported since it said so last. */
  readonly loaded?: readonly FileState[];
  /** It cannot serve another job as if nothing had been. */
  readonly isSpoilt?: true;
  /** What an earlier run left behind and has failed during this one. */
  readonly stray?: Stray;
  /** What this run left behind for those after it. */
  readonly trace?: Trace;
}

/** What a job has left in its process that cannot be put back: a built-in that it replaced, a timer that goes on. */
export interface Trace {
  readonly kind: 'changed' | 'running';
  /** `JSON.parse`, `setInterval` */
  readonly what: string;
}

/** An error of which a run that has ended is the cause. */
export interface Stray {
  /** Null: nobody knows. */
  readonly jobId: number | null;
  /** The last run that the child has begun. */
  readonly lastKey: string | null;
  readonly sentence: string;
}

/**
 * In a warm child's temporary folder: what has failed while no job was there, as a {@link Stray}. The
 * child ends itself then, and of a channel that the runner writes to at this moment nothing more is read.
 */
export const STRAY_FILE = '.stray.json';

/** Deleted from `process.env` before any code of a handler runs. `RUNNER_HOST` is the name of the machine. */
export const HANDLER_VARIABLE = 'RUNNER_HANDLER';

/**
 * A child's ledger: which of its runs have begun and may not be in the log, as text; the number of the last
 * job that it has begun; up to which it is to begin none. Numbers are read and written as a whole, by the
 * child and its runner at the same time.
 */
export const ledgerPlaces = { keys: 0, begun: 64, revoked: 72, end: 80 } as const;

/** Files are dated by a clock that goes by steps, and lags behind by one at most. */
export const FILE_CLOCK_STEP_MS = 20;

/** The descriptor of a warm child that leads to its runner. */
export const CHANNEL_FD = 4;

/**
 * The descriptor on which the process of a script waits for its turn: it reads how late that is, in
 * milliseconds. Its end without a word means that the runner has ended.
 */
export const HOLD_FD = 4;

/** What such a process answers that must not begin. */
export const NOT_BEGUN = '-';

/** What a handler itself wants to become of its job. */
export type HandlerDecision =
  | {
      readonly kind: 'retry';
      readonly delayMs?: number;
      /** UTC epoch milliseconds; it wins over the delay. */
      readonly runAt?: number;
      /** Why the try has failed; absent: it does not count as one. */
      readonly failure?: string;
      readonly priority?: number;
      readonly name?: string;
      /** JSON. */
      readonly data?: string;
    }
  | { readonly kind: 'fail'; readonly reason: string };

/** What a run's process learns of it by environment variables; instants in epoch milliseconds. */
export interface RunFacts {
  readonly key: string;
  readonly script: string;
  /** Null: it stands for no time. */
  readonly scheduledFor: number | null;
  readonly latenessMs: number;
  readonly attempt: number;
  readonly lastSuccess: number | null;
  readonly previouslyCrashed: boolean;
  /** Of a handler. */
  readonly job?: { readonly id: number; readonly name: string };
}

/** All that {@link runVariables} sets. */
export const runVariableNames = [
  'RUNNER_RUN',
  'RUNNER_SCRIPT',
  'RUNNER_SCHEDULED_FOR',
  'RUNNER_LATENESS_MS',
  'RUNNER_ATTEMPT',
  'RUNNER_LAST_SUCCESS',
  'RUNNER_PREVIOUSLY_CRASHED',
  'RUNNER_JOB',
  'RUNNER_NAME',
];

export function runVariables(facts: RunFacts): Record<string, string> {
  return {
    RUNNER_RUN: facts.key,
    RUNNER_SCRIPT: facts.script,
    RUNNER_SCHEDULED_FOR: formatInstant(facts.scheduledFor),
    RUNNER_LATENESS_MS: String(facts.latenessMs),
    RUNNER_ATTEMPT: String(facts.attempt),
    RUNNER_LAST_SUCCESS: formatInstant(facts.lastSuccess),
    RUNNER_PREVIOUSLY_CRASHED: facts.previouslyCrashed ? '1' : '',
    ...(facts.job && { RUNNER_JOB: String(facts.job.id), RUNNER_NAME: facts.job.name }),
  };
}

function formatInstant(instant: number | null): string {
  return instant === null ? '' : new Date(instant).toISOString();
}

/** What a job's row holds of data or of a result. */
export const MAX_JSON_BYTES = 1024 * 1024;

/** SQLite takes nothing deeper for JSON. */
export const DEEPEST_JSON = 1000;

const [quote, backslash] = [0x22, 0x5c];
const opening: readonly number[] = [0x5b, 0x7b];
const closing: readonly number[] = [0x5d, 0x7d];

/** Of text that is JSON. */
export function isTooDeep(json: string): boolean {
  // Mostly it is too short to be looked through.
  if (json.length <= 2 * DEEPEST_JSON) return false;
  let depth = 0;
  let isInText = false;
  for (let index = 0; index < json.length; index += 1) {
    const code = json.charCodeAt(index);
    if (code === quote) isInText = !isInText;
    else if (isInText) index += code === backslash ? 1 : 0;
    else if (opening.includes(code)) depth += 1;
    else if (closing.includes(code)) depth -= 1;
    if (depth > DEEPEST_JSON) return true;
  }
  return false;
}

/**
 * Puts lines together from the pieces in which they arrive; each line is one message.
 *
 * @param maxLength one that is longer is handed on in parts: it is no message, and must not fill the memory
 */
export function splitLines(
  onLine: (line: string) => void,
  maxLength = Number.POSITIVE_INFINITY,
): (piece: string) => void {
  let parts: string[] = [];
  let length = 0;
  const add = (part: string): void => {
    parts.push(part);
    length += part.length;
  };
  const handOn = (): void => {
    const line = parts.length === 1 ? (parts[0] as string) : parts.join('');
    parts = [];
    length = 0;
    onLine(line);
  };
  return (piece) => {
    let start = 0;
    for (let end = piece.indexOf('\n'); end !== -1; end = piece.indexOf('\n', start)) {
      add(piece.slice(start, end));
      start = end + 1;
      handOn();
    }
    if (start < piece.length) add(piece.slice(start));
    if (length > maxLength) handOn();
  };
}

/** By which a changed file is told from what it was; zeros: it is not there. */
export interface FileState {
  readonly path: string;
  readonly mtimeMs: number;
  readonly size: number;
  readonly ino: number;
}

export function readFileState(path: string): FileState {
  const stat = statSync(path, { throwIfNoEntry: false });
  if (stat === undefined) return { path, mtimeMs: 0, size: 0, ino: 0 };
  const { mtimeMs, size, ino } = stat;
  return { path, mtimeMs, size, ino };
}

/** Whether a file is still what it was. */
export function isUnchanged(before: FileState): boolean {
  const now = readFileState(before.path);
  return now.mtimeMs === before.mtimeMs && now.size === before.size && now.ino === before.ino;
}

/** What was expected where JSON text is more than a job may hold; null: it is not. */
export function describeExcess(text: string): string | null {
  const bytes = Buffer.byteLength(text);
  if (bytes > MAX_JSON_BYTES) {
    return `JSON of at most 1 MiB, found ${bytes} bytes; put large data into a file and pass its name`;
  }
  return isTooDeep(text) ? `JSON nested at most ${DEEPEST_JSON} deep` : null;
}
