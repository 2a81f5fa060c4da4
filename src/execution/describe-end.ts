import formatBytes from 'bytes';
import prettyMilliseconds from 'pretty-ms';

/** Everything that is known about the end of a process, before it has words. */
export interface EndFacts {
  readonly exitCode: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly termination: 'timeout' | 'stop' | null;
  /** Whether SIGTERM was not enough to end it. */
  readonly killedAfterGrace: boolean;
  readonly timeoutMs: number;
  readonly graceMs: number;
  readonly durationMs: number;
  /** The heap limit that was set; null: V8's own. */
  readonly heapLimitBytes: number | null;
  readonly reachedHeapLimit: boolean;
  readonly lastSeenRssBytes: number | null;
  /** "TypeError: x is not a function", of a Node script. */
  readonly errorSentence: string | null;
}

/** All wording about how a run ended: the first reason that applies. Null: it succeeded. */
export function describeEnd(facts: EndFacts): string | null {
  if (facts.termination === 'timeout') return describeTimeout(facts);
  if (facts.termination === 'stop') return `stopped with the runner, ${describeTermination(facts)}`;
  if (facts.reachedHeapLimit) return describeHeapLimit(facts.heapLimitBytes);
  if (facts.signal === 'SIGKILL') return describeForeignKill(facts.lastSeenRssBytes);
  if (facts.signal !== null) return `killed by ${facts.signal}, not by the runner`;
  if (facts.exitCode === 0) return null;
  return describeExit(facts.exitCode, facts.errorSentence);
}

/** "exit code 1: TypeError: x is not a function" */
export function describeExit(exitCode: number | null, errorSentence: string | null): string {
  const exit = `exit code ${exitCode}`;
  return errorSentence === null ? exit : `${exit}: ${errorSentence}`;
}

/** What is known of a run that ended with its runner, or unseen after it. */
export function describeCrash(runner: string, output: string): string {
  const lastLine = output.trimEnd().split('\n').at(-1) ?? '';
  const seen = lastLine === '' ? '' : `; its last output line: ${lastLine.slice(0, 200)}`;
  return `the runner (${runner}) died while it ran${seen}`;
}

/** How a run ended that outlived its runner. */
export function describeOverdue(runner: string): string {
  return `ran into its time limit after its runner (${runner}) had died, and was ended`;
}

/** Why a script could not even be started. */
export function describeNotStarted(error: NodeJS.ErrnoException, program: string): string {
  if (error.code === 'ENOENT') return `interpreter not found: ${program}`;
  if (error.code === 'EACCES') return `not allowed to execute ${program}`;
  if (error.code === 'EAGAIN') {
    return `no process could be started for ${program}: the limit of processes is reached`;
  }
  return `could not start ${program}: ${error.message}`;
}

/** A full disk, or a state folder that somebody else has changed. */
export function describeNoFiles(error: NodeJS.ErrnoException): string {
  return `no place for its output or its temporary files: ${error.message}`;
}

function describeTimeout(facts: EndFacts): string {
  const limit = `timed out after ${duration(facts.durationMs)} (limit ${duration(facts.timeoutMs)})`;
  return `${limit}, ${describeTermination(facts)}`;
}

function describeTermination(facts: EndFacts): string {
  if (facts.killedAfterGrace) return `ended with SIGKILL after ${duration(facts.graceMs)} of grace`;
  return facts.signal === null
    ? `ended itself with exit code ${facts.exitCode} after SIGTERM`
    : `ended with ${facts.signal}`;
}

function describeHeapLimit(heapLimitBytes: number | null): string {
  if (heapLimitBytes === null) return "V8's heap limit reached; raise it with @memory";
  return `heap limit of ${size(heapLimitBytes)} reached`;
}

function describeForeignKill(lastSeenRssBytes: number | null): string {
  const seen = lastSeenRssBytes === null ? '' : ` (last seen ${size(lastSeenRssBytes)})`;
  return `killed by SIGKILL, not by the runner: probably the host's memory limit${seen}`;
}

const duration = (ms: number): string => prettyMilliseconds(Math.round(ms));
const size = (bytes: number): string =>
  formatBytes(bytes, { unitSeparator: ' ', decimalPlaces: 0 }) ?? `${bytes} bytes`;
