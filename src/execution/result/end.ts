import type { Lingering, ProbeResult } from '../../child/contract.ts';
import type { Counts } from '../../child/counts.ts';
import { KNOWN_SIGNS } from '../../settings/readers.ts';
import { now } from '../../system/base/clock.ts';
import { plainText } from '../../system/base/text.ts';
import type { Exit } from '../start/process.ts';
import type { RunRequest } from '../start/request.ts';
import type { LeftProcess } from '../watch/terminate.ts';
import type { Watched } from '../watch/watch.ts';
import { fieldsOf, type HandlerReply, joinWarnings } from './handler-reply.ts';
import { describeScriptError, type KeptOutput, type Measurement, type RunEnd, roundMs } from './result.ts';
import { findSigns, type Sign } from './signs.ts';
import {
  decideOutcome,
  describeEnd,
  describeSuspicion,
  describeWarnings,
  type EndFacts,
  findMemoryFailure,
} from './wording.ts';

/** All known facts about a run that has ended. */
export interface Evidence extends Omit<Watched, 'droppedBytes'> {
  /** Null: its process lives on. */
  readonly exit: Exit | null;
  readonly pid: number;
  readonly durationMs: number;
  /** The report of the process itself; null: none. */
  readonly result: ProbeResult | null;
  readonly measured: Measurement;
  readonly output: KeptOutput;
  readonly words: HandlerReply;
  /** Processes that it left running. */
  readonly left: readonly LeftProcess[];
  readonly isDiskFull: boolean;
  /** Why it never came to its first line; null: it may have. */
  readonly startFailure: string | null;
  /** Why it was started a second time; null: it was not. */
  readonly firstFailure: string | null;
  /** The process was ended because it wrote into the channel to the runner. */
  readonly isGarbled?: boolean;
  /** Open resources that kept it running after its code had ended; absent or null: unknown. */
  readonly lingering?: Lingering | null;
  /** Its counts; absent: none. */
  readonly counts?: Counts | undefined;
  /** Further warnings. */
  readonly notes?: readonly (string | null)[];
  /** Checks the output against the script's demands; returns why the run has failed by them, or null. */
  readonly findRefutation: () => Promise<string | null>;
}

type EndRequest = Pick<RunRequest, 'script' | 'timeoutMs' | 'graceMs' | 'root' | 'environment' | 'variables'>;

/** Determines how a run ended: its process, or only its handler. */
export async function judgeEnd(request: EndRequest, evidence: Evidence): Promise<RunEnd> {
  const { exit, result, measured, output, words, durationMs, counts, notes = [] } = evidence;
  const plain = { ...evidence, output: { ...output, text: plainText(output.text) } };
  const seen = collectFacts(request, plain);
  const { suspicion, ...said } = await readSaid(request, plain, seen);
  const facts = { ...seen, ...said };
  const outcome = decideOutcome(facts, words.ask);
  const isSuspect = outcome === 'succeeded' && suspicion !== null;
  const warnings = describeWarnings({
    ...evidence,
    selfPeakBytes: result?.maxRssBytes ?? null,
    uncalled: result?.uncalled ?? null,
    end: facts,
  });
  return {
    ...measured,
    outcome,
    finishedAt: now(),
    durationMs: roundMs(durationMs),
    exitCode: exit?.code ?? null,
    signal: exit?.signal ?? null,
    reason: describeEnd(facts),
    warning: joinWarnings(isSuspect ? suspicion : null, warnings, words.warning, ...notes),
    suspect: isSuspect,
    // An error that the script's own `uncaughtException` handler dealt with is not a cause.
    error: outcome === 'succeeded' ? null : (result?.error ?? null),
    output,
    pid: evidence.pid,
    ...(counts && { counts }),
    ...fieldsOf(words, outcome),
  };
}

/** The statements of the output about the end. */
interface Said extends Pick<EndFacts, 'refutation' | 'cause'> {
  /** A reason to suspect the success; null: none. */
  readonly suspicion: string | null;
}

const nothingSaid: Said = { refutation: null, cause: null, suspicion: null };

async function readSaid(request: EndRequest, evidence: Evidence, seen: EndFacts): Promise<Said> {
  const outcome = decideOutcome(seen, evidence.words.ask);
  const signs = findSigns(evidence.output.text);
  if (outcome === 'failed' && seen.termination === null) {
    return { ...nothingSaid, cause: describeCause(request, signs, await explain(request, evidence, signs)) };
  }
  if (outcome !== 'succeeded') return nothingSaid;
  const refutation = await evidence.findRefutation();
  const { failOn } = request.script.options;
  const mayBeSaid = signs.length === 0 || failOn?.length === 0;
  if (mayBeSaid || refutation !== null) return { ...nothingSaid, refutation };
  const suspicion = describeSuspicion(signs, await explain(request, evidence, signs));
  return failOn?.includes(KNOWN_SIGNS) ? { ...nothingSaid, refutation: suspicion } : { ...nothingSaid, suspicion };
}

/** A Node script's own error tells more than its output. */
function describeCause({ script }: EndRequest, signs: readonly Sign[], cure: string | null): string | null {
  const said = script.launch.kind === 'node' ? null : (signs.at(-1)?.line ?? null);
  return said === null || cure === null ? (said ?? cure) : `${said}; ${cure}`;
}

/**
 * An ordinary run needs no cure, and does not load this module. While the package is replaced, no cure is available.
 */
async function explain(request: EndRequest, evidence: Evidence, signs: readonly Sign[]): Promise<string | null> {
  const causes = await import('./causes.ts').catch(() => null);
  return causes?.findCure(request, evidence, signs) ?? null;
}

function collectFacts(request: EndRequest, evidence: Evidence): EndFacts {
  const { exit, result, termination, memory, sampled, output, words } = evidence;
  const isFine = exit === null && result?.exitCode === 0 && termination.cause === null;
  return {
    exitCode: isFine ? 0 : (exit?.code ?? null),
    signal: exit?.signal ?? null,
    termination: termination.cause,
    killedAfterGrace: termination.killed,
    memoryExcess: termination.cause === 'memory' ? (memory?.excess() ?? null) : null,
    startFailure: evidence.startFailure,
    timeoutMs: request.timeoutMs,
    graceMs: request.graceMs,
    durationMs: evidence.durationMs,
    heapLimitBytes: request.script.options.memoryBytes ?? null,
    memoryFailure: exit && findMemoryFailure(exit, output.text),
    lastSeenRssBytes: sampled.maxRssBytes,
    errorSentence: describeScriptError(result),
    ownSentence: words.sentence,
    isGarbled: evidence.isGarbled ?? false,
    lingering: evidence.lingering ?? null,
    refutation: null,
    cause: null,
  };
}
