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
  describeDoubt,
  describeEnd,
  describeWarnings,
  type EndFacts,
  findMemoryFailure,
} from './wording.ts';

/** All that is known of a run that has ended. */
export interface Evidence extends Omit<Watched, 'droppedBytes'> {
  /** Null: its process lives on. */
  readonly exit: Exit | null;
  readonly pid: number;
  readonly durationMs: number;
  /** What the process itself has told; null: nothing. */
  readonly result: ProbeResult | null;
  readonly measured: Measurement;
  readonly output: KeptOutput;
  readonly words: HandlerReply;
  /** What it left running. */
  readonly left: readonly LeftProcess[];
  readonly isDiskFull: boolean;
  /** Why it never came to its first line; null: it may have. */
  readonly startFailure: string | null;
  /** Why it was started a second time. */
  readonly firstFailure: string | null;
  /** It was ended because it wrote into the channel to the runner. */
  readonly isGarbled?: boolean;
  /** What kept it running though its code had come to its end; absent: nothing is known. */
  readonly lingering?: Lingering | null;
  /** What it has counted; absent: nothing. */
  readonly counts?: Counts | undefined;
  /** What to say besides. */
  readonly notes?: readonly (string | null)[];
  /** Reads why it has failed by what its script demands of its output; null: it has not. */
  readonly findRefutation: () => Promise<string | null>;
}

type EndRequest = Pick<RunRequest, 'script' | 'timeoutMs' | 'graceMs' | 'root' | 'environment' | 'variables'>;

/** Puts together how a run ended: its process, or a handler alone. */
export async function judgeEnd(request: EndRequest, evidence: Evidence): Promise<RunEnd> {
  const { exit, result, measured, output, words, durationMs, counts, notes = [] } = evidence;
  const plain = { ...evidence, output: { ...output, text: plainText(output.text) } };
  const seen = collectFacts(request, plain);
  const { doubt, ...said } = await readSaid(request, plain, seen);
  const facts = { ...seen, ...said };
  const outcome = decideOutcome(facts, words.ask);
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
    warning: joinWarnings(outcome === 'succeeded' ? doubt : null, warnings, words.warning, ...notes),
    // What the script's own `uncaughtException` handler dealt with is no cause of anything.
    error: outcome === 'succeeded' ? null : (result?.error ?? null),
    output,
    pid: evidence.pid,
    ...(counts && { counts }),
    ...fieldsOf(words, outcome),
  };
}

/** What the output says of the end, and whether that counts. */
interface Said extends Pick<EndFacts, 'refutation' | 'cause'> {
  /** What makes its success doubtful; null: nothing. */
  readonly doubt: string | null;
}

const nothingSaid: Said = { refutation: null, cause: null, doubt: null };

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
  const doubt = describeDoubt(signs, await explain(request, evidence, signs));
  return failOn?.includes(KNOWN_SIGNS) ? { ...nothingSaid, refutation: doubt } : { ...nothingSaid, doubt };
}

/** A Node script's own error says more than what it has printed. */
function describeCause({ script }: EndRequest, signs: readonly Sign[], cure: string | null): string | null {
  const said = script.launch.kind === 'node' ? null : (signs.at(-1)?.line ?? null);
  return said === null || cure === null ? (said ?? cure) : `${said}; ${cure}`;
}

/** Ordinary runs need no cure, and do not load it. While the package is replaced there is none. */
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
