import { statfsSync } from 'node:fs';
import formatBytes from 'bytes';
import prettyMilliseconds from 'pretty-ms';
import type { HandlerDecision, Lingering } from '../../child/contract.ts';
import { DOUBT } from '../../store/words.ts';
import { printableLine } from '../../system/base/text.ts';
import { readStartTicks } from '../../system/process/identity.ts';
import type { Exit } from '../start/process.ts';
import type { Cause, LeftProcess } from '../watch/terminate.ts';
import type { MemoryExcess, MemoryWatch } from '../watch/watch.ts';
import type { RunEnd } from './result.ts';
import type { Sign } from './signs.ts';

/** All known facts about the end of a process, before they are put into words. */
export interface EndFacts {
  readonly exitCode: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly termination: Cause | null;
  /** Whether SIGTERM did not suffice to end it. */
  readonly killedAfterGrace: boolean;
  readonly timeoutMs: number;
  readonly graceMs: number;
  readonly durationMs: number;
  /** The excess of memory for which it was ended; null: it was not ended for memory. */
  readonly memoryExcess: MemoryExcess | null;
  /** One sentence that says why it never came to the script's first line; null: it may have. */
  readonly startFailure: string | null;
  /** The heap limit that was set; null: V8's own. */
  readonly heapLimitBytes: number | null;
  /** Why V8 ended it: V8's own limit was reached, or the system refused more memory. */
  readonly memoryFailure: 'heap-limit' | 'refused' | null;
  readonly lastSeenRssBytes: number | null;
  /** "TypeError: x is not a function", from a Node script. */
  readonly errorSentence: string | null;
  /** A handler's own sentence about its end; an exit code would add nothing to it. */
  readonly ownSentence?: string | null;
  /** The process was ended because it wrote into the channel to the runner. */
  readonly isGarbled?: boolean;
  /** Open resources that kept it running until its time limit after its code had ended; null: unknown. */
  readonly lingering: Lingering | null;
  /** Why it has failed although its exit code says otherwise. */
  readonly refutation: string | null;
  /** The cause of its failure according to its output, and the cure. */
  readonly cause: string | null;
}

/** All wording about how a run ended: the first reason that applies. Null: it succeeded. */
export function describeEnd(facts: EndFacts): string | null {
  if (hasReturned(facts)) return facts.refutation;
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

/** @param cure the cure that follows from the signs; null: unknown */
export function describeSuspicion([first, ...more]: readonly Sign[], cure: string | null): string {
  const rest = more.length === 0 ? '' : ` (and ${more.length} more)`;
  return `${DOUBT}${first?.line}${rest}${cure === null ? '' : `; ${cure}`}`;
}

/** "exit code 1: TypeError: x is not a function" */
export function describeExit(exitCode: number | null, errorSentence: string | null): string {
  const exit = `exit code ${exitCode}`;
  return errorSentence === null ? exit : `${exit}: ${errorSentence}`;
}

/** The reason of a run that died with its runner, or unseen after it. */
export function describeCrash(runner: string, output: string, lastSeenRssBytes: number | null): string {
  const lastLine = output.trimEnd().split('\n').at(-1) ?? '';
  const memory = lastSeenRssBytes === null ? '' : `; last seen with ${size(lastSeenRssBytes)}`;
  const seen = lastLine === '' ? '' : `; its last output line: ${lastLine.slice(0, 200)}`;
  return `the runner (${runner}) died while it ran${memory}${seen}`;
}

/** The reason of a run that outlived its runner and was ended at its time limit. */
export function describeOverdue(runner: string): string {
  return `ran into its time limit after its runner (${runner}) had died, and was ended`;
}

function describeTimeout(facts: EndFacts): string {
  const limit = `timed out after ${duration(facts.durationMs)} (limit ${duration(facts.timeoutMs)})`;
  return [`${limit}, ${describeTermination(facts)}`, facts.lingering && describeLingering(facts.lingering)]
    .filter((each) => each !== null)
    .join('; ');
}

/** Whether its function had ended, and only an open resource kept the process running until its time limit. */
function hasReturned(
  facts: Pick<EndFacts, 'termination' | 'lingering' | 'exitCode' | 'errorSentence'>,
): facts is EndFacts & { readonly lingering: Lingering } {
  const { termination, lingering, exitCode, errorSentence } = facts;
  const isGood = errorSentence === null && (exitCode === null || exitCode === 0);
  return termination === 'timeout' && lingering?.isFunction === true && isGood;
}

/** "its function returned after 40ms; an open server kept the process running" */
function describeLingering({ isFunction, afterMs, resources }: Lingering): string {
  const end = isFunction
    ? `its function returned after ${duration(afterMs ?? 0)}`
    : "its file's own code had run to its end";
  return `${end}; ${describeResources(resources)} kept the process running`;
}

/** Words for Node's own names of resources. */
const resourceWords: readonly (readonly [RegExp, string])[] = [
  [/^TCPServerWrap$/, 'an open server'],
  [/^(?:Timeout|Immediate)$/, 'a timer (setInterval or setTimeout)'],
  [/^(?:TCPSocketWrap|TLSWrap|UDPWrap|TCPConnectWrap)$/, 'an open connection'],
  [/^ProcessWrap$/, 'a process that it started'],
  [/^Pipe\w*$/, 'a pipe or a Unix socket'],
  [/^(?:FSEventWrap|StatWatcher)$/, 'a watched file'],
  [/^FSReq\w*$/, 'a file operation'],
  [/^(?:GetAddrInfoReqWrap|QueryReqWrap)$/, 'a DNS query'],
  [/^MessagePort$/, 'a channel of messages'],
];

/** Node does not list worker threads among its resources. */
const UNKNOWN_RESOURCE = 'something open, such as a worker thread,';

function describeResources(resources: readonly string[]): string {
  // A child process has pipes of its own, which need no mention.
  const own = resources.filter((name) => name !== 'PipeWrap' || !resources.includes('ProcessWrap'));
  const words = own.map((name) => resourceWords.find(([form]) => form.test(name))?.[1] ?? name);
  return words.length === 0 ? UNKNOWN_RESOURCE : [...new Set(words)].join(' and ');
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

/** These signals are the kernel's way to report a limit of the host. */
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

/** Facts from which the warnings of a run follow. */
interface WarningFacts {
  /** Null: the run has no limit of resident memory. */
  readonly memory: MemoryWatch | null;
  /** The peak that a Node script measured itself. */
  readonly selfPeakBytes: number | null;
  /** Whether the disk for its output is full. */
  readonly isDiskFull: boolean;
  /** Processes that it left running. */
  readonly left: readonly LeftProcess[];
  /** Why it had to be started a second time. */
  readonly firstFailure: string | null;
  /** Why the second start failed, too. */
  readonly startFailure: string | null;
  /** An export of a Node script that nothing calls; null: none. */
  readonly uncalled: string | null;
  readonly end: EndFacts;
}

/** All warnings in one line; null: none. */
export function describeWarnings(facts: WarningFacts): string | null {
  const all = [
    describeSecondStart(facts),
    describeReturned(facts.end),
    describeUncalled(facts.uncalled),
    facts.memory === null ? null : describeMemoryUsed(facts.memory, facts.selfPeakBytes),
    facts.isDiskFull ? 'the disk was full when it ended: some of its output may be missing' : null,
    describeLeft(facts.left),
  ].filter((each) => each !== null);
  return all.length === 0 ? null : all.join('; ');
}

function describeReturned(end: EndFacts): string | null {
  if (!hasReturned(end)) return null;
  const until = `until its time limit of ${duration(end.timeoutMs)}`;
  return `${describeLingering(end.lingering)} ${until}: close it, or call process.exit() when all is done`;
}

function describeUncalled(uncalled: string | null): string | null {
  if (uncalled === null) return null;
  return `${printableLine(uncalled)}: export default a function, and the runner calls that`;
}

/** If both starts failed, the reason of the run tells why. */
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

const MOST_NAMED = 5;

/** "left 1 process running: sleep (pid 4711); its further output is not kept" */
function describeLeft(left: readonly LeftProcess[]): string | null {
  if (left.length === 0) return null;
  const [processes, whose] = left.length === 1 ? ['1 process', 'its'] : [`${left.length} processes`, 'their'];
  const named = left.slice(0, MOST_NAMED).map(({ pid, name }) => `${printableLine(name)} (pid ${pid})`);
  const more = left.length > MOST_NAMED ? ` and ${left.length - MOST_NAMED} more` : '';
  return `left ${processes} running: ${named.join(', ')}${more}; ${whose} further output is not kept`;
}

/** Why V8 ended its own process, by its last words. */
export function findMemoryFailure({ signal }: Exit, text: string): EndFacts['memoryFailure'] {
  if (signal !== 'SIGABRT' && signal !== 'SIGTRAP') return null;
  // Either V8 asked the system for memory and got none, or it reached its own limit.
  if (/semi space failed|process out of memory|bad_alloc/.test(text)) return 'refused';
  return /heap out of memory/i.test(text) ? 'heap-limit' : null;
}

/** Less than the smallest file takes. */
const NOTHING_BYTES = 4096;

/** Whether nothing more can be written to a folder. The rest of a quota cannot be queried. */
export function isDiskFull(folder: string): boolean {
  try {
    const { bavail, bsize } = statfsSync(folder);
    return bavail * bsize < NOTHING_BYTES;
  } catch {
    return false;
  }
}

/** `killed` means by a signal from elsewhere; a signal of the runner is a time-out or a stop. */
export function decideOutcome(facts: EndFacts, ask?: HandlerDecision): RunEnd['outcome'] {
  if (facts.termination === 'timeout' && !hasReturned(facts)) return 'timed-out';
  if (facts.termination === 'stop' || facts.termination === 'memory') return 'failed';
  if (facts.startFailure !== null) return 'not-started';
  if (facts.isGarbled) return 'failed';
  if (hasReturned(facts)) return facts.refutation === null ? 'succeeded' : 'failed';
  if (facts.signal !== null) return 'killed';
  return facts.refutation === null ? judgeExit(facts.exitCode, ask) : 'failed';
}

/** Judges a run that ended by itself. A handler that asked for another try has not failed, unless it says so. */
export function judgeExit(
  exitCode: number | null,
  ask: HandlerDecision | undefined,
): 'succeeded' | 'released' | 'failed' {
  if (exitCode === 0) return 'succeeded';
  return ask?.kind === 'retry' && ask.failure === undefined ? 'released' : 'failed';
}
