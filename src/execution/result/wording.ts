import { statfsSync } from 'node:fs';
import formatBytes from 'bytes';
import prettyMilliseconds from 'pretty-ms';
import type { HandlerDecision } from '../../child/contract.ts';
import { DOUBT } from '../../store/words.ts';
import { readStartTicks } from '../../system/process/identity.ts';
import type { Exit } from '../start/process.ts';
import type { Cause } from '../watch/terminate.ts';
import type { MemoryExcess, MemoryWatch } from '../watch/watch.ts';
import type { RunEnd } from './result.ts';
import type { Sign } from './signs.ts';

/** Everything that is known about the end of a process, before it has words. */
export interface EndFacts {
  readonly exitCode: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly termination: Cause | null;
  /** Whether SIGTERM was not enough to end it. */
  readonly killedAfterGrace: boolean;
  readonly timeoutMs: number;
  readonly graceMs: number;
  readonly durationMs: number;
  /** What it was ended for, if that was its memory. */
  readonly memoryExcess: MemoryExcess | null;
  /** Why it never came to the script's first line, in one sentence; null: it may have. */
  readonly startFailure: string | null;
  /** The heap limit that was set; null: V8's own. */
  readonly heapLimitBytes: number | null;
  /** What V8 ended it for: its own limit, or that the system gave it nothing more. */
  readonly memoryFailure: 'heap-limit' | 'refused' | null;
  readonly lastSeenRssBytes: number | null;
  /** "TypeError: x is not a function", of a Node script. */
  readonly errorSentence: string | null;
  /** What a handler itself says of its end; an exit code would add nothing to it. */
  readonly ownSentence?: string | null;
  /** It was ended because it wrote into the channel to the runner. */
  readonly isGarbled?: boolean;
  /** Why it has failed though its exit code says otherwise. */
  readonly refutation: string | null;
  /** What its output tells of the cause of its failure, and the cure. */
  readonly cause: string | null;
}

/** All wording about how a run ended: the first reason that applies. Null: it succeeded. */
export function describeEnd(facts: EndFacts): string | null {
  if (facts.termination === 'timeout') return describeTimeout(facts);
  if (facts.termination === 'stop')
    return `stopped because the runner was stopped (Ctrl-C or kill), ${describeTermination(facts)}`;
  if (facts.memoryExcess !== null) return describeMemory(facts.memoryExcess, facts);
  if (facts.startFailure !== null) return facts.startFailure;
  if (facts.memoryFailure === 'heap-limit') return describeHeapLimit(facts.heapLimitBytes);
  if (facts.memoryFailure === 'refused') return REFUSED_MEMORY;
  if (facts.isGarbled) return GARBLED;
  if (facts.signal === 'SIGKILL') return describeForeignKill(facts.lastSeenRssBytes);
  if (facts.signal !== null) return describeSignal(facts.signal);
  if (facts.exitCode === 0) return facts.refutation;
  if (facts.ownSentence) return facts.ownSentence;
  return describeExit(facts.exitCode, joinCause(facts.errorSentence, facts.cause));
}

function joinCause(error: string | null, cause: string | null): string | null {
  return error === null || cause === null ? (error ?? cause) : `${error}; ${cause}`;
}

/** @param cure what follows from it; null: nothing is known */
export function describeDoubt([first, ...more]: readonly Sign[], cure: string | null): string {
  const rest = more.length === 0 ? '' : ` (and ${more.length} more)`;
  return `${DOUBT}${first?.line}${rest}${cure === null ? '' : `; ${cure}`}`;
}

/** "exit code 1: TypeError: x is not a function" */
export function describeExit(exitCode: number | null, errorSentence: string | null): string {
  const exit = `exit code ${exitCode}`;
  return errorSentence === null ? exit : `${exit}: ${errorSentence}`;
}

/** What is known of a run that ended with its runner, or unseen after it. */
export function describeCrash(runner: string, output: string, lastSeenRssBytes: number | null): string {
  const lastLine = output.trimEnd().split('\n').at(-1) ?? '';
  const memory = lastSeenRssBytes === null ? '' : `; last seen with ${size(lastSeenRssBytes)}`;
  const seen = lastLine === '' ? '' : `; its last output line: ${lastLine.slice(0, 200)}`;
  return `the runner (${runner}) died while it ran${memory}${seen}`;
}

/** How a run ended that outlived its runner. */
export function describeOverdue(runner: string): string {
  return `ran into its time limit after its runner (${runner}) had died, and was ended`;
}

function describeTimeout(facts: EndFacts): string {
  const limit = `timed out after ${duration(facts.durationMs)} (limit ${duration(facts.timeoutMs)})`;
  return `${limit}, ${describeTermination(facts)}`;
}

function describeMemory(excess: MemoryExcess, facts: EndFacts): string {
  const lasting = excess.forMs === 0 ? '' : ` for ${duration(excess.forMs)}`;
  const used = `used ${size(excess.usedBytes)} of resident memory${lasting}`;
  return `${used} (limit ${size(excess.limitBytes)}), ${describeTermination(facts)}`;
}

function describeTermination(facts: EndFacts): string {
  if (facts.killedAfterGrace) return `ended with SIGKILL after ${duration(facts.graceMs)} of grace`;
  if (facts.signal === null && facts.exitCode === null) return 'exited after SIGTERM';
  return facts.signal === null ? `exited with code ${facts.exitCode} after SIGTERM` : `ended with ${facts.signal}`;
}

function describeHeapLimit(heapLimitBytes: number | null): string {
  if (heapLimitBytes === null) return "V8's heap limit reached; raise it with @memory";
  return `heap limit of ${size(heapLimitBytes)} reached; raise it with @memory`;
}

const REFUSED_MEMORY = 'the host gave it no more memory: its limit of address space (ulimit -v) is reached';

const GARBLED = 'it was ended because its process wrote to descriptor 4, which belongs to the runner';

function describeForeignKill(lastSeenRssBytes: number | null): string {
  const seen = lastSeenRssBytes === null ? '' : ` (last seen ${size(lastSeenRssBytes)})`;
  return `killed by SIGKILL, not by the runner: probably the host's memory limit${seen}`;
}

/** The kernel's way of saying that a limit of the host is reached. */
function describeSignal(signal: NodeJS.Signals): string {
  if (signal === 'SIGXFSZ') {
    return "killed by SIGXFSZ: a file grew beyond the host's limit of file size (ulimit -f)";
  }
  if (signal === 'SIGXCPU') {
    return 'killed by SIGXCPU: it used all the CPU time that the host allows (ulimit -t)';
  }
  return `killed by ${signal}, not by the runner`;
}

const duration = (ms: number): string => prettyMilliseconds(Math.round(ms));
const size = (bytes: number): string =>
  formatBytes(bytes, { unitSeparator: ' ', decimalPlaces: 0 }) ?? `${bytes} bytes`;

/** What is noted of a run though it did not end it. */
interface WarningFacts {
  /** Null: it has no limit of resident memory. */
  readonly memory: MemoryWatch | null;
  /** The peak that a Node script measured itself. */
  readonly selfPeakBytes: number | null;
  /** Whether the disk of its output has no room left. */
  readonly isDiskFull: boolean;
  /** How many processes it left running. */
  readonly leftProcesses: number;
  /** Why it had to be started a second time. */
  readonly firstFailure: string | null;
  /** Why that failed, too. */
  readonly startFailure: string | null;
}

/** All of them in one line; null: nothing to note. */
export function describeWarnings(facts: WarningFacts): string | null {
  const all = [
    describeSecondStart(facts),
    facts.memory === null ? null : describeMemoryUsed(facts.memory, facts.selfPeakBytes),
    facts.isDiskFull ? 'the disk was full when it ended: some of its output may be missing' : null,
    describeLeft(facts.leftProcesses),
  ].filter((each) => each !== null);
  return all.length === 0 ? null : all.join('; ');
}

/** Of one that failed both times, the reason tells. */
function describeSecondStart({ firstFailure, startFailure }: WarningFacts): string | null {
  if (firstFailure === null) return null;
  return startFailure === null ? `was started a second time; the first time: ${firstFailure}` : 'was started twice';
}

function describeMemoryUsed(memory: MemoryWatch, selfPeakBytes: number | null): string | null {
  const { warnBytes } = memory.limits;
  const peakBytes = Math.max(memory.peakBytes() ?? 0, selfPeakBytes ?? 0);
  if (readStartTicks(process.pid) === null)
    return 'its limits of resident memory could not be watched: there is no /proc';
  if (warnBytes === null || peakBytes <= warnBytes) return null;
  return `used ${size(peakBytes)} of resident memory, more than its warning limit of ${size(warnBytes)}`;
}

function describeLeft(count: number): string | null {
  if (count === 0) return null;
  const processes = count === 1 ? '1 process' : `${count} processes`;
  return `left ${processes} running, and their further output is not kept`;
}

/** What V8 ended its own process for, by its last words. */
export function findMemoryFailure({ signal }: Exit, text: string): EndFacts['memoryFailure'] {
  if (signal !== 'SIGABRT' && signal !== 'SIGTRAP') return null;
  // Either it asked the system and got nothing, or it kept to a limit of its own.
  if (/semi space failed|process out of memory|bad_alloc/.test(text)) return 'refused';
  return /heap out of memory/i.test(text) ? 'heap-limit' : null;
}

/** Less than the smallest file takes. */
const NOTHING_BYTES = 4096;

/** Whether nothing more can be written to a folder; what a used up quota leaves cannot be asked. */
export function isDiskFull(folder: string): boolean {
  try {
    const { bavail, bsize } = statfsSync(folder);
    return bavail * bsize < NOTHING_BYTES;
  } catch {
    return false;
  }
}

/** `killed` means by a signal that was not ours; one of ours is a time-out or a stop. */
export function decideOutcome(facts: EndFacts, ask?: HandlerDecision): RunEnd['outcome'] {
  if (facts.termination === 'timeout') return 'timed-out';
  if (facts.termination === 'stop' || facts.termination === 'memory') return 'failed';
  if (facts.startFailure !== null) return 'not-started';
  if (facts.isGarbled) return 'failed';
  if (facts.signal !== null) return 'killed';
  return facts.refutation === null ? judgeExit(facts.exitCode, ask) : 'failed';
}

/** Of what came to its end alone: a handler that asked for another try has not failed. */
export function judgeExit(
  exitCode: number | null,
  ask: HandlerDecision | undefined,
): 'succeeded' | 'released' | 'failed' {
  if (exitCode === 0) return 'succeeded';
  return ask?.kind === 'retry' ? 'released' : 'failed';
}
