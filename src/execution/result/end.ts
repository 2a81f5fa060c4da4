import type { Counts } from '../../child/counts.ts';
import { KNOWN_SIGNS } from '../../settings/readers.ts';
import { now } from '../../system/base/clock.ts';
import { plainText } from '../../system/base/text.ts';
import { fieldsOf, joinWarnings } from './handler-reply.ts';
import { type Measurement, type RunEnd, roundMs } from './result.ts';
import { findSigns, type Sign } from './signs.ts';
import { concludeEnd, describeSuspicion, describeWarnings, type EndFacts } from './wording.ts';

/** All facts that the end of a run is made of. */
interface Evidence extends EndFacts {
  readonly pid: number;
  readonly measured: Measurement;
  /** Its counts; absent: none. */
  readonly counts?: Counts | undefined;
  /** Further warnings. */
  readonly notes: readonly (string | null)[];
  /** Checks the output against the script's demands; returns why the run has failed by them, or null. */
  readonly findRefutation: () => Promise<string | null>;
}

/** Determines how a run ended: its process, or only its handler. */
export async function judgeEnd(evidence: Evidence): Promise<RunEnd> {
  const { exit, result, measured, output, words, counts, notes } = evidence;
  const { outcome, reason, suspicion } = await judge({
    ...evidence,
    output: { ...output, text: plainText(output.text) },
  });
  return {
    ...measured,
    outcome,
    finishedAt: now(),
    durationMs: roundMs(evidence.durationMs),
    exitCode: exit?.code ?? null,
    signal: exit?.signal ?? null,
    reason,
    warning: joinWarnings(suspicion, describeWarnings(evidence), words.warning, ...notes),
    suspect: suspicion !== null,
    // An error that the script's own `uncaughtException` handler dealt with is not a cause.
    error: outcome === 'succeeded' ? null : (result?.error ?? null),
    output,
    pid: evidence.pid,
    ...(counts && { counts }),
    ...fieldsOf(words, outcome),
  };
}

interface Judgement extends Pick<RunEnd, 'outcome' | 'reason'> {
  /** A reason to suspect the success; null: none. */
  readonly suspicion: string | null;
}

/** Judges by the process first; then the output may explain a failure, or refute a success. */
async function judge(evidence: Evidence): Promise<Judgement> {
  const { request, termination, output, findRefutation } = evidence;
  const plain = { ...concludeEnd(evidence, null), suspicion: null };
  const mayExplain = plain.outcome === 'failed' && termination.cause === null;
  if (!mayExplain && plain.outcome !== 'succeeded') return plain;
  const signs = findSigns(output.text);
  if (mayExplain) return { ...plain, ...concludeEnd(evidence, await findCause(evidence, signs)) };
  const refutation = await findRefutation();
  if (refutation !== null) return { outcome: 'failed', reason: refutation, suspicion: null };
  const { doubt, options } = request.script;
  const { failOn } = options;
  if (failOn?.length === 0) return plain;
  if (signs.length === 0) return { ...plain, suspicion: doubt ?? null };
  const suspicion = describeSuspicion(signs, await findCure(evidence, signs));
  return failOn?.includes(KNOWN_SIGNS)
    ? { outcome: 'failed', reason: suspicion, suspicion: null }
    : { ...plain, suspicion };
}

/** A Node script's own error tells more than its output. */
async function findCause(evidence: Evidence, signs: readonly Sign[]): Promise<string | null> {
  const said = evidence.request.script.launch.kind === 'node' ? null : (signs.at(-1)?.line ?? null);
  return joinWarnings(said, await findCure(evidence, signs));
}

/**
 * An ordinary run needs no cure, and does not load this module. While the package is replaced, no cure is available.
 */
async function findCure(evidence: Evidence, signs: readonly Sign[]): Promise<string | null> {
  const cures = await import('./cures.ts').catch(() => null);
  return cures?.describeCure(evidence, signs) ?? null;
}
