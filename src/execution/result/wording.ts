import { statfsSync } from 'node:fs';
import formatBytes from 'bytes';
import prettyMilliseconds from 'pretty-ms';
import type { HandlerDecision, Lingering, ProbeResult } from '../../child/contract.ts';
import { DOUBT } from '../../store/words.ts';
import { printableLine } from '../../system/base/text.ts';
import { readStartTicks } from '../../system/process/identity.ts';
import type { Exit, RunRequest } from '../start/process.ts';
import type { LeftProcess, MemoryExcess, MemoryWatch, Watched } from '../watch/watch.ts';
import { describeScriptError, type HandlerReply, joinWarnings } from './handler-reply.ts';
import type { KeptOutput, RunEnd } from './result.ts';
import type { Sign } from './signs.ts';

/** All known facts about a run that has ended. */
export interface EndFacts extends Omit<Watched, 'droppedBytes'> {
  readonly request: Pick<
    RunRequest,
    'script' | 'timeoutMs' | 'graceMs' | 'root' | 'environment' | 'variables' | 'given'
  >;
  /** Null: its process lives on. */
  readonly exit: Exit | null;
  readonly durationMs: number;
  /** The report of the process itself; null: none. */
  readonly result: ProbeResult | null;
  readonly output: KeptOutput;
  readonly words: HandlerReply;
  /** Processes that it left running. */
  readonly left: readonly LeftProcess[];
  /** Whether the disk for its output is full. */
  readonly isDiskFull: boolean;
  /** One sentence that says why it never came to its first line; null: it may have. */
  readonly startFailure: string | null;
  /** Why it was started a second time; null: it was not. */
  readonly firstFailure: string | null;
  /** The process was ended because it wrote into the channel to the runner. */
  readonly isGarbled?: boolean;
  /** Open resources that kept it running after its code had ended; absent or null: unknown. */
  readonly lingering?: Lingering | null;
}

/**
 * Judges how a run ended, with its reason: the first that applies. Null: it succeeded. `killed` means by a signal from
 * elsewhere; a signal of the runner is a time-out or a stop.
 *
 * @param cause the cause of its failure according to its output, and the cure; null: unknown
 */
export function concludeEnd(facts: EndFacts, cause: string | null): Pick<RunEnd, 'outcome' | 'reason'> {
  const { exit, termination, memory, startFailure, words } = facts;
  const failed = (reason: string) => ({ outcome: 'failed', reason }) as const;
  if (returnedBeforeEnd(facts) !== null) return { outcome: 'succeeded', reason: null };
  if (termination.cause === 'timeout') return { outcome: 'timed-out', reason: describeTimeout(facts) };
  if (termination.cause === 'stop')
    return failed(`stopped because the runner was stopped (Ctrl-C or kill), ${describeTermination(facts)}`);
  if (termination.stoppedBy !== null && !hasEndedItself(facts)) {
    const stopped = describeStoppedBy(termination.stoppedBy, facts.durationMs);
    return { outcome: 'stopped', reason: `${stopped}, ${describeTermination(facts)}` };
  }
  const excess = termination.cause === 'memory' ? (memory?.excess() ?? null) : null;
  if (excess !== null) return failed(describeMemory(excess, facts));
  if (startFailure !== null) return { outcome: 'not-started', reason: startFailure };
  if (facts.isGarbled) return failed(GARBLED);
  if (exit?.signal) return { outcome: 'killed', reason: describeSignal(exit.signal, facts) };
  const exitCode = exitCodeOf(facts);
  const outcome = judgeExit(exitCode, words.ask);
  if (outcome === 'succeeded') return { outcome, reason: null };
  const said = words.sentence || describeExit(exitCode, joinWarnings(describeScriptError(facts.result), cause));
  return { outcome, reason: said };
}

/** Whether a Node script had written down its end before the signal came that was to stop it. */
function hasEndedItself({ termination, exit, result }: EndFacts): boolean {
  return result !== null && !termination.killed && exit?.signal === 'SIGTERM';
}

/** "stopped by ada after 12s" */
export function describeStoppedBy(by: string, durationMs: number | null): string {
  const after = durationMs === null ? '' : ` after ${duration(durationMs)}`;
  return `stopped by ${printableLine(by)}${after}`;
}

/** A handler whose process lives on has ended well if it says so, and nothing else has ended it. */
function exitCodeOf({ exit, result, termination }: EndFacts): number | null {
  return exit === null && result?.exitCode === 0 && termination.cause === null ? 0 : (exit?.code ?? null);
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
  const { durationMs, lingering, request } = facts;
  const limit = `timed out after ${duration(durationMs)} (limit ${duration(request.timeoutMs)})`;
  return `${limit}, ${describeTermination(facts)}${lingering ? `; ${describeLingering(lingering)}` : ''}`;
}

/**
 * Resources that kept a process running until its time limit after its function had ended well; null: its function had
 * not ended, or not well.
 */
function returnedBeforeEnd(facts: EndFacts): Lingering | null {
  const { termination, lingering, exit, result } = facts;
  const isGood = !result?.error && (exit?.code ?? 0) === 0;
  return termination.cause === 'timeout' && lingering?.isFunction === true && isGood ? lingering : null;
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

function describeTermination({ termination, request, exit }: EndFacts): string {
  if (termination.killed) return `ended with SIGKILL after ${duration(request.graceMs)} of grace`;
  if (exit === null) return 'exited after SIGTERM';
  return exit.signal === null ? `exited with code ${exit.code} after SIGTERM` : `ended with ${exit.signal}`;
}

const GARBLED = 'it was ended because its process wrote to descriptor 4, which belongs to the runner';

const REFUSED_MEMORY = 'the host gave it no more memory: its limit of address space (ulimit -v) is reached';

/** These signals are V8's and the kernel's ways to report a limit. */
function describeSignal(signal: NodeJS.Signals, { sampled, output, request }: EndFacts): string {
  if (signal === 'SIGABRT' || signal === 'SIGTRAP') {
    // Either V8 asked the system for memory and got none, or it reached its own limit.
    if (/semi space failed|process out of memory|bad_alloc/.test(output.text)) return REFUSED_MEMORY;
    if (/heap out of memory/i.test(output.text)) return describeHeapLimit(request.script.options.memoryBytes);
  }
  if (signal === 'SIGXFSZ') return "killed by SIGXFSZ: a file grew beyond the host's limit of file size (ulimit -f)";
  if (signal === 'SIGXCPU') return 'killed by SIGXCPU: it used all the CPU time that the host allows (ulimit -t)';
  if (signal !== 'SIGKILL') return `killed by ${signal}, not by the runner`;
  const seen = sampled.maxRssBytes === null ? '' : ` (last seen ${size(sampled.maxRssBytes)})`;
  return `killed by SIGKILL, not by the runner: probably the host's memory limit${seen}`;
}

/** @param heapLimitBytes the limit that was set; undefined: V8's own */
function describeHeapLimit(heapLimitBytes: number | undefined): string {
  const limit = heapLimitBytes === undefined ? "V8's heap limit" : `heap limit of ${size(heapLimitBytes)}`;
  return `${limit} reached; raise it with @memory`;
}

const duration = (ms: number): string => prettyMilliseconds(Math.round(ms));
const size = (bytes: number): string =>
  formatBytes(bytes, { unitSeparator: ' ', decimalPlaces: 0 }) ?? `${bytes} bytes`;

/** All warnings in one line; null: none. */
export function describeWarnings(facts: EndFacts): string | null {
  return joinWarnings(
    describeSecondStart(facts),
    describeReturned(facts),
    describeUncalled(facts.result?.uncalled),
    facts.memory === null ? null : describeMemoryUsed(facts.memory, facts.result?.maxRssBytes ?? 0),
    facts.isDiskFull ? 'the disk was full when it ended: some of its output may be missing' : null,
    describeLeft(facts.left),
  );
}

function describeReturned(facts: EndFacts): string | null {
  const lingering = returnedBeforeEnd(facts);
  if (lingering === null) return null;
  const until = `until its time limit of ${duration(facts.request.timeoutMs)}`;
  return `${describeLingering(lingering)} ${until}: close it, or call process.exit() when all is done`;
}

function describeUncalled(uncalled: string | undefined): string | null {
  if (uncalled === undefined) return null;
  return `${printableLine(uncalled)}: export default a function, and the runner calls that`;
}

/** If both starts failed, the reason of the run tells why. */
function describeSecondStart({ firstFailure, startFailure }: EndFacts): string | null {
  if (firstFailure === null) return null;
  return startFailure === null ? `was started a second time; the first time: ${firstFailure}` : 'was started twice';
}

function describeMemoryUsed(memory: MemoryWatch, selfPeakBytes: number): string | null {
  const { warnBytes } = memory.limits;
  const peakBytes = Math.max(memory.peakBytes() ?? 0, selfPeakBytes);
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

/** Judges a run that ended by itself. A handler that asked for another try has not failed, unless it says so. */
export function judgeExit(
  exitCode: number | null,
  ask: HandlerDecision | undefined,
): 'succeeded' | 'released' | 'failed' {
  if (exitCode === 0) return 'succeeded';
  return ask?.kind === 'retry' && ask.failure === undefined ? 'released' : 'failed';
}
