import type { ProbeResult } from '../../child/contract.ts';
import type { Counts } from '../../child/counts.ts';
import type { Exit } from '../start/process.ts';
import type { RunRequest } from '../start/request.ts';
import type { Watched } from '../watch/watch.ts';
import { fieldsOf, type HandlerReply, joinWarnings } from './handler-reply.ts';
import { describeScriptError, type KeptOutput, type Measurement, type RunEnd, roundMs } from './result.ts';
import { decideOutcome, describeEnd, describeWarnings, type EndFacts, findMemoryFailure } from './wording.ts';

/** All that is known of a run that has ended. */
export interface Evidence extends Omit<Watched, 'droppedBytes'> {
  /** Null: its process lives on. */
  readonly exit: Exit | null;
  readonly durationMs: number;
  /** What the process itself has told; null: nothing. */
  readonly result: ProbeResult | null;
  readonly measured: Measurement;
  readonly output: KeptOutput;
  readonly words: HandlerReply;
  readonly leftProcesses: number;
  readonly isDiskFull: boolean;
  /** Why it never came to its first line; null: it may have. */
  readonly startFailure: string | null;
  /** Why it was started a second time. */
  readonly firstFailure: string | null;
  /** It was ended because it wrote into the channel to the runner. */
  readonly isGarbled?: boolean;
  /** What it has counted; absent: nothing. */
  readonly counts?: Counts | undefined;
  /** What to say besides. */
  readonly notes?: readonly (string | null)[];
}

type EndRequest = Pick<RunRequest, 'script' | 'timeoutMs' | 'graceMs'>;

/** Puts together how a run ended: its process, or a handler alone. */
export function judgeEnd(request: EndRequest, evidence: Evidence): RunEnd {
  const { exit, result, measured, output, words, durationMs, counts, notes = [] } = evidence;
  const facts = collectFacts(request, evidence);
  const outcome = decideOutcome(facts, words.ask);
  const warnings = describeWarnings({ ...evidence, selfPeakBytes: result?.maxRssBytes ?? null });
  return {
    ...measured,
    outcome,
    finishedAt: Date.now(),
    durationMs: roundMs(durationMs),
    exitCode: exit?.code ?? null,
    signal: exit?.signal ?? null,
    reason: describeEnd(facts),
    warning: joinWarnings(warnings, words.warning, ...notes),
    // What the script's own `uncaughtException` handler dealt with is no cause of anything.
    error: outcome === 'succeeded' ? null : (result?.error ?? null),
    output,
    ...(counts && { counts }),
    ...fieldsOf(words, outcome),
  };
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
  };
}
