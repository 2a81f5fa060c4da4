import type { Counts } from './counts.ts';
import type { FileState } from './files.ts';

/**
 * A Node script also gets the runner's own descriptor of its output, which the probe closes first of all. This costs
 * two system calls and shows that Node came that far.
 */
export const SIGN_OF_LIFE_FD = 3;

/** The runner's options for the probe in a Node script, passed as JSON in one environment variable. */
export interface ProbeOptions {
  readonly scriptPath: string;
  readonly resultPath: string;
  readonly cacheFolder: string;
  /** Whether the script exports nothing. */
  readonly exportsNothing: boolean;
  /** Present if the process was started before its turn; it then waits on {@link HOLD_FD}. */
  readonly hold?: Hold;
  readonly script: string;
  readonly facts: RunFacts;
}

/**
 * The names of the output file: while a process waits for its turn, and from then on. A process that renames the file
 * begins its run; the runner prevents the run for ever if it removes the file first.
 */
export interface Hold {
  readonly heldOutput: string;
  readonly output: string;
}

/** The facts of a run that its process learns; instants in epoch milliseconds. */
export interface RunFacts {
  /** Start of the period that the run is for, or the due time of its job; null: it stands for no particular time. */
  readonly scheduledFor: number | null;
  readonly latenessMs: number;
  readonly attempt: number;
  readonly lastSuccess: number | null;
  readonly previouslyCrashed: boolean;
}

/** The record that the probe leaves at the script's end. */
export interface ProbeResult extends HandlerEnd {
  readonly userCpuMs: number;
  readonly systemCpuMs: number;
  /** Null if unknown, as for a later job of a warm child without `/proc`. */
  readonly maxRssBytes: number | null;
  /** Growth during this job of a child that serves many jobs; absent: unknown. */
  readonly rssDeltaBytes?: number;
  /** Sums of what the run has counted, by name; absent: none. */
  readonly counts?: Counts;
  /** Open resources that kept it running; absent: none, or not for long. */
  readonly lingering?: Lingering;
  /** An export that nothing calls, in a few words; absent: none. */
  readonly uncalled?: string;
  /** Whether the process ended before the promise of its default function had settled; absent: no. */
  readonly isUnsettled?: boolean;
}

/** A process that goes on after its script's code has ended. */
export interface Lingering {
  /** True if the default function has ended, so the script is done; false if the file's own code has. */
  readonly isFunction: boolean;
  /** How many milliseconds the function took; null: there was no function. */
  readonly afterMs: number | null;
  /** Kinds of open resources, by Node's own names: `TCPServerWrap`, `Timeout`. */
  readonly resources: readonly string[];
}

/** The end of a script, with fields that only handlers set. */
export interface HandlerEnd {
  readonly exitCode: number;
  readonly error: ProbeError | null;
  /** JSON; absent: none. */
  readonly result?: string;
  readonly ask?: SpokenAsk;
  /** One sentence that says why it counts as failed although nothing was thrown. */
  readonly refusal?: string;
}

/** The exit code by which a handler asks to be tried again, as sendmail and other programs do (EX_TEMPFAIL). */
export const RETRY_EXIT_CODE = 75;

/** A request of a handler, as the handler wrote it. */
export type SpokenAsk =
  | (Omit<Extract<HandlerDecision, { readonly kind: 'retry' }>, 'delayMs' | 'runAt'> & {
      readonly delay?: string;
      /** ISO 8601. */
      readonly runAt?: string;
    })
  | Extract<HandlerDecision, { readonly kind: 'fail' }>;

export interface ProbeError {
  readonly name: string;
  readonly message: string;
  readonly stack: string | null;
}

/** Deleted from `process.env` before any code of the script runs. */
export const PROBE_VARIABLE = 'RUNNER_PROBE';

/** The facts of its job for a handler. JSON stays text until the child reads it. */
export interface HandlerJob extends RunFacts {
  readonly id: number;
  readonly name: string;
  /** JSON. */
  readonly data: string;
  readonly startedAt: number;
  /** JSON; null: the job has no parent. */
  readonly parentData: string | null;
  /** JSON of `HandlerChildren`; null: no children to report. */
  readonly children: string | null;
}

/** The options of a warm child at its start, passed as JSON in one environment variable. */
export interface HostOptions {
  readonly root: string;
  readonly cacheFolder: string;
  /** The file that takes all output of this process. */
  readonly output: string;
  /** The file in which the child notes which run has begun. */
  readonly ledger: string;
  readonly temporary: string;
  /** Whether the child serves one job only and ends with it. */
  readonly isAlone: boolean;
}

/** A job for a warm child. */
export interface JobMessage {
  readonly job: HandlerJob;
  readonly key: string;
  readonly script: string;
  readonly path: string;
  /** The file that takes the end of the job if the runner is gone. */
  readonly resultPath: string;
  /** The file in which the next runner looks for the output in that case. */
  readonly outputPath: string;
}

/** Jobs for a warm child, one after the other. */
export interface JobsMessage {
  readonly jobs: readonly JobMessage[];
  /** The number of the first of these jobs, in the count of all jobs ever sent to the child. */
  readonly first: number;
  /** How many of the latest earlier runs may be missing in the log; nobody needs the ends of older ones. */
  readonly unsettled: number;
  /** No further job begins while more memory than this is in use. */
  readonly mostRssBytes: number;
}

/** Messages of the runner to a warm child. */
export type ToChild =
  | JobsMessage
  /** Reports that an update is in the log, or why it is not. */
  | { readonly updated: number; readonly problem: string | null }
  | { readonly bye: true };

/** Messages of a warm child to the runner. */
export type FromChild =
  | { readonly ready: true }
  | { readonly update: number; readonly data: string }
  /** How many of the jobs sent last have not begun and will not begin. */
  | { readonly unbegun: number }
  | EndMessage;

export interface EndMessage {
  readonly end: ProbeResult;
  readonly durationMs: number;
  /** Null if unknown. */
  readonly rssBytes: number | null;
  /** Files imported since the last such report. */
  readonly loaded?: readonly FileState[];
  /** The child cannot serve another job as a fresh one would. */
  readonly isSpoilt?: true;
  /** An error, during this run, of something that an earlier run left behind. */
  readonly stray?: Stray;
  /** Something that this run left behind for the runs after it. */
  readonly trace?: Trace;
}

/** A change by a job to its process that cannot be undone: a replaced built-in, a timer that goes on. */
export interface Trace {
  readonly kind: 'changed' | 'running';
  /** `JSON.parse`, `setInterval` */
  readonly what: string;
}

/** An error that a run which has ended has caused. */
export interface Stray {
  /** Null: unknown. */
  readonly jobId: number | null;
  /** The run that the child began last. */
  readonly lastKey: string | null;
  readonly sentence: string;
}

/**
 * A file in a warm child's temporary folder: the {@link Stray} that failed while no job was running. The child ends
 * itself then. If the runner is writing to the channel at that moment, it can read nothing more from it.
 */
export const STRAY_FILE = '.stray.json';

/** Deleted from `process.env` before any code of a handler runs. `RUNNER_HOST` is the name of the machine. */
export const HANDLER_VARIABLE = 'RUNNER_HANDLER';

/** The root whose log has the run of a command of `exec`: its `RUNNER_ROOT` stays the caller's. */
export const EXEC_VARIABLE = 'RUNNER_EXEC';

/**
 * Offsets in a child's ledger, in bytes. `keys`: the runs that have begun and may be missing in the log, as text.
 * `begun`: the number of the last job that the child has begun. `revoked`: the number up to which it must begin no job.
 * The child and its runner read and write numbers at the same time, each as a whole.
 */
export const ledgerPlaces = { keys: 0, begun: 64, revoked: 72, end: 80 } as const;

/** The descriptor of a warm child's channel to its runner. */
export const CHANNEL_FD = 4;

/**
 * The descriptor on which the process of a script waits for its turn. It reads how late the turn is, in milliseconds.
 * An end of file without a message means that the runner has ended.
 */
export const HOLD_FD = 4;

/** The answer of a waiting process that must not begin. */
export const NOT_BEGUN = '-';

/** A handler's own decision about its job. */
export type HandlerDecision =
  | {
      readonly kind: 'retry';
      readonly delayMs?: number;
      /** UTC epoch milliseconds; takes precedence over the delay. */
      readonly runAt?: number;
      /** Why the try has failed; absent: the try does not count. */
      readonly failure?: string;
      readonly priority?: number;
      readonly name?: string;
      /** JSON. */
      readonly data?: string;
    }
  | { readonly kind: 'fail'; readonly reason: string };

/** The facts of a run, and its names. */
interface NamedFacts extends RunFacts {
  readonly key: string;
  readonly script: string;
  /** Present for a handler only. */
  readonly job?: { readonly id: number; readonly name: string };
}

/** The variables by which a run's process learns its facts. */
export function runVariables(facts: NamedFacts): Record<string, string> {
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

/** All variables that {@link runVariables} sets. */
export const runVariableNames = Object.keys(
  runVariables({
    ...{ key: '', script: '', job: { id: 0, name: '' } },
    ...{ scheduledFor: null, latenessMs: 0, attempt: 1, lastSuccess: null, previouslyCrashed: false },
  }),
);

function formatInstant(instant: number | null): string {
  return instant === null ? '' : new Date(instant).toISOString();
}

/** Largest data or result in a job's row. */
export const MAX_JSON_BYTES = 1024 * 1024;

/** SQLite accepts no deeper JSON. */
export const DEEPEST_JSON = 1000;

const [quote, backslash] = [0x22, 0x5c];
const opening: readonly number[] = [0x5b, 0x7b];
const closing: readonly number[] = [0x5d, 0x7d];

/** @param json must be valid JSON */
export function isTooDeep(json: string): boolean {
  // Most texts are too short to be nested too deep.
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
 * Assembles lines from the pieces in which they arrive; each line is one message.
 *
 * @param maxLength in characters; a longer line is passed on in parts: it is not a message, and must not fill the
 * memory
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

/** The expectation to name in a message, if JSON text exceeds what a job may hold; null: it does not. */
export function describeExcess(text: string): string | null {
  const bytes = Buffer.byteLength(text);
  if (bytes > MAX_JSON_BYTES) {
    return `JSON of at most 1 MiB, found ${bytes} bytes; put large data into a file and pass its name`;
  }
  return isTooDeep(text) ? `JSON nested at most ${DEEPEST_JSON} deep` : null;
}
